"""x <- x + op(M)^-1 r,  r = b - op(M) x,  while the backward error is no rounding, and halves.

Column by column the best iterate counts. Entries can grow under pivoting, which pivots do not show;
the backward error does.
Reference: Skeel, Math. Comp. 35 (1980); Higham, Accuracy and Stability of Numerical Algorithms,
chapter 12.
"""

from __future__ import annotations

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.dispatch import frontend_of, namespace
from ldiv.engines.accuracy.verifiable import Verifiable
from ldiv.engines.factor import Factor


def refined(
    m: Verifiable, factor: Factor, b: Array, x: Array, r: Array, op: str, steps: int
) -> tuple[Array, Array, Array]:
    """(x, r, backward errors) after at most so many steps."""
    xp = namespace(x)

    def errors(r: Array, x: Array) -> Array:
        """0 on overflow: whoever asked refuses infinite solutions."""
        found = m.errors(r, x, b, op)
        return xp.where(xp.isfinite(found), found, xp.zeros_like(found))

    def going(state: tuple[Array, ...]) -> Array:
        _, _, error, before, left = state
        return ((error > m.enough) & (error < before / 2)).any() & (left > 0)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, r, error, _, left = state
        y = x + factor.solve(r, op)
        s = m.residual(b, y, op)
        found = errors(s, y)
        better = found < error
        return (
            xp.where(better, y, x),
            xp.where(better, s, r),
            xp.where(better, found, error),
            error,
            left - 1,
        )

    error = errors(r, x)
    left = xp.sum(xp.zeros_like(error)) + steps
    x, r, error, _, _ = frontend_of(x).loop(
        going, step, (x, r, error, xp.full_like(error, np.inf), left), steps
    )
    return x, r, error
