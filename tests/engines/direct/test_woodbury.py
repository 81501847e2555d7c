"""Updates of low rank: each row of a solution's residual is small in the units of that row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from mpmath import matrix, mp

import ldiv
from ldiv.engines.direct.woodbury import Woodbury
from ldiv.errors import SingularMatrixError


def graded(seed: int) -> tuple[Any, Any, Any]:
    """D B D, exactly symmetric, with B well conditioned and D from 1e-8 to 1e8, and U, V."""
    rng = np.random.default_rng(seed)
    n, k = 2 + seed % 5, 1 + seed % 2
    b, d = rng.standard_normal((n, n)), 10.0 ** rng.uniform(-8, 8, n)
    a = d[:, None] * (b @ b.T + np.eye(n)) * d
    return (a + a.T) / 2, rng.standard_normal((n, k)), rng.standard_normal((n, k))


def row_error(a: Any, u: Any, v: Any, x: Any, b: Any) -> float:
    """|b - S x| / (|A| |x| + |U| |V^T| |x| + |b|) of the worst row, the residual in 60 digits."""
    with mp.workdps(60):
        s = matrix(a.tolist()) + matrix(u.tolist()) * matrix(v.tolist()).T
        r = matrix(b.tolist()) - s * matrix(x.tolist())
        r = np.array([abs(float(y)) for y in r])
    a, u, v, x, b = map(np.abs, (a, u, v, x, b))
    return float(np.max(r / (a @ x + u @ (v.T @ x) + b)))


@pytest.mark.parametrize("trans", ["N", "T"])
def test_small_rows_beside_large_ones(trans: Any) -> None:
    """The norm of the residual over that of the matrix took x = 2 for 0.84 here."""
    solved = 0
    for seed in range(80):
        a, u, v = graded(seed)
        b = np.ones(len(a))
        s = ldiv.asarray(sp.csr_array(a)) + ldiv.LowRank(u, v)
        try:
            x = ldiv.solve(s, b, trans=trans)
        except SingularMatrixError:
            continue
        solved += 1
        u, v = (u, v) if trans == "N" else (v, u)
        assert row_error(a, u, v, x, b) < 1e-9
    assert solved >= 70


@pytest.mark.parametrize("scale", [1e-250, 1e-30, 1e200])
def test_the_unit_of_the_matrix_does_not_matter(scale: float) -> None:
    a, u, v = sp.diags_array(np.arange(1.0, 7.0)), np.ones((6, 1)), np.linspace(1, 2, 6)[:, None]
    s = ldiv.asarray(scale * a) + ldiv.LowRank(scale * u, v)
    expected = np.linalg.solve(a.toarray() + u @ v.T, np.ones(6))
    np.testing.assert_allclose(ldiv.solve(s, scale * np.ones(6)), expected, rtol=1e-13)


def test_large_ones_are_not_refined_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a row among 100,000 may look larger than it is, since sizes are estimated."""
    n, steps, once = 100_000, [], Woodbury.solve
    monkeypatch.setattr(
        Woodbury, "solve", lambda self, b, op: steps.append(op) or once(self, b, op)
    )
    rng = np.random.default_rng(0)
    a = sp.diags_array([-np.ones(n - 1), np.full(n, 4.0), -np.ones(n - 1)], offsets=[-1, 0, 1])
    s = ldiv.asarray(a) + ldiv.LowRank(rng.standard_normal((n, 1)), rng.standard_normal((n, 1)))
    ldiv.solve(s, rng.standard_normal(n))
    assert steps == ["N"]


@pytest.mark.parametrize("least", [1e-3, 1e-5, 1e-9, 1e-12])
def test_derivatives_where_the_updated_part_is_nearly_singular(least: float) -> None:
    """S = D + U V^T has a condition of 1e3, and D + 0 one of 2 / least.

    d(w^T S^-1 b) = -lam^T dS x,  d log |det S| = tr(S^-1 dS),  by LAPACK from S itself
    """
    rng, n, r, tolerance = np.random.default_rng(0), 40, 3, 1e-7 if least < 1e-10 else 1e-11
    d, b, w = np.linspace(1, 2, n), rng.standard_normal(n), rng.standard_normal(n)
    d[3] = least
    u, v, du, dv = (rng.standard_normal((n, r)) for _ in range(4))
    dd, inverse = rng.standard_normal(n), np.linalg.inv(np.diag(d) + u @ v.T)
    x, lam = inverse @ b, inverse.T @ w
    ds = np.diag(dd) + du @ v.T + u @ dv.T

    def matrix_of(d: Any, u: Any, v: Any) -> Any:
        return ldiv.diags_array([d], offsets=[0]) + ldiv.LowRank(u, v)

    def value(d: Any, u: Any, v: Any) -> Any:
        return torch.as_tensor(w) @ ldiv.solve(matrix_of(d, u, v), torch.as_tensor(b))

    at = tuple(map(torch.as_tensor, (d, u, v)))
    found = torch.func.grad(value, (0, 1, 2))(*at)
    expected = -lam * x, -np.outer(lam, v.T @ x), -np.outer(x, u.T @ lam)
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=tolerance * np.abs(right).max())
    along = tuple(map(torch.as_tensor, (dd, du, dv)))
    np.testing.assert_allclose(torch.func.jvp(value, at, along)[1], -lam @ ds @ x, rtol=tolerance)
    if least < 1e-6:  # its determinant is refused
        return

    def size(d: Any, u: Any, v: Any) -> Any:
        return ldiv.slogdet(matrix_of(d, u, v))[1]

    found = torch.func.grad(size, (0, 1, 2))(*at)
    expected = inverse.diagonal(), inverse.T @ v, inverse @ u
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-10 * np.abs(right).max())
    slope = np.trace(inverse @ ds)
    np.testing.assert_allclose(torch.func.jvp(size, at, along)[1], slope, rtol=1e-10)
