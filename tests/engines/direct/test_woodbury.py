"""Updates of low rank: each row of a solution's residual is small in the units of that row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
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
