"""Eigenvalues of any dense matrix in one compiled call, and their cotangents: against 50 digits, for every
dtype, size and shape; what has no derivative is refused as without compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy.linalg import block_diag

import ldiv
from ldiv.engines.factors.spectral_calls import GeneralPairCalls, GeneralValueCalls
from ldiv.engines.libraries import native

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
KINDS = (ldiv.NotDifferentiableError, jax.errors.JaxRuntimeError)


def drawn(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return (x / np.sqrt(shape[-1])).astype(dtype)


def gradient(a: Any, lam: Any, lam_bar: Any) -> Any:
    """V^-H diag(lam_bar) V^H of the eigenvalues that are nearest to `lam`, by 50 digits."""
    with mpmath.workdps(50):
        values, v = mpmath.eig(mpmath.matrix(a.tolist()))
        found = np.array([complex(z) for z in values])
        nearest = [int(np.argmin(abs(lam - z))) for z in found]
        assert sorted(nearest) == [*range(len(lam))]
        d = mpmath.diag([mpmath.mpmathify(complex(lam_bar[i])) for i in nearest])
        x = mpmath.inverse(v).H * d * v.H
    whole = np.array([complex(z) for z in x]).reshape(a.shape)
    return whole if a.dtype.kind == "c" else whole.real


@pytest.fixture(params=["compiled", "careful"])
def either_way(request: Any, monkeypatch: Any) -> Iterator[None]:
    """Run with compiled code, if there is any, and without."""
    if request.param == "careful":
        monkeypatch.setattr(native, "native", None)
    elif native.native is None:
        pytest.skip(native.why_not)
    ldiv.clear_cache()
    yield
    ldiv.clear_cache()


def gradients(loss: Callable[[Any], Any], a: Any) -> Iterator[Callable[[], Any]]:
    """The gradient of a loss in PyTorch, and in JAX at once and in a program."""
    given = torch.tensor(a, requires_grad=True)
    yield lambda: torch.autograd.grad(loss(given), given)[0].numpy()
    yield lambda: np.conj(jax.grad(loss)(jnp.asarray(a)))  # JAX's has the other sign
    yield lambda: np.conj(jax.jit(jax.grad(loss))(a))


@compiled
@DTYPES
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 7, 7), (12, 12)])
def test_pairs_and_cotangents(shape: tuple[int, ...], dtype: str) -> None:
    a, calls, eps = drawn(dtype, *shape), GeneralPairCalls(), np.finfo(dtype).eps
    out, _ = calls.forward(a)
    lam, v, size, h = out
    assert abs(a @ v - v * lam[..., None, :]).max() < 50 * eps and not size.any()
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), np.ones(lam.shape), rtol=10 * eps)
    np.testing.assert_array_equal(h, lam[..., None] * np.eye(shape[-1]))
    (alone,), _ = GeneralValueCalls().forward(a)
    np.testing.assert_allclose(np.sort_complex(alone), np.sort_complex(lam), atol=50 * eps)
    if dtype[0] == "f":
        np.testing.assert_array_equal(np.sort_complex(lam), np.sort_complex(lam.conj()))
    lam_bar = drawn("complex128", *lam.shape).astype(lam.dtype)
    (found,) = calls.backward(None, [True], (lam_bar, None, None, None), out, a)
    assert found.dtype == a.dtype
    n = shape[-1]
    for g, *of in zip(
        *(
            x.reshape(-1, *x.shape[x.ndim - k :])
            for x, k in ((found, 2), (a, 2), (lam, 1), (lam_bar, 1))
        ),
        strict=True,
    ):
        expected = gradient(*of)
        assert abs(g - expected).max() <= 100 * n * eps * abs(expected).max()


@pytest.mark.usefixtures("either_way")
@DTYPES
def test_frameworks_agree_with_fifty_digits(dtype: str) -> None:
    a = drawn(dtype, 6, 6)
    lam, enough = ldiv.eigvals(a), 2e3 * np.finfo(dtype).eps
    expected = gradient(a, lam, 3 * lam * abs(lam))
    for g in gradients(lambda a: (abs(ldiv.eigvals(a)) ** 3).sum(), a):
        assert abs(g() - expected).max() <= enough * abs(expected).max()


@compiled
def test_values_alone_find_no_vectors(monkeypatch: Any) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("vectors were found")

    a = drawn("float64", 5, 5)
    monkeypatch.setattr(GeneralPairCalls, "forward", never)
    for given in (a, torch.tensor(a), torch.tensor(a * 2.0**-600), jnp.asarray(a)):
        ldiv.eigvals(given)
    with torch.no_grad():
        ldiv.eigvals(torch.tensor(a, requires_grad=True))
    with pytest.raises(AssertionError, match="vectors were found"):
        ldiv.eigvals(torch.tensor(a, requires_grad=True))


@compiled
def test_programs_are_calls() -> None:
    def loss(a: Any) -> Any:
        return (abs(ldiv.eigvals(a)) ** 3).sum()

    for f, row, count in ((ldiv.eigvals, "eigvals", 1), (jax.grad(loss), "eig", 2)):
        text = jax.jit(f).lower(drawn("float64", 5, 5)).as_text()
        assert f'"{row}"' in text and "callback" not in text and text.count('"compute"') == count


@pytest.mark.parametrize("wrap", [pytest.param(lambda f: f, marks=pytest.mark.exhaustive), jax.jit])
def test_every_mode_and_order(wrap: Any) -> None:
    """JAX's own, which has first derivatives alone, and complex steps of these."""
    a = jnp.asarray(drawn("float64", 4, 4))
    own, theirs = (
        lambda a, e=e: (abs(e(a)) ** 3).sum() for e in (ldiv.eigvals, jnp.linalg.eigvals)
    )
    near = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    near(wrap(jax.jacfwd(own))(a), jax.grad(theirs)(a))
    near(
        wrap(jax.vmap(jax.grad(own)))(jnp.stack([a, a.T])), [jax.grad(theirs)(x) for x in (a, a.T)]
    )
    hessian, step = wrap(jax.hessian(own))(a), 1e-5
    for i, j in ((0, 1), (2, 2)):
        up, down = (jax.grad(own)(a.at[i, j].add(s)) for s in (step, -step))
        np.testing.assert_allclose(hessian[i, j], (up - down) / (2 * step), rtol=1e-6, atol=1e-6)
    near(wrap(jax.jacrev(jax.grad(own)))(a), hessian)
    t = torch.tensor(np.asarray(a))
    near(torch.func.hessian(own)(t), hessian)
    near(torch.func.jacfwd(own)(t), jax.grad(theirs)(a))


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("power", [-1000, -300, -60, 60, 300, 1000])
def test_units(power: int) -> None:
    a, t = drawn("float64", 5, 5), 2.0**power
    np.testing.assert_array_equal(ldiv.eigvals(a * t), ldiv.eigvals(a) * t)
    scaled, plain = (gradients(lambda a: abs(ldiv.eigvals(a)).sum(), x) for x in (a * t, a))
    for g, one in zip(scaled, plain, strict=True):
        np.testing.assert_allclose(g(), one(), rtol=1e-11, atol=1e-12)


def jordan(n: int) -> Any:
    return np.diag(np.full(n, 2.0)) + np.eye(n, k=1)


def of_roots(*roots: float) -> Any:
    """A companion matrix."""
    c = np.poly(roots)
    a = np.eye(len(roots), k=-1)
    a[0] = -c[1:]
    return a


TURN = np.linalg.qr(drawn("float64", 4, 4))[0]
SHEAR = np.eye(4) + drawn("float64", 4, 4)
DEFECTIVE = {
    "a Jordan block": jordan(4),
    "its turn": TURN @ jordan(4) @ TURN.T,
    "nearly one": jordan(2) + np.array([[0, 0], [1e-17, 0]]),
    "with a small coupling": np.array([[1.0, 1e-9], [0, 1]]),
    "triple roots": of_roots(1, 1, 1, 3),
    "a pair": np.kron(np.eye(2), [[0, 1.0], [-1, 0]]) + np.eye(4, k=2),
}
REPEATED = {
    "twice": np.array([[2.0, 0, 1], [0, 2, 1], [0, 0, 5]]),
    "beside each other": SHEAR @ np.diag([1.0, 1, 2, 3]) @ np.linalg.inv(SHEAR),
    "a pair twice": SHEAR @ np.kron(np.eye(2), [[0, 1], [-1, 0]]) @ np.linalg.inv(SHEAR),
    "the identity": np.eye(4),
}


def each_weighted(a: Any) -> Any:
    """A loss of single eigenvalues."""
    weights = np.arange(1.0, len(a) + 1) ** 2
    return (
        abs(ldiv.eigvals(a) - 7) * (torch.tensor(weights) if torch.is_tensor(a) else weights)
    ).sum()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", DEFECTIVE)
def test_defective_matrices_have_values_and_no_derivative(name: str) -> None:
    a = DEFECTIVE[name]
    found, exact = (np.sort(f(a).real) for f in (ldiv.eigvals, np.linalg.eigvals))
    np.testing.assert_allclose(found, exact, atol=1e-4)
    for g in gradients(each_weighted, a):
        with pytest.raises(KINDS, match=r"defective|repeated"):
            g()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_eigenvalues_have_a_derivative_together(name: str) -> None:
    a = REPEATED[name]
    for g in gradients(lambda a: ldiv.eigvals(a).sum().real, a):
        np.testing.assert_allclose(g(), np.eye(len(a)), atol=1e-11)
    for g in gradients(each_weighted, a):
        with pytest.raises(KINDS, match="single eigenvalues of a repeated eigenvalue"):
            g()


@pytest.mark.usefixtures("either_way")
@DTYPES
def test_close_eigenvalues_keep_their_digits(dtype: str) -> None:
    """Half of the digits of a gap are lost."""
    move = 1e-6 if np.finfo(dtype).eps < 1e-10 else 1e-4
    a = np.array([[1.0, 1], [move, 1]]).astype(dtype)
    for g in gradients(lambda a: ldiv.eigvals(a).real.max(), a):
        np.testing.assert_allclose(g()[1, 0], move**-0.5 / 2, rtol=1e4 * np.finfo(dtype).eps)


@pytest.mark.usefixtures("either_way")
def test_graded_matrices() -> None:
    d = 10.0 ** np.arange(4)
    a = drawn("float64", 4, 4) + np.diag([1.0, 2, 3, 4])
    lam = ldiv.eigvals(a)
    expected = gradient(a, lam, lam) * d / d[:, None]
    for g in gradients(lambda a: (abs(ldiv.eigvals(a)) ** 2).sum() / 2, a * d[:, None] / d):
        np.testing.assert_allclose(g(), expected, rtol=1e-9)


def test_bad_members() -> None:
    a = drawn("float64", 3, 5, 5)
    expected = ldiv.eigvals(a)
    a[1, 2, 3] = np.nan
    for given in (a, torch.tensor(a), torch.tensor(a, requires_grad=True), jnp.asarray(a)):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="finite"):
            ldiv.eigvals(given)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="finite"):
        jax.block_until_ready(jax.jit(ldiv.eigvals)(a))
    with ldiv.errstate(singular="nan"):
        found = ldiv.eigvals(a)
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], atol=1e-13)
    a[1] = jordan(5)
    with pytest.raises(ldiv.NotDifferentiableError, match="defective"):
        next(gradients(lambda a: abs(ldiv.eigvals(a)).sum(), a))()


@compiled
def test_what_is_declined() -> None:
    """A gradient of which no digit is certain, and outputs that are not those of A."""
    a, calls = drawn("float64", 4, 4), GeneralPairCalls()
    out, _ = calls.forward(a)
    bars = np.ones(4, complex), None, None, None
    assert calls.backward(None, [True], bars, out, a) is not None
    assert calls.backward(None, [True], (None, out[1], None, None), out, a) is None
    assert calls.backward(None, [True], (bars[0], out[1], None, None), out, a) is None
    assert calls.backward(None, [True], (bars[0] * np.nan, *bars[1:]), out, a) is None
    turned = out[0], out[1] * 1j, *out[2:]
    assert calls.backward(None, [True], bars, turned, a) is None
    for bad in (a * np.nan, a * np.inf):
        assert calls.forward(bad) is None and GeneralValueCalls().forward(bad) is None
    for defective in (jordan(4), DEFECTIVE["a pair"]):
        found, _ = calls.forward(defective)
        assert calls.backward(None, [True], bars, found, defective) is None


def test_no_rows_and_no_members() -> None:
    for as_array in (np.asarray, torch.tensor, jnp.asarray):
        assert ldiv.eigvals(as_array(np.ones((0, 0)))).shape == (0,)
        assert ldiv.eigvals(as_array(np.ones((0, 3, 3)))).shape == (0, 3)


def test_writes_to_the_input_change_no_derivative() -> None:
    given = torch.tensor(drawn("float64", 4, 4), requires_grad=True)
    copy = given * 1
    loss = (ldiv.eigvals(copy).abs() ** 3).sum()
    copy.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, given)
    a = given.detach().numpy().copy()
    expected = next(gradients(lambda a: (abs(ldiv.eigvals(a)) ** 2).sum(), a))()
    lam, pull = ldiv.vjp(ldiv.eigvals, a)
    a[:] = 0
    np.testing.assert_allclose(pull(2 * lam)[0], expected, atol=1e-12)


def test_threads_share_a_batch() -> None:
    a = drawn("float64", 300, 20, 20)
    lam = ldiv.eigvals(a)
    for i in (0, 150, 299):
        np.testing.assert_array_equal(lam[i], ldiv.eigvals(a[i]))
    one, all_ = (
        next(gradients(lambda a: (abs(ldiv.eigvals(a)) ** 2).sum(), x))() for x in (a[7], a)
    )
    np.testing.assert_allclose(all_[7], one, rtol=1e-12, atol=1e-14)


OSCILLATOR = np.array([[0.0, 1.0], [-1.0, 0.0]])
FULL = np.array([[1.0, 2.0], [3.0, 4.0]])
ROOT = 33**0.5
APART = {  # of very different sizes: (A, its eigenvalues)
    "oscillators": (block_diag(OSCILLATOR, 1e-16 * OSCILLATOR), [1j, -1j, 1e-16j, -1e-16j]),
    "springs": (
        np.kron([[0, 1], [0, 0]], np.eye(2)) + np.kron([[0, 0], [-1, 0]], np.diag([1e20, 1e-20])),
        [1e10j, -1e10j, 1e-10j, -1e-10j],
    ),
    "exchanges": (np.kron(np.diag([1e20, 1.0]), abs(OSCILLATOR)), [1e20, -1e20, 1, -1]),
    "cycles": (
        np.kron(np.diag([1, 1e-17]), np.roll(np.eye(3), 1, 0)),
        [s * np.exp(2j * np.pi * k / 3) for s in (1, 1e-17) for k in range(3)],
    ),
    "blocks": (
        block_diag(FULL, 1e-170 * FULL),
        [s * (5 + r) / 2 for s in (1, 1e-170) for r in (ROOT, -ROOT)],
    ),
    "far": (np.array([[1, 1e170], [1e-170, 3]]), [2 + 2**0.5, 2 - 2**0.5]),
    "large and small": (np.diag([1e300, 1e-10]), [1e300, 1e-10]),
    "diagonal": (np.diag([1e30, 1e-9]), [1e30, 1e-9]),
    "turned": (
        np.array([[1e20, 1e-30, 0], [-1e-30, 1e20, 0], [0, 0, 3e20]]),
        [1e20 + 1e-30j, 1e20 - 1e-30j, 3e20],
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", APART)
def test_small_eigenvalues_beside_large_ones(name: str, dtype: str, either_way: None) -> None:
    """Each has its digits, where balancing or deflation gives it some, at once and in a program."""
    (a, right), range_of = APART[name], np.finfo(dtype)
    if not ((a == 0) | (abs(a) > range_of.tiny) & (abs(a) < range_of.max)).all():
        pytest.skip("beyond the range of the dtype")
    a = a.astype(dtype)
    found = [ldiv.eigvals(a), ldiv.eig(a)[0], np.asarray(jax.jit(ldiv.eigvals)(a))]
    for lam in found:
        for value in right:
            assert min(abs(lam - value)) <= 8 * range_of.eps * abs(value)
