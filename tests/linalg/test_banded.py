"""Banded systems and factors: SciPy's values, derivatives by complex steps of the dense
formulas, structure, refusals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch

import ldiv
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.registry import engines
from ldiv.linalg.systems.banded import (
    cho_solve_banded,
    cholesky_banded,
    solve_banded,
    solveh_banded,
)
from ldiv.structures.banded import Banded

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

BANDS = [(0, 0), (1, 1), (2, 0), (0, 3), (2, 3)]
SIZES = [1, 2, 5, 33]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def drawn(*shape: int, dtype: Any = float, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def band(l: int, u: int, n: int, dtype: Any = float, batch: tuple[int, ...] = ()) -> Any:
    """The corners hold numbers that must not be read."""
    return drawn(*batch, l + u + 1, n, dtype=dtype) + (
        4 * (np.arange(l + u + 1) == u)[:, None]
    ).astype(dtype)


def dense(ab: Any, l: int, u: int) -> Any:
    n = ab.shape[-1]
    a = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for i, j in itertools.product(range(n), range(n)):
        if -u <= i - j <= l:
            a[..., i, j] = ab[..., u + i - j, j]
    return a


def definite(w: int, n: int, lower: bool, dtype: Any = float) -> Any:
    """One triangle, dominated by its diagonal."""
    ab = drawn(w + 1, n, dtype=dtype) / (2 * w + 1)
    ab[0 if lower else w] = 4 + ab[0 if lower else w].real
    return ab


def whole(ab: Any, lower: bool) -> Any:
    w = len(ab) - 1
    t = dense(ab, w, 0) if lower else dense(ab, 0, w)
    return t + t.conj().T - np.diag(np.diag(t).real)


def close(got: Any, expected: Any, tol: float = 1e-10) -> None:
    got, expected = (
        np.asarray(x.detach().resolve_conj() if isinstance(x, torch.Tensor) else x)
        for x in (got, expected)
    )
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tol * max(1.0, np.abs(expected).max()))


def tolerance(dtype: str) -> float:
    return 1e-4 if dtype in ("float32", "complex64") else 1e-11


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("to", [np.asarray, torch.asarray], ids=["NumPy", "torch"])
@pytest.mark.parametrize("n", SIZES)
def test_values(n: int, to: Callable[[Any], Any], dtype: str) -> None:
    tol, b = tolerance(dtype), drawn(n, 2, dtype=dtype)
    for l, u in BANDS:
        ab = band(l, u, n, dtype)
        expected = np.linalg.solve(dense(ab, l, u), b)
        close(solve_banded((l, u), to(ab), to(b)), expected, tol)
        close(solve_banded((l, u), to(ab), to(b[:, 0])), expected[:, 0], tol)
        close(ldiv.Matrix(Banded(l, u, n), to(ab)) @ to(b), dense(ab, l, u) @ b, tol)
    for w, lower in itertools.product((0, 1, 3), (True, False)):
        ab = definite(w, n, lower, dtype)
        c = cholesky_banded(to(ab), lower=lower)
        r = np.linalg.cholesky(whole(ab, lower))
        close(
            dense(np.asarray(c), w, 0) if lower else dense(np.asarray(c), 0, w),
            r if lower else r.conj().T,
            tol,
        )
        close(cho_solve_banded((c, lower), to(b)), np.linalg.solve(whole(ab, lower), b), tol)
        close(
            solveh_banded(to(ab), to(b[:, 0]), lower),
            np.linalg.solve(whole(ab, lower), b[:, 0]),
            tol,
        )


def test_scipys_own() -> None:
    ab, b = band(2, 3, 9), drawn(9)
    close(solve_banded((2, 3), ab, b), scipy.linalg.solve_banded((2, 3), ab, b))
    for lower in (True, False):
        h = definite(2, 9, lower, complex)
        close(solveh_banded(h, b, lower), scipy.linalg.solveh_banded(h, b, lower=lower))
        c, expected = cholesky_banded(h, lower), scipy.linalg.cholesky_banded(h, lower=lower)
        close(cho_solve_banded((c, lower), b), scipy.linalg.cho_solve_banded((expected, lower), b))


def test_batches_views_and_layouts() -> None:
    ab, b = band(1, 2, 6, complex, batch=(3, 1)), drawn(2, 6, 2)
    A = dense(ab, 1, 2)
    close(solve_banded((1, 2), ab, b), np.linalg.solve(A, b + 0j))
    M = ldiv.Matrix(Banded(1, 2, 6), ab)
    for view, a in ((M.T, A.mT), (M.H, A.conj().mT), (M.conj(), A.conj())):
        close(ldiv.solve(view, b), np.linalg.solve(a, b + 0j))
    fortran = np.asfortranarray(ab)
    fortran.flags.writeable = False
    close(solve_banded((1, 2), fortran, b[..., ::-1]), np.linalg.solve(A, b[..., ::-1] + 0j))
    h = np.stack([definite(2, 5, True), 2 * definite(2, 5, True)])
    close(cholesky_banded(h, lower=True)[1], cholesky_banded(h[1], lower=True))
    close(
        ldiv.factorized(ldiv.Matrix(Banded(1, 2, 6), ab[0, 0])).logabsdet(),
        np.linalg.slogdet(A[0, 0])[1],
    )


def test_empty() -> None:
    assert solve_banded((1, 1), np.zeros((3, 0)), np.zeros(0)).shape == (0,)
    assert cholesky_banded(np.zeros((2, 0))).shape == (2, 0)


# -- derivatives --------------------------------------------------------------


def plain_cholesky(a: Any) -> Any:
    c = np.array(a, complex)
    for j in range(len(c)):
        c[j, j] = np.sqrt(c[j, j] - (c[j, :j] ** 2).sum())
        c[j + 1 :, j] = (c[j + 1 :, j] - c[j + 1 :, :j] @ c[j, :j]) / c[j, j]
    return np.tril(c)


def _mirrored(ab: Any, lower: bool) -> Any:
    t = dense(ab, len(ab) - 1, 0) if lower else dense(ab, 0, len(ab) - 1)
    return t + t.T - np.diag(np.diag(t))


def _weights(n: int) -> Any:
    return drawn(n, n, seed=7)


def _to_dense(c: Any, w: int) -> Any:
    return ldiv.Matrix(Banded(w, 0, c.shape[-1]), c) @ torch.eye(c.shape[-1], dtype=c.dtype)


SMOOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "solve": (
        lambda ab: solve_banded((1, 2), ab, ab[:2].T).reshape(-1),
        lambda ab: np.linalg.solve(dense(ab, 1, 2), ab[:2].T).ravel(),
        band(1, 2, 6),
    ),
    "cholesky, lower": (
        lambda ab: _to_dense(cholesky_banded(ab, lower=True), 2).reshape(-1),
        lambda ab: plain_cholesky(_mirrored(ab, True)).ravel(),
        definite(2, 6, True),
    ),
    "cholesky, wider than the matrix": (
        lambda ab: _to_dense(cholesky_banded(ab, lower=True), 4).reshape(-1),
        lambda ab: plain_cholesky(_mirrored(ab, True)).ravel(),
        definite(4, 3, True),
    ),
    "solveh, upper": (
        lambda ab: solveh_banded(ab, ab.T).reshape(-1),
        lambda ab: np.linalg.solve(_mirrored(ab, False), ab.T).ravel(),
        definite(2, 6, False),
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    """First by complex step; second, in all four compositions, by differences of it."""
    f, plain, a = SMOOTH[name]
    d, e = drawn(*a.shape, seed=1), drawn(*a.shape, seed=2)
    stepped = lambda a: plain(a + 1e-30j * d).imag / 1e-30
    expected = stepped(a)
    x, dx, ex, w = map(torch.asarray, (a, d, e, drawn(len(expected), seed=3)))
    close(torch.func.jvp(f, (x,), (dx,))[1], expected, 1e-12)
    (pulled,) = torch.func.vjp(f, x)[1](w)
    close((pulled * dx).sum(), w.numpy() @ expected, 1e-12)
    loss = lambda x: (w * f(x) + f(x) ** 2 / 2).sum()
    first = lambda a: float((w.numpy() + plain(a).real) @ stepped(a))
    second = (first(a + 1e-5 * e) - first(a - 1e-5 * e)) / 2e-5
    tangent = lambda x: torch.func.jvp(loss, (x,), (dx,))[1]
    slope = lambda x: (torch.func.grad(loss)(x) * dx).sum()
    for inner in (tangent, slope):
        for value in (
            torch.func.jvp(inner, (x,), (ex,))[1],
            (torch.func.grad(inner)(x) * ex).sum(),
        ):
            close(value / second, np.ones(()), 1e-5)


def test_jit_and_vmap_in_jax() -> None:
    """The gradient, compiled and over a leading axis, is that of torch, one by one; its corners
    are zero.
    """
    stack, h, b = (
        np.stack([band(1, 1, 5), 2 * band(1, 1, 5)]),
        np.stack([definite(1, 5, True), 2 * definite(1, 5, True)]),
        drawn(5),
    )

    def loss(ab: Any, h: Any, b: Any) -> Any:
        return (solve_banded((1, 1), ab, b) ** 3).sum() + (solveh_banded(h, b, True) ** 3).sum()

    got = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1)), in_axes=(0, 0, None)))(
        *map(jax.numpy.asarray, (stack, h, b))
    )
    vmapped = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, 0, None))(
        *map(torch.asarray, (stack, h, b))
    )
    for i in range(2):
        one = torch.func.grad(loss, argnums=(0, 1))(*map(torch.asarray, (stack[i], h[i], b)))
        for g, v, expected in zip(got, vmapped, one, strict=True):
            close(g[i], expected)
            close(v[i], expected)
        assert one[0][0, 0] == one[0][2, 4] == one[1][1, 4] == 0


def test_a_long_band_is_cheap() -> None:
    """Nothing n x n: at n = 20,000 a dense matrix would take 3 GB."""
    n = 20_000
    ab = torch.asarray(definite(2, n, True)).requires_grad_()
    (g,) = torch.autograd.grad(
        solveh_banded(ab, torch.ones(n, dtype=torch.float64), True).sum(), ab
    )
    assert g.shape == ab.shape
    full = torch.asarray(band(1, 1, n)).requires_grad_()
    (g,) = torch.autograd.grad(
        solve_banded((1, 1), full, torch.ones(n, dtype=torch.float64)).sum(), full
    )
    assert torch.isfinite(g).all()


# -- refusals -----------------------------------------------------------------


def test_corners_are_not_read() -> None:
    ab, b = band(1, 1, 5), drawn(5)
    x = solve_banded((1, 1), ab, b)
    ab[0, 0] = ab[2, 4] = np.nan
    close(solve_banded((1, 1), ab, b), x)
    A = ldiv.Matrix(ldiv.structures.Banded(1, 1, 5), ab)
    close(ldiv.solve(A.T, b, method="gmres"), ldiv.solve(A.T, b))
    ab[1, 1] = np.nan
    with pytest.raises(ValueError, match="finite"):
        solve_banded((1, 1), ab, b)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ldiv.SingularMatrixError):
        solve_banded((0, 0), np.array([[1.0, 0.0]]), np.ones(2))
    with pytest.raises(ldiv.SingularMatrixError):
        solve_banded((1, 1), np.ones((3, 2)), np.ones(2))
    with pytest.raises(ldiv.SingularMatrixError):  # a path without a boundary condition
        solve_banded((1, 1), np.array([[0, -1, -1], [1, 2, 1], [-1, -1, 0]]) / 3.0, np.ones(3))
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        cholesky_banded(np.array([[1.0, 1.0], [2.0, 0.0]]), lower=True)
    with pytest.raises(ValueError, match="uppermost first"):
        solve_banded((1, 1), np.ones((2, 4)), np.ones(4))
    with pytest.raises(ValueError, match="tridiagonal"):
        solve_banded(1, np.ones((2, 4)), np.ones(4))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="missing axis"):
        cholesky_banded(np.ones(3))
    with pytest.raises(ValueError, match="finite"):
        cholesky_banded(np.array([[1.0, np.inf]]))
    with pytest.raises(ValueError, match="rows"):
        cho_solve_banded((np.ones((1, 3)), True), np.ones(2))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("w", [1, 2])
@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_factors_of_a_band(assume_a: str, w: int, dtype: str) -> None:
    """All views, and the determinant, also of scaled rows and columns; few right-hand sides, and many."""
    ab, many = definite(w, 7, True, dtype), drawn(7, 200, dtype=dtype)
    a = whole(ab, True)
    if assume_a == "gen":  # which exchanges rows
        a = a + 20 * np.tril(a, -1)
    for s in (np.ones(7), 2.0 ** np.arange(-60, 80, 20)):
        scaled = s[:, None] * a * s
        p = np.stack(
            [
                np.r_[np.zeros(max(-d, 0)), np.diag(scaled, -d), np.zeros(max(d, 0))]
                for d in range(-w, w + 1)
            ]
        )
        f = factorize_by(engines()["banded"], Banded(w, w, 7), p, assume_a)
        views = (("N", scaled), ("T", scaled.T), ("H", scaled.conj().T))
        for (op, view), b in itertools.product(views, (many[:, :2], many)):
            x = f.solve(b, op)
            close(s[:, None] * x, s[:, None] * np.linalg.solve(view, b), 1e-12)
        close(f.logabsdet(), np.linalg.slogdet(a)[1] + 2 * np.log(s).sum(), 1e-12)


def test_the_gradient_of_solveh_uses_its_factor() -> None:
    """One Cholesky factorization, and one more solve; the cotangent is that of the triangle."""
    ab, b = definite(2, 9, False, complex), drawn(9, dtype=complex)
    x, y = torch.asarray(ab).requires_grad_(), torch.asarray(b).requires_grad_()
    ldiv.clear_cache()
    loss = lambda a, b: (solveh_banded(a, b).abs() ** 2).sum()
    grads = torch.autograd.grad(loss(x, y), (x, y))
    assert ldiv.cache_info().factorizations == 1

    def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        t = torch.stack([torch.diag(a[2 - d, d:], d) for d in range(3)]).sum(0)
        t = torch.triu(t, 1) + torch.diag(a[2].real) / 2
        return (torch.linalg.solve(t + t.mH, b).abs() ** 2).sum()

    for got, expected in zip(grads, torch.autograd.grad(plain(x, y), (x, y)), strict=True):
        close(got, expected, 1e-12)
    assert (grads[0][0, :2] == 0).all() and grads[0][1, 0] == 0


def test_an_indefinite_band_is_refused() -> None:
    for to in (np.asarray, torch.asarray):
        with pytest.raises(ldiv.NotPositiveDefiniteError, match="order 2"):
            solveh_banded(to([[0.0, 2.0], [1.0, 1.0]]), to([1.0, 1.0]))
    with pytest.raises(scipy.linalg.LinAlgError):  # a path without a boundary condition
        solveh_banded(np.array([[1.0, 2, 2, 1], [-1, -1, -1, 0]]) / 3, np.ones(4), lower=True)
