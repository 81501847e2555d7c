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
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.libraries.program import Values

LARGEST = 1000  # unknowns
ROUNDING = 10  # times eps: what is left of rows that depend on each other
LEVEL = 100  # times eps: what is left of P along a direction
DRAWS = 3
FEW = 1e-3  # the part that rounding of some signs may move: other signs move ten times as much


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
    held: Values

    def solved(self, r: Values) -> Values:
        """K^-1 r (*batch, .)."""
        n, columns = len(self.factors.P), r.reshape(-1, r.shape[-1]).T
        u = -columns
        # -y = s for a row that is not active
        of_rows = columns[n:][self.held]
        u[:n], u[n:][self.held] = self.factors.solved(columns[:n], of_rows)
        return u.T.reshape(r.shape)

    def loses_x(self, u: Values, r: Values) -> Values:
        """Tell whether the rounding of K and r leaves less than two digits of x."""
        return self._loses(u, r, slice(len(self.factors.P)))

    def is_vague(self, u: Values, r: Values) -> Values:
        """Tell whether it leaves less than two digits of multipliers, or of those of a cotangent of x."""
        n, cotangent = len(self.factors.P), np.zeros_like(r)
        cotangent[..., :n] = direction(n)[:, 0]
        of_rows = slice(n, None)
        found = self._loses(self.solved(cotangent), cotangent, of_rows)
        return found | self._loses(u, r, of_rows)

    def _loses(self, u: Values, r: Values, part: slice) -> Values:
        # K (u + du) = r + dr - dK u with |dK| <= eps |K|
        size = eps(u) * (abs(u) @ abs(self.K) + abs(r))
        signs = np.random.default_rng(0).choice([-1, 1], (DRAWS, *u.shape)).astype(u.dtype)
        moved, whole = (
            abs(x[..., part]).max(-1, initial=0) for x in (self.solved(signs * size), u)
        )
        found: Values = (moved > FEW * whole).any(0)
        return found


def careful(K: Values, n: int) -> Careful | None:
    """Factor a system that is not large; None where it is singular."""
    if len(K) > LARGEST:
        return None
    held = np.diagonal(K)[n:] == 0
    factors = orthogonal(K[:n, :n], K[n:, :n][held])
    return None if factors is None or factors.flat.size else Careful(factors, K, held)


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
