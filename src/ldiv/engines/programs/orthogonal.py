"""[P C^T; C 0] [x; y] = [r; s] by orthogonal factors C^T = [Q1 Q2] [R; 0] of its rows.

    R^T v = s,    (Q2^T P Q2) w = Q2^T (r - P Q1 v),    x = Q1 v + Q2 w,    R y = Q1^T (r - P x)

x loses eps cond(C), where factors of the whole system lose eps cond(C)^2: active rows may nearly depend
on each other.
Reference: Nocedal and Wright, Numerical Optimization (2006), section 16.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import eps
from ldiv.engines.libraries.program import Values

LARGEST = 1000  # unknowns
ROUNDING = 10  # times eps: what is left of rows that depend on each other
LEVEL = 100  # times eps: what is left of P along a direction


class Orthogonal(NamedTuple):
    """R and Q2^T P Q2 = V diag(l) V^T of rows C, each over its length; W = Q2 V; and the part of W along
    which P is 0.
    """

    P: Values
    lengths: Values
    Q1: Values
    R: Values
    W: Values
    curvatures: Values
    flat: Values

    def solved(self, r: Values, s: Values) -> tuple[Values, Values]:
        """(x, y), columns."""
        # v, in the span of the rows; then w, beside it
        x = self.Q1 @ np.linalg.solve(self.R.T, s / self.lengths)
        x = x + self.W @ (self.W.T @ (r - self.P @ x) / self.curvatures[:, None])
        return x, np.linalg.solve(self.R, self.Q1.T @ (r - self.P @ x)) / self.lengths


class Careful(NamedTuple):
    """The factors of K, with -1 on the diagonal for rows that are not active."""

    factors: Orthogonal
    K: Values
    active: Values

    def solved(self, r: Values) -> Values:
        """K^-1 r (*batch, .)."""
        n, columns = len(self.factors.P), r.reshape(-1, r.shape[-1]).T
        u = -columns
        # -y = s for a row that is not active
        of_rows = columns[n:][self.active]
        u[:n], u[n:][self.active] = self.factors.solved(columns[:n], of_rows)
        return u.T.reshape(r.shape)


def careful(K: Values, n: int) -> Careful | None:
    """Factor a system that is not large; None where it is singular."""
    if len(K) > LARGEST:
        return None
    active = np.diagonal(K)[n:] == 0
    factors = orthogonal(K[:n, :n], K[n:, :n][active])
    return None if factors is None or factors.flat.size else Careful(factors, K, active)


def orthogonal(P: Values, C: Values) -> Orthogonal | None:
    """Factor; None where rows depend on each other."""
    lengths = np.linalg.norm(C, axis=1)[:, None]
    if len(C) > len(P) or not lengths.all():
        return None
    # C^T = Q1 R, and Q2 spans what the rows leave free
    Q, R = np.linalg.qr((C / lengths).T, mode="complete")
    Q1, R, Q2 = Q[:, : len(C)], R[: len(C)], Q[:, len(C) :]
    if np.linalg.svd(R, compute_uv=False).min(initial=np.inf) <= ROUNDING * eps(P):
        return None
    # P on what is free, in its own axes
    curvatures, V = np.linalg.eigh(Q2.T @ P @ Q2)
    W = Q2 @ V
    flat = W[:, curvatures <= LEVEL * eps(P) * abs(P).max(initial=0)]
    return Orthogonal(P, lengths, Q1, R, W, curvatures, flat)
