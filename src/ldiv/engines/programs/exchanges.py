"""The active rows of one program, by exchanges: one out, one in, until x is optimal.

In comes the row that is most violated. Where it depends on the rows that are there, one of these leaves:
the one whose multiplier comes to 0 first as that of the new row grows. Out goes the row with the most
negative multiplier, unless other multipliers of the same rows are nonnegative. What holds in the end is
optimal, since the program is convex.
Reference: Goldfarb and Idnani, A numerically stable dual method for strictly convex quadratic programs
(1983).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ldiv.engines.libraries.program import Values, infeasible
from ldiv.engines.programs.active_system import CAUSES, dependent
from ldiv.engines.programs.attempts import Attempt, or_one
from ldiv.engines.programs.constraints import IMPLIED, Constraints, least
from ldiv.errors import SingularMatrixError

EXCHANGES = 50
NEAR = 1e-4  # slack of rows that may be active where a solver's x is not exact


class Judged(NamedTuple):
    """Which rows are active, which are weak, and the multipliers where they are not unique."""

    active: Values
    weak: Values
    y: Values | None


def settled(
    rows: Constraints, attempt: Callable[[Values], Attempt], active: Values, slack: Values
) -> tuple[Values, Attempt]:
    """The rows that hold in the end, and the solution with them. `slack` says how near to each row the
    solution is thought to be.
    """
    for step in range(EXCHANGES):
        active = rows.independent(active, slack)
        try:
            found = attempt(active)
        except SingularMatrixError:
            near = (active == 0) & (slack <= NEAR)
            if step or not near.any():
                raise
            active = rows.independent(np.where(near, 1, active), slack)
            found = attempt(active)
        following = _exchanged(rows, found, active)
        if following is None:
            return _touched(found, active), found
        active, slack = following, found.slack
    raise SingularMatrixError(
        "solve_qp",
        f"no active rows that hold after {EXCHANGES} exchanges",
        causes=CAUSES,
        what="the optimality system",
        verdict="is not determined",
    )


def _exchanged(rows: Constraints, found: Attempt, active: Values) -> Values | None:
    """Return the rows that are active next; None where x is optimal."""
    allowed = np.where(active == IMPLIED, 10 * rows.rounding, found.rtol)
    violated = (active <= 0) & (found.slack < -allowed)
    order = np.flatnonzero(violated)
    for j in order[np.argsort(found.slack[order])].tolist():
        if (following := _with(rows, found, active, j)) is not None:
            return following
    active = _touched(found, active)
    signed, y = rows.inequalities(active), rows.own_multipliers(found, active)
    if (y[signed] >= -found.rtol).all():
        return None
    N = rows.null_space(found, active)
    other = least(y, N, signed, found.rtol) if N.size else y
    if other is not None and (other[signed] >= -found.rtol).all():
        return None
    out = np.where(signed, y, np.inf).argmin()
    following = active.copy()
    following[out] = 0
    return following


def _touched(found: Attempt, active: Values) -> Values:
    """`active` without the implied rows that have slack: these bear no force."""
    return np.where((active == IMPLIED) & (found.slack > found.rtol), 0, active)


def _with(rows: Constraints, found: Attempt, active: Values, j: int) -> Values | None:
    """With row j, which x violates; None where it depends on equalities, and is off by rounding."""
    following = active.copy()
    following[j] = 1
    alpha, depends = rows.combination(found, active, j)
    if not depends:
        return following
    sign = -1 if j < rows.k and rows.falls_short(found, j) else 1
    alpha = sign * alpha
    leaving = np.flatnonzero((alpha > found.rtol) & rows.inequalities(active))
    if not len(leaving):
        if found.slack[j] >= -found.rtol:
            return None
        y = -alpha
        y[j] = sign
        y[: rows.of_matrices] /= or_one(rows.heights)
        raise infeasible(rows.certificate(y))
    ratio = found.pull[leaving] / alpha[leaving]
    following[leaving[ratio.argmin()]] = 0
    return following


def judged(rows: Constraints, found: Attempt, active: Values) -> Judged:
    """With all rows through x that depend on the active ones among these. A row is weak if it is active
    without force, or inactive without slack: there the solution has no derivative.
    """
    active, touching = active.copy(), found.touching(active)
    for j in np.flatnonzero(touching).tolist():
        if rows.combination(found, active, j)[1]:
            active[j] = IMPLIED
    weak = found.weak(active, rows.k)
    if not (active == IMPLIED).any():
        return Judged(active, weak, None)
    N, signed = rows.null_space(found, active), rows.inequalities(active)
    own = rows.own_multipliers(found, active)
    y = least(own, N, signed, found.rtol)
    if y is None:
        if (own[signed] < -found.rtol).any():
            raise dependent("multipliers of which the signs are not known")
        y = own
    forceful = y > found.rtol
    margin = 10 * found.rtol
    if not forceful[signed].all() and least(own, N, signed, found.rtol, margin) is not None:
        forceful |= (abs(N) > 0).any(-1)
    weak = np.where(signed, ~forceful, weak > 0).astype(weak.dtype)
    return Judged(active, weak, y)
