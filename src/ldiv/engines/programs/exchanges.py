"""The active rows of one program, by exchanges: one out, one in, until x is optimal.

In comes the row that is most violated. Where it depends on the rows that are there, one of these leaves:
the one whose multiplier comes to 0 first as that of the new row grows. Out goes the row with the most
negative multiplier, unless other multipliers of the same rows are nonnegative. Rows that were active
together before give way to the next best, so that rounding makes no circles. What holds in the end is
optimal, since the program is convex.
Reference: Goldfarb and Idnani, A numerically stable dual method for strictly convex quadratic programs
(1983).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from ldiv.engines.libraries.program import Values, infeasible
from ldiv.engines.programs.active_system import CAUSES, dependent
from ldiv.engines.programs.attempts import Attempt
from ldiv.engines.programs.constraints import IMPLIED, Constraints, least
from ldiv.engines.programs.numbers import or_one
from ldiv.errors import SingularMatrixError

EXCHANGES = 50
NEAR = 1e-4  # slack of rows that may be active where a solver's x is not exact


def settled(
    rows: Constraints, attempt: Callable[[Values], Attempt], active: Values, x: Values
) -> tuple[Values, Attempt]:
    """The rows that hold in the end, and the solution with them. x is near it, or NaN."""
    slack, is_known = np.zeros(len(active)), not np.isnan(x).any()
    if is_known:
        slack = rows.numbers.slacks(x, rows.numbers.unit_of_x(active))
    active = rows.independent(active, slack)
    try:
        found = attempt(active)
    except SingularMatrixError:
        # a singular system: rows that x nearly touches may hold what is free, or those of a face
        near = np.where((active == 0) & (slack <= NEAR), 1, active)
        active = rows.independent(near, slack)
        if is_known:
            active = rows.on_a_face(active, x)
        found = attempt(active)
    # sets of rows that were tried are not tried again, so that there are no circles
    seen = {active.tobytes()}
    for _ in range(EXCHANGES):
        for following in _exchanged(rows, found, active):
            following = rows.independent(following, found.slack)
            if following.tobytes() in seen:
                continue
            seen.add(following.tobytes())
            # a singular system: the next best exchange
            with suppress(SingularMatrixError):
                active, found = following, attempt(following)
                break
        else:
            # no exchange is left: optimal, or no way to go on
            if _holds(rows, found, active):
                return _touched(found, active), found
            break
    raise SingularMatrixError(
        "solve_qp",
        f"no active rows that hold after {len(seen)} exchanges",
        causes=CAUSES,
        what="the optimality system",
        verdict="is not determined",
    )


def _exchanged(rows: Constraints, found: Attempt, active: Values) -> Iterator[Values]:
    """Generate the rows that may be active next, the best first; none where x is optimal."""
    # a row that others imply holds up to rounding, or they do not imply it
    allowed = np.where(active == IMPLIED, 10 * rows.rounding, found.rtol)
    violated = np.flatnonzero((active <= 0) & (found.slack < -allowed))
    # the most violated row first
    for j in violated[np.argsort(found.slack[violated])].tolist():
        yield from _with(rows, found, active, j)
    if (y := _negative(rows, found, active)) is not None:
        active = _touched(found, active)
        # the most negative multiplier first
        for out in np.flatnonzero(y < -found.rtol)[np.argsort(y[y < -found.rtol])].tolist():
            yield _without(rows, found, active, out)


def _holds(rows: Constraints, found: Attempt, active: Values) -> bool:
    slack = found.slack[active <= 0]
    return bool((slack >= -found.rtol).all()) and _negative(rows, found, active) is None


def _negative(rows: Constraints, found: Attempt, active: Values) -> Values | None:
    """The multipliers of inequalities, 0 for other rows; None where all are nonnegative, or others of
    the same rows are.
    """
    active = _touched(found, active)
    signed, y = rows.inequalities(active), rows.own_multipliers(found, active)
    if (y[signed] >= -found.rtol).all():
        return None
    # some y_B + N t >= 0 proves optimality as well
    N = rows.null_space(found, active)
    other = least(y, N, signed, found.rtol) if N.size else y
    if other is not None and (other[signed] >= -found.rtol).all():
        return None
    return np.where(signed, y, 0)


def _touched(found: Attempt, active: Values) -> Values:
    """`active` without the implied rows that have slack: these bear no force."""
    return np.where((active == IMPLIED) & (found.slack > found.rtol), 0, active)


def _with(rows: Constraints, found: Attempt, active: Values, j: int) -> Iterator[Values]:
    """Generate the rows with row j, which x violates: with all others, unless it depends on them; then
    without the one that loses its force first. Nothing if it depends on equalities, and is off by rounding.
    """
    following = active.copy()
    following[j] = 1
    alpha, depends = rows.combination(found, active, j)
    if not depends:
        yield following.copy()
    # an equality with A x < b is taken as -A x <= -b
    sign = -1 if j < rows.k and rows.falls_short(found, j) else 1
    alpha = sign * alpha
    # y_B - s alpha >= 0 as the new multiplier s grows: the first to reach 0 leaves
    leaving = np.flatnonzero((alpha > 0) & rows.inequalities(active))
    if len(leaving):
        ratio = found.pull[leaving] / alpha[leaving]
        following[leaving[ratio.argmin()]] = 0
        yield following
        return
    # a violation below rounding of the combination is none
    if not depends or found.slack[j] * max(1, abs(alpha).max()) >= -found.rtol:
        return
    if found.slack[j] >= -found.rtol:
        raise dependent("a row that nearly depends on others, and is off by little")
    # no multiplier falls: C^T y = 0 for this y, and b^T y < 0 proves that there is no x
    y = -alpha
    y[j] = sign
    if rows.proves(y, rows.system.split(found.z)[0]):
        y[: rows.of_matrices] /= or_one(rows.heights)
        raise infeasible(rows.certificate(y))
    yield following


def _without(rows: Constraints, found: Attempt, active: Values, out: int) -> Values:
    """Drop a row. If no other row holds x along the edge d on which it leaves, add the first row
    that x reaches: C_B d = -e_out, P d = C_B^T y, d^T P d = y_out.
    """
    following = np.where(np.arange(len(active)) == out, 0, active).astype(active.dtype)
    # K [d; y] = [0; -e_out]
    d, y = rows.edge(found, active, out)
    # d^T P d > 0: a minimum along d is at a finite distance
    if y > rows.rounding * rows.numbers.size_of_P * (d @ d):
        return following
    # else x goes along d until a row stops it
    if (stop := rows.stops(active, rows.system.split(found.z)[0], d)) is not None:
        following[stop[0]] = 1
    return following


def judged(
    rows: Constraints, found: Attempt, active: Values
) -> tuple[Values, Values, Values | None]:
    """The active rows, with all rows through x that depend on them; which of them are weak; and the
    multipliers where they are not unique. A row is weak if it is active without force, or inactive
    without slack: there the solution has no derivative.
    """
    proven, active, touching = active, active.copy(), found.touching(active)
    for j in np.flatnonzero(touching).tolist():
        if rows.combination(found, active, j)[1]:
            active[j] = IMPLIED
    weak = found.weak(active, rows.k)
    if not (active == IMPLIED).any():
        return active, weak, None
    N, signed = rows.null_space(found, active), rows.inequalities(active)
    own = rows.own_multipliers(found, active)
    y = least(own, N, signed, found.rtol)
    if y is None and (own[signed] < -found.rtol).any():
        # beside huge multipliers small ones may be lost: those of fewer rows prove that x is optimal
        fewer = rows.null_space(found, proven)
        y = least(own, fewer, rows.inequalities(proven), found.rtol) if fewer.size else None
        if y is None:
            raise dependent("multipliers of which the signs are not known")
    y = own if y is None else y
    forceful = y > found.rtol
    margin = 10 * found.rtol
    # some y is positive on all rows that depend on each other: x moves on the face
    if not forceful[signed].all() and least(own, N, signed, found.rtol, margin) is not None:
        forceful |= (abs(N) > 0).any(-1)
    weak = np.where(signed, ~forceful, weak > 0).astype(weak.dtype)
    return active, weak, y
