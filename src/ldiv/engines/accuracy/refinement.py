"""x <- x + op(M)^-1 r,  r = b - op(M) x,  while the backward error is no rounding, and halves.

Column by column the best iterate counts. Entries can grow under pivoting, which pivots do not show;
the backward error does.
Reference: Skeel, Math. Comp. 35 (1980); Higham, Accuracy and Stability of Numerical Algorithms,
chapter 12.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.engines.accuracy.verifiable import Verifiable
from ldiv.engines.factor import Factor


def refined(
    m: Verifiable, factor: Factor, b: Array, x: Array, r: Array, op: str, steps: int
) -> tuple[Array, Array, Array]:
    """Return (x, r, backward errors) after at most `steps` steps."""
    xp = namespace(x)

    def known(error: Array) -> Array:
        """Return the backward errors, 0 on overflow, since the caller refuses infinite solutions."""
        return xp.where(xp.isfinite(error), error, xp.zeros_like(error))

    def going(state: tuple[Array, ...]) -> Array:
        _, _, error, before, left = state
        return ((error > m.enough) & (error < before / 2)).any() & (left > 0)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, r, error, _, left = state
        y = x + factor.solve(r, op)
        s, found = m.measured(b, y, op)
        found = known(found)
        better = found < error
        return (
            xp.where(better, y, x),
            xp.where(better, s, r),
            xp.where(better, found, error),
            error,
            left - 1,
        )

    error = known(m.errors(r, x, b, op))
    left = xp.sum(xp.zeros_like(error)) + steps
    x, r, error, _, _ = frontend_of(x).loop(
        going, step, (x, r, error, xp.full_like(error, np.inf), left), steps
    )
    return x, r, error


def refined_by_rows(
    m: Verifiable,
    factor: Factor,
    b: Array,
    x: Array,
    r: Array,
    op: str,
    steps: int,
    units: Sequence[Array],
) -> tuple[Array, Array, Array, Array]:
    """(x, r, row errors, stuck) after at most so many steps, while the row error is no rounding, and
    corrections halve. `stuck`: row errors of residuals that the last step left as they were, else 0.

    A row in which x is zero keeps a row error of 1, whatever x is, though its residual falls:
    corrections then end the loop. They are measured in several `units` of x, (*batch, n, 1).
    """
    xp = namespace(x)

    def sizes(x: Array) -> list[Array]:
        return [xp.max(xp.abs(x * unit), axis=-2, keepdims=True) for unit in units]

    def errors(r: Array, whole: Array) -> Array:
        return xp.max(xp.abs(r) / whole, axis=-2, keepdims=True)

    def going(state: tuple[Array, ...]) -> Array:
        _, _, _, error, _, change, before, left = state
        open_ = (error > m.enough) & (change > m.enough) & (change < before / 2)
        return open_.any() & (left > 0)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, r, whole, error, _, before, _, left = state
        d = factor.solve(r, op)
        y = x + d
        s = m.residual(b, y, op)
        change, *others = (p / q for p, q in zip(sizes(d), sizes(y), strict=True))
        for other in others:
            change = xp.maximum(change, other)
        better, same, whole_now = change < before, errors(s, whole), m.row_sizes(y, b, op)
        return (
            xp.where(better, y, x),
            xp.where(better, s, r),
            xp.where(better, whole_now, whole),
            xp.where(better, errors(s, whole_now), error),
            xp.where(same > error / 2, same, xp.zeros_like(same)),
            change,
            before,
            left - 1,
        )

    whole = m.row_sizes(x, b, op)
    error = errors(r, whole)
    left, stuck = xp.sum(xp.zeros_like(error)) + steps, xp.zeros_like(error)
    unknown = xp.full_like(error, m.limits.max), xp.full_like(error, np.inf)
    start = x, r, whole, error, stuck, *unknown, left
    x, r, _, error, stuck, *_ = frontend_of(x).loop(going, step, start, steps)
    return x, r, error, stuck
