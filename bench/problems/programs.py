"""Quadratic programs and nonlinear least squares, with gradients in 50 digits.

obstacle     P of 5 points on a grid plus .1, bounds that half of the unknowns touch: sparse
dense        P = L L^T / n + .1, n / 2 inequalities, n / 10 equalities: dense

The gradient is that of c^T x, in q and in the sides of the constraints. For the rows that are active
it is one linear system, K lam = (c, 0), solved to 50 digits by refining with SciPy's LU factor; that
they are the active ones is shown in these digits, by the signs of multipliers and slacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from mpmath import mp, mpf

DIGITS = 50


@dataclass(frozen=True)
class Program:
    """min x^T P x / 2 + q^T x  with  G x <= h, A x = b; `bounds` says that G = (I, -I)."""

    P: Any
    q: Any
    G: Any
    h: Any
    A: Any
    b: Any
    c: Any
    bounds: bool

    @property
    def n(self) -> int:
        return len(self.q)

    def moved(self, i: int) -> Program:
        """Other data of the same pattern, hardly different: the active rows stay."""
        return Program(
            self.P, self.q * (1 + 1e-9 * i), self.G, self.h, self.A, self.b, self.c, self.bounds
        )


def obstacle(rows: int, cols: int, seed: int = 0) -> Program:
    random = np.random.default_rng(seed)
    lines = [
        sp.diags_array([-np.ones(k - 1), 2 * np.ones(k), -np.ones(k - 1)], offsets=[-1, 0, 1])
        for k in (rows, cols)
    ]
    n = rows * cols
    P = sp.kron(lines[0], sp.eye_array(cols)) + sp.kron(sp.eye_array(rows), lines[1])
    P = sp.csc_array(P + 0.1 * sp.eye_array(n))
    one = sp.eye_array(n)
    G, h = sp.csc_array(sp.vstack([one, -one])), np.concatenate([random.uniform(0.1, 0.3, n)] * 2)
    none = sp.csc_array((0, n))
    return Program(
        P, random.standard_normal(n), G, h, none, np.zeros(0), random.standard_normal(n), True
    )


def dense(n: int, seed: int = 0) -> Program:
    random = np.random.default_rng(seed)
    L, x = random.standard_normal((n, n)), random.standard_normal(n)
    G, A = random.standard_normal((n // 2, n)), random.standard_normal((n // 10, n))
    P = L @ L.T / n + 0.1 * np.eye(n)
    h = G @ x + 0.3 * random.random(n // 2) * np.sqrt(n)
    q, c = 2 * random.standard_normal(n), random.standard_normal(n)
    return Program(
        *map(sp.csc_array, (P,)), q, sp.csc_array(G), h, sp.csc_array(A), A @ x, c, False
    )


def reference(p: Program, active: Any) -> dict[str, Any]:
    """The gradients in q, h and b, rounded; an error where these rows are not the active ones."""
    mp.dps = DIGITS
    rows, n = np.flatnonzero(active), p.n
    C = sp.vstack([p.A, p.G.tocsr()[rows]])
    K = sp.csc_array(sp.block_array([[p.P, C.T], [C, None]]))
    lu = scipy.sparse.linalg.splu(K)
    z = refined(K, lu, np.concatenate([-p.q, p.b, p.h[rows]]))
    lam = refined(K, lu, np.concatenate([p.c, np.zeros(K.shape[0] - n)]))
    forces = z[n + len(p.b) :]
    slacks = _residual(sp.csr_array(p.G), p.h, z[:n])[np.flatnonzero(~active)]
    if not (min([*forces, 1]) > 0 and min([*slacks, 1]) > 0):
        raise ValueError("these rows are not the active ones")
    h_bar = np.zeros(len(p.h))
    h_bar[rows] = lam[n + len(p.b) :].astype(float)
    return {
        "q": -lam[:n].astype(float),
        "h": h_bar,
        "b": lam[n : n + len(p.b)].astype(float),
        "margin": float(min([*forces, *slacks])),
    }


def refined(K: Any, lu: Any, b: Any) -> Any:
    """K^-1 b as mpmath's numbers: each step gains the digits of the factor."""
    by_rows, x = sp.csr_array(K), np.array([mpf(0)] * K.shape[0])
    size = abs(b).max()
    for _ in range(40):
        r = _residual(by_rows, b, x)
        largest = max(abs(v) for v in r)
        if largest <= size * mpf(10) ** (5 - DIGITS):
            return x
        unit = mpf(2) ** int(mp.log(largest, 2))
        x = x + np.array([mpf(d) * unit for d in lu.solve((r / unit).astype(float))])
    raise ValueError("refinement does not converge")


def _residual(A: Any, b: Any, x: Any) -> Any:
    """b - A x in 50 digits."""
    products = np.array([mpf(v) for v in A.data], dtype=object) * x[A.indices]
    sums = np.array([mpf(v) for v in b], dtype=object)
    full = np.flatnonzero(np.diff(A.indptr))
    if len(full):
        sums[full] = sums[full] - np.add.reduceat(products, A.indptr[full])
    return sums
