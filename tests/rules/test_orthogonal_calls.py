"""Q R, least squares, pseudoinverses and exponentials of dense matrices in one compiled call, and their
cotangents: against PyTorch and mpmath, for every dtype, size and shape; what is declined goes the
careful way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import ldiv
from ldiv.engines.factors import orthogonal_calls, spectral_calls
from ldiv.engines.functions import exponential_calls
from ldiv.engines.libraries import native

DTYPES = ["float32", "float64", "complex64", "complex128"]
TALL = [(1, 1), (3, 3), (8, 8), (9, 9), (7, 3), (12, 9), (30, 11)]
CALLS = (
    orthogonal_calls.QRCalls,
    orthogonal_calls.LeastSquaresCalls,
    spectral_calls.PinvCalls,
    exponential_calls.ExponentialCalls,
)


def drawn(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def general(rng: Any, m: int, n: int, dtype: str) -> Any:
    """Three matrices with singular values between 1 and 2."""
    k = min(m, n)
    u, v = (np.linalg.qr(drawn(rng, (3, rows, k), dtype))[0] for rows in (m, n))
    a: Any = (u * np.linspace(1, 2, k).astype(dtype)) @ v.mT.conj()
    return np.ascontiguousarray(a)


def close(found: Any, expected: Any, enough: float) -> None:
    error = np.abs(found - expected).max((-2, -1)) / np.abs(expected).max((-2, -1))
    assert (error < enough).all(), error


def wide(x: Any) -> Any:
    return x.astype("complex128" if x.dtype.kind == "c" else "float64")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each compiled call accepted."""
    found: list[bool] = []
    for kind in CALLS:
        for name in ("forward", "backward"):
            own = getattr(kind, name)

            def noted(self: Any, *given: Any, own: Any = own) -> Any:
                found.append((y := own(self, *given)) is not None)
                return y

            monkeypatch.setattr(kind, name, noted)
    return found


def gradients(f: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Return the gradients of a sum of the real parts of all results, with weights drawn from their shapes."""
    given = [torch.tensor(x, requires_grad=True) for x in arrays]
    out = f(*given)
    bars = [
        torch.tensor(drawn(np.random.default_rng(7), tuple(y.shape), "complex128")) for y in out
    ]
    bars = [
        w.to(y.dtype) if y.is_complex() else w.real.to(y.dtype)
        for w, y in zip(bars, out, strict=True)
    ]
    return [g.numpy() for g in torch.autograd.grad(out, given, bars)]


def agree(f: Callable[..., Any], g: Callable[..., Any], enough: float, *arrays: Any) -> None:
    """Values and gradients of f are those of g in double precision."""
    exact = [wide(x) for x in arrays]
    for y, expected in zip(
        f(*map(torch.tensor, arrays)), g(*map(torch.tensor, exact)), strict=True
    ):
        close(y.numpy(), expected.numpy(), enough)
    for found, expected in zip(gradients(f, *arrays), gradients(g, *exact), strict=True):
        assert found.dtype == arrays[0].dtype
        close(found, expected, 10 * enough)


each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_shape = pytest.mark.parametrize("shape", TALL)


@each_dtype
@each_shape
def test_qr(shape: tuple[int, int], dtype: str, taken: list[bool]) -> None:
    a = general(np.random.default_rng(shape[0]), *shape, dtype)
    enough = 100 * shape[0] * float(np.finfo(dtype).eps)
    agree(ldiv.qr, torch.linalg.qr, enough, a)
    agree(lambda a: [ldiv.qr(a, "r")], lambda a: [torch.linalg.qr(a)[1]], enough, a)
    assert native.native is None or (len(taken) == 6 and all(taken))


@each_dtype
@each_shape
def test_lstsq(shape: tuple[int, int], dtype: str, taken: list[bool]) -> None:
    rng = np.random.default_rng(shape[0])
    enough = 100 * shape[0] * float(np.finfo(dtype).eps)
    for m, n in (shape, shape[::-1]):
        a, b = general(rng, m, n, dtype), drawn(rng, (3, m, 2), dtype)
        agree(
            lambda a, b: [ldiv.lstsq(a, b).x], lambda a, b: [torch.linalg.pinv(a) @ b], enough, a, b
        )
        x = ldiv.lstsq(a[0], b[0, :, 0])
        close(x.x[None], (np.linalg.pinv(a[0]) @ b[0, :, 0])[None], enough)
        assert x.rank == min(m, n) and (ldiv.lstsq(a, b).rank == min(m, n)).all()
    assert native.native is None or (len(taken) == 10 and all(taken))


@each_dtype
def test_the_residual_of_lstsq(dtype: str) -> None:
    rng, enough = np.random.default_rng(0), 1000 * float(np.finfo(dtype).eps)
    a, b = general(rng, 9, 4, dtype), drawn(rng, (3, 9, 2), dtype)

    def expected(a: Any, b: Any) -> list[Any]:
        x = torch.linalg.pinv(a) @ b
        return [x, ((b - a @ x).abs() ** 2).sum(-2)]

    agree(lambda a, b: ldiv.lstsq(a, b)[:2], expected, enough, a, b)


@each_dtype
@each_shape
def test_pinv(shape: tuple[int, int], dtype: str, taken: list[bool]) -> None:
    rng = np.random.default_rng(shape[0])
    enough = 100 * shape[0] * float(np.finfo(dtype).eps)
    for m, n in (shape, shape[::-1]):
        a = general(rng, m, n, dtype)
        agree(lambda a: [ldiv.pinv(a)], lambda a: [torch.linalg.pinv(a)], enough, a)
        assert (ldiv.pinv(a, return_rank=True)[1] == min(m, n)).all()
    assert native.native is None or (len(taken) == 8 and all(taken))


@pytest.mark.covering(2)
@each_dtype
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 20])
@pytest.mark.parametrize("size", [1e-3, 0.1, 0.6, 1.5, 4, 30])
def test_expm(size: float, n: int, dtype: str, taken: list[bool]) -> None:
    rng = np.random.default_rng(n)
    a = drawn(rng, (3, n, n), dtype)
    a = (a * (size / abs(a).sum(-2).max())).astype(dtype)
    f = wide(a)
    big = np.concatenate(
        [np.concatenate([f, f @ f], -1), np.concatenate([0 * f, f], -1)], -2
    )  # exp([[A, E], [0, A]]) has the derivative in the direction E above its diagonal
    enough = 300 * (1 + size) * float(np.finfo(dtype).eps)
    with mpmath.workdps(30):
        exact = np.array(
            [mpmath.expm(mpmath.matrix(x.tolist())).tolist() for x in big[:1]], complex
        )
    close(ldiv.expm(a)[:1], exact[:, :n, :n], enough)
    given = torch.tensor(a, requires_grad=True)
    w = drawn(rng, (n, n), dtype)
    (g,) = torch.autograd.grad(ldiv.expm(given)[0], given, torch.tensor(w))
    along = (g[0].numpy().conj() * (f @ f)[0]).sum().real
    expected = (w.conj() * exact[0, :n, n:]).sum().real
    assert abs(along - expected) <= enough * abs(w).sum() * abs(exact[0, :n, n:]).max()
    assert native.native is None or (len(taken) == 3 and all(taken))


def functions() -> dict[str, Callable[[Any], Any]]:
    return {
        "qr": lambda a: ldiv.qr(a)[1],
        "lstsq": lambda a: ldiv.lstsq(a, a[..., :1] * 0 + 1)[0],
        "pinv": ldiv.pinv,
        "expm": ldiv.expm,
        "det": lambda a: ldiv.det(a)[..., None, None],
        "inv": ldiv.inv,
    }


each = pytest.mark.parametrize("name", functions())
A = general(np.random.default_rng(0), 6, 6, "float64")[0]


@each
def test_a_bad_member_is_refused_alone(name: str) -> None:
    f, a = functions()[name], np.stack([A] * 3)
    expected = f(a)
    a[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="finite"):
        f(a)
    with pytest.raises(ValueError, match="finite"):
        f(torch.tensor(a, requires_grad=True))
    if name == "expm":
        return
    with ldiv.errstate(singular="nan"):
        found = f(a)
    assert np.isnan(found[1]).any()
    np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], atol=1e-13)


def test_dependent_columns_are_refused() -> None:
    a = np.stack([A] * 3)
    a[1, :, 3] = a[1, :, 2]
    for x in (a, a[1], a[..., :5], a[1, :, :5]):
        for given in (x, torch.tensor(x), torch.tensor(x, requires_grad=True)):
            with pytest.raises(ldiv.SingularMatrixError):
                ldiv.lstsq(given, given[..., :1] * 0 + 1)
        q, _ = ldiv.qr(torch.tensor(x, requires_grad=True))
        with pytest.raises(ldiv.NotDifferentiableError):
            q.sum().backward()
        y = ldiv.pinv(torch.tensor(x, requires_grad=True))
        with pytest.raises(ldiv.NotDifferentiableError):
            y.sum().backward()


@each
def test_writes_to_the_input_change_no_derivative(name: str) -> None:
    f, given = functions()[name], torch.tensor(A, requires_grad=True)
    expected = torch.autograd.grad((f(given) ** 3).sum(), given)[0]
    copy = given * 1
    loss = (f(copy) ** 3).sum()
    copy.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, given)
    a = A.copy()
    y, pull = ldiv.vjp(f, a) if name not in ("lstsq", "det") else (f(a), None)
    if pull is not None:
        a[:] = 0
        np.testing.assert_allclose(pull(3 * y**2)[0], expected, atol=1e-10)


@each
def test_views_of_all_kinds(name: str) -> None:
    f, rng = functions()[name], np.random.default_rng(3)
    z = general(rng, 6, 6, "complex128")
    whole = np.zeros((3, 12, 6), complex)
    whole[:, ::2] = z
    for view in (torch.tensor(whole)[:, ::2], torch.tensor(z).mH.contiguous().mH):
        np.testing.assert_allclose(f(view).numpy(), f(torch.tensor(z)).numpy(), atol=1e-12)
        x = view.clone().requires_grad_()
        (expected,) = torch.autograd.grad(f(x).abs().sum(), x)
        given = view.detach().requires_grad_()
        (found,) = torch.autograd.grad(f(given).abs().sum(), given)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-10)
    whole_numbers = np.array([[3, 1], [1, 2]])
    assert np.isfinite(f(whole_numbers)).all()


@each
def test_second_order_and_forward_mode(name: str) -> None:
    f, rng = functions()[name], np.random.default_rng(4)
    a, v = torch.tensor(A), torch.tensor(rng.standard_normal(A.shape))

    def loss(a: Any) -> Any:
        return (f(a) ** 2).sum()

    _, tangent = torch.func.jvp(loss, (a,), (v,))
    gradient = torch.func.grad(loss)(a)
    torch.testing.assert_close(tangent, (gradient * v).sum())
    x = a.clone().requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    torch.testing.assert_close(g, gradient)
    (h,) = torch.autograd.grad((g * v).sum(), x)
    _, expected = torch.func.jvp(torch.func.grad(loss), (a,), (v,))
    torch.testing.assert_close(h, expected, rtol=1e-6, atol=1e-8)
    batched = torch.func.vmap(torch.func.grad(loss))(torch.stack([a, 2 * a]))
    torch.testing.assert_close(batched[0], gradient)


@each
def test_no_rows_and_no_members(name: str) -> None:
    f = functions()[name]
    f(A)
    for as_array in (np.asarray, torch.tensor):
        f(as_array(np.ones((0, 0))))
        assert f(as_array(np.ones((0, 3, 3)))).shape[0] == 0


def test_members_that_are_declined_take_no_others_along() -> None:
    """Triangles and large matrices go the careful way, each by itself."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 4, 4))
    a[1] = np.triu(a[1])
    a[3] = 30 * (a[3] - a[3].T)
    found = ldiv.expm(a)
    for x, y in zip(a, found, strict=True):
        np.testing.assert_allclose(y, ldiv.expm(x), rtol=1e-12, atol=1e-12)
