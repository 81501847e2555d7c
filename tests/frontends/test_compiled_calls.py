"""Dense solves in a program for the CPU are calls of compiled code, which agree with NumPy's.
Python answers declined members, or raises.
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread
from typing import Any

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from ldiv.engines.libraries import native  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

ASKED: dict[str, Any] = {
    "gen": ldiv.solve,
    "T": lambda a, b: ldiv.solve(a, b, trans="T"),
    "H": lambda a, b: ldiv.solve(a, b, trans="H"),
    "C": lambda a, b: ldiv.solve(a.conj(), b),
    "pos": lambda a, b: ldiv.solve(a @ a.conj().mT, b, assume_a="pos"),
    "her": lambda a, b: ldiv.solve(a + a.conj().mT, b, assume_a="her"),
    "inv": lambda a, b: ldiv.inv(a) + 0 * b,
    "slogdet": lambda a, b: ldiv.slogdet(a)[1][..., None, None] + 0 * b,
    "sign": lambda a, b: ldiv.slogdet(a)[0][..., None, None] + 0 * b,
    "lower": lambda a, b: ldiv.solve_triangular(a, b, lower=True),
    "upper T": lambda a, b: ldiv.solve_triangular(a, b, trans="T"),
    "unit H": lambda a, b: ldiv.solve_triangular(a, b, lower=True, unit_diagonal=True, trans="C"),
    "cholesky": lambda a, b: ldiv.cholesky(a @ a.conj().mT, lower=True) + 0 * b,
    "lu": lambda a, b: ldiv.lu_factor(a)[0] + 0 * b,
    "logdet pos": lambda a, b: (
        ldiv.logdet(a @ a.conj().mT, assume_a="pos")[..., None, None] + 0 * b
    ),
}
DIFFERENTIATED = ("gen", "T", "H", "lower", "upper T", "unit H")
BATCHES = [
    ((), ()),
    ((6,), (6,)),
    ((2, 3), (2, 3)),
    ((6,), ()),
    ((), (6,)),
    ((2, 1), (3,)),
    ((70,), (1,)),
]


def drawn(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


def matrices(dtype: str, *shape: int) -> Any:
    return drawn(dtype, *shape) + np.asarray(2 * shape[-1] * np.eye(shape[-1]), dtype)


def calls(f: Any, *args: Any) -> int:
    """Count the compiled calls of a program, without factors, answers and checks of derivatives."""
    text = jax.jit(f).lower(*args).as_text()
    assert "callback" not in text and text.count('"answer"') == text.count('"compute"')
    return text.count('"compute"')


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("name", ASKED)
def test_as_numpy(name: str, dtype: str) -> None:
    """The gradient agrees, too, in units of rows and columns that are all alike or not."""
    f = ASKED[name]
    units = np.asarray(2.0 ** np.arange(0, 30, 5), dtype)
    for a in (matrices(dtype, 6, 6), units[:, None] * matrices(dtype, 6, 6)):
        a = a / np.abs(a).max() if name == "unit H" else a
        b = drawn(dtype, 6, 6)
        assert calls(f, a, b) == 1
        expected, pull = ldiv.vjp(f, a, b) if name in DIFFERENTIATED else (f(a, b), None)
        found, push_back = jax.vjp(jax.jit(f), jnp.asarray(a), jnp.asarray(b))
        scale = 1e3 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected, rtol=scale, atol=scale * np.abs(expected).max())
        if pull is not None:
            bars, own = push_back(jnp.conj(found)), pull(expected)
            for bar, other in zip(bars, own, strict=True):
                np.testing.assert_allclose(
                    np.conj(bar), other, rtol=10 * scale, atol=10 * scale * np.abs(other).max()
                )


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_axes_that_broadcast(batches: Any, vector: bool) -> None:
    a, b = matrices("float64", *batches[0], 4, 4), drawn("float64", *batches[1], 4, 3)
    expected = np.linalg.solve(a, b)
    if vector:
        b, expected = b[..., 0], expected[..., 0]
    if vector and not batches[1]:
        b = b + np.zeros((1, 1))[0, :1].sum()
    f = (lambda a, b: ldiv.solve(a, b[..., None])[..., 0]) if vector else ldiv.solve
    np.testing.assert_allclose(jax.jit(f)(a, b), expected, rtol=1e-12)


def test_triangles_in_batches() -> None:
    """Only one triangle is read; rows of an LU are in LAPACK's order, also of rectangles."""
    a, b = matrices("float64", 6, 4, 4), drawn("float64", 6, 4, 3)
    junk = np.where(np.tri(4) > 0, a, np.nan)
    for left, right in ((junk, b), (junk[0], b), (junk, b[0])):
        found = jax.jit(lambda l, b: ldiv.solve_triangular(l, b, lower=True))(left, right)
        np.testing.assert_allclose(found, np.linalg.solve(np.tril(np.nan_to_num(left)), right))
    for shape in ((6, 5, 3), (6, 3, 5)):
        wide = drawn("float64", *shape)
        for found, expected in zip(jax.jit(ldiv.lu)(wide), ldiv.lu(wide), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-14)
        packed, pivots = jax.jit(ldiv.lu_factor)(wide)
        assert pivots.dtype == np.int32 and packed.shape == shape
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="a zero on the diagonal"):
        jax.block_until_ready(jax.jit(ldiv.solve_triangular)(np.zeros((2, 2)), np.ones(2)))
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="leading minor"):
        jax.block_until_ready(jax.jit(ldiv.cholesky)(-np.eye(2)))
    tiny = 1e-300 * (np.eye(3) + 0.1)
    np.testing.assert_allclose(jax.jit(lambda a: ldiv.cholesky(a))(tiny), ldiv.cholesky(tiny))


def test_a_vmap_is_one_call() -> None:
    a, b = matrices("float64", 50, 5, 5), drawn("float64", 50, 5)
    grad = jax.vmap(jax.grad(lambda a, b: ldiv.solve(a, b).sum(), (0, 1)))
    assert calls(grad, a, b) == 2
    with ldiv.set_num_threads(3):
        a_bar, b_bar = jax.jit(grad)(np.tile(a, (400, 1, 1)), np.tile(b, (400, 1)))
    x = np.linalg.solve(a, b[..., None])[..., 0]
    lam = np.linalg.solve(a.mT, np.ones((50, 5, 1)))[..., 0]
    np.testing.assert_allclose(b_bar, np.tile(lam, (400, 1)), rtol=1e-12)
    expected = -lam[:, :, None] * x[:, None, :]
    np.testing.assert_allclose(a_bar, np.tile(expected, (400, 1, 1)), rtol=1e-11, atol=1e-14)
    # one matrix, many right-hand sides
    found = jax.jit(jax.vmap(ldiv.solve, (None, 0)))(a[0], np.tile(b, (3, 1)))
    np.testing.assert_allclose(found, np.linalg.solve(a[0], np.tile(b, (3, 1)).T).T, rtol=1e-12)


# -- declined -------------------------------------------------------------------


def hard(n: int = 24) -> Any:
    """Entries grow under partial pivoting by 2^n: only a careful engine solves with it."""
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    return np.kron(np.eye(2), a)


def test_members_that_are_declined_are_answered(monkeypatch: Any) -> None:
    from ldiv.rules import careful

    asked: list[int] = []
    answer = careful.answer

    def counted(told: Any, count: int, arrays: Any) -> Any:
        asked.append(count)
        return answer(told, count, arrays)

    monkeypatch.setattr(careful, "answer", counted)
    a, b = matrices("float64", 9, 5, 5), drawn("float64", 9, 5)
    few_digits = [2, 7]  # of which three are left: the careful way takes them, after two looks
    q = np.linalg.qr(a[0])[0]
    a[few_digits] = q @ np.diag([1, 1, 1, 1, 1e-13]) @ q.T
    b[few_digits] = a[2] @ np.ones(5)
    f = lambda a, b: jnp.sum(jnp.sin(ldiv.solve(a, b)))
    value, grads = jax.jit(jax.vmap(jax.value_and_grad(f, (0, 1))))(a, b)
    jax.block_until_ready(value)
    assert set(asked) == {2}
    for i, (m, v) in enumerate(zip(a, b, strict=True)):
        each = jax.value_and_grad(f, (0, 1))(jnp.asarray(m), jnp.asarray(v))
        for found, expected in zip(
            jax.tree.leaves((value[i], grads[0][i], grads[1][i])),
            jax.tree.leaves(each),
            strict=True,
        ):
            error = np.abs(found - expected).max() / np.abs(expected).max()
            assert error < (0.1 if i in few_digits else 1e-9)


def test_errors_are_raised_wherever_they_are() -> None:
    singular = np.ones((3, 3))
    good, b = matrices("float64", 3, 3), np.ones(3)
    stack = np.stack([good, singular])
    kinds = (ValueError, jax.errors.JaxRuntimeError)
    step = lambda carry, a: (carry + ldiv.solve(a, b).sum(), None)
    programs = (
        lambda s: ldiv.solve(s[1], b),
        lambda s: jax.vmap(ldiv.solve, (0, None))(s, b),
        lambda s: jax.lax.scan(step, 0.0, s)[0],
        lambda s: jax.lax.while_loop(
            lambda state: state[0] < 2,
            lambda state: (state[0] + 1, state[1] + ldiv.solve(s[state[0]], b)),
            (0, jnp.zeros(3)),
        )[1],
        lambda s: jax.grad(jax.checkpoint(lambda s: ldiv.solve(s[1], b).sum()))(s),
        lambda s: jax.grad(lambda s: ldiv.inv(s[1]).sum())(s),
        lambda s: jax.grad(lambda s: ldiv.slogdet(s[1])[1])(s),
    )
    for number, f in enumerate(programs):
        with pytest.raises(kinds, match="singular"):
            jax.block_until_ready(jax.jit(f)(stack))
        assert number in (4, 5, 6) or np.isfinite(jax.jit(f)(np.stack([good, good]))).all()
    for bad, message in ((np.nan * good, "A: expected finite"), (good, "b: expected finite")):
        with pytest.raises(kinds, match=message):
            jax.block_until_ready(jax.jit(ldiv.solve)(bad, np.nan * b if bad is good else b))
    with pytest.raises(kinds, match="positive definite"):
        jax.block_until_ready(jax.jit(lambda a: ldiv.solve(a, b, assume_a="pos"))(-good @ good.T))
    with pytest.raises(kinds, match="conjugate transpose"):
        jax.block_until_ready(jax.jit(lambda a: ldiv.solve(a, b, assume_a="pos"))(good))
    # a matrix that is singular has a determinant
    sign, size = jax.jit(ldiv.slogdet)(singular)
    assert sign == 0 and size == -np.inf
    with ldiv.errstate(singular="ignore"):
        nearly = singular + 1e-15 * np.diag([1.0, 2, 3])
        assert np.isfinite(jax.jit(lambda a: ldiv.solve(a, b))(nearly)).any()


def test_threads_that_are_declined() -> None:
    """Four at a time, of which each waits for Python."""
    f = jax.jit(jax.vmap(lambda a, b: ldiv.solve(a, b)))
    a, b = matrices("float64", 6, 5, 5), drawn("float64", 6, 5)
    a[3] = np.vander(np.linspace(1, 2, 5)) ** 3
    expected = np.asarray(f(a, b))
    results: list[Any] = []

    def work() -> None:
        results.extend(np.asarray(f(a, b)) for _ in range(20))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(25)
    assert len(results) == 80
    for x in results:
        np.testing.assert_array_equal(x, expected)


# -- elsewhere --------------------------------------------------------------------

SINGLE = """
import jax, numpy as np, ldiv
a, b = np.eye(3, dtype="f4") * 2, np.ones((3,), "f4")
f = jax.jit(jax.value_and_grad(lambda a: ldiv.solve(a, b).sum() + ldiv.slogdet(a)[1]))
assert ("ldiv_dense" in f.lower(a).as_text()) == COMPILED
value, grad = f(a)
assert value.dtype == grad.dtype == np.float32 and abs(value - 1.5 - 3 * np.log(2)) < 1e-5
"""


@pytest.mark.parametrize("compiled", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_without_double_precision_and_without_a_compiler(compiled: bool) -> None:
    subprocess.run(
        [sys.executable, "-c", SINGLE.replace("COMPILED", str(compiled))],
        env=os.environ | ({} if compiled else {"LDIV_NATIVE": "0"}),
        check=True,
        timeout=120,
    )


def test_another_platform_keeps_its_own_way(monkeypatch: Any) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    a, b = matrices("float64", 4, 4), drawn("float64", 4)
    grad = jax.jit(jax.grad(lambda a, b: ldiv.solve(a, b).sum()))
    text = grad.lower(a, b).as_text()
    assert "ldiv_dense" not in text and "getrf" in text
    np.testing.assert_allclose(grad(a, b), jax.grad(lambda a: jnp.linalg.solve(a, b).sum())(a))
