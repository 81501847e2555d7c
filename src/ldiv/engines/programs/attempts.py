"""The solution for some active rows, and how far it is from optimal: numbers on the host.

Slack and multipliers are in the units of `numbers`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import eps
from ldiv.core.owners.holder import Holder, holding
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.active_system import ActiveSystem
from ldiv.engines.programs.numbers import Numbers, largest, or_one

DIGITS = 0.125  # the part of the digits that a solution must have


class Attempt(NamedTuple):
    """The system of some active rows and its solution z = (x, y, z, w), corrected once.

    `ratio`: the correction relative to z. `slack`, `pull`: slack and multiplier of each row. `force`:
    the largest term of the gradient. `vague`: multipliers are uncertain, since rows nearly depend on
    each other.
    """

    system: ActiveSystem
    z: Values
    ratio: Values
    slack: Values
    pull: Values
    force: Values
    vague: Values

    def put(self, i: tuple[int, ...], member: Attempt) -> None:
        """Replace a member of the batch."""
        for mine, its in zip(self[1:], member[1:], strict=True):
            mine[i] = its

    def exchanged(self, active: Values, equalities: int) -> Values:
        """Make all exchanges at once. Equalities and bounds that meet stay active."""
        # 0.5 stands for bounds that meet, which are never let go
        may_leave = active == 1
        may_leave[..., :equalities] = False
        # in comes a violated row, out goes one with a multiplier of the wrong sign
        enters = self.free(active) & (self.slack < -self.rtol)
        leaves = may_leave & (self.pull < -self.rtol)
        return np.where(enters, 1, np.where(leaves, 0, active)).astype(active.dtype)

    def weak(self, active: Values, equalities: int) -> Values:
        """Return which rows hold only just."""
        pull = (active == 1) & (abs(self.pull) <= self.rtol)
        pull[..., :equalities] = False
        return (self.touching(active) | pull).astype(active.dtype)  # in which NaN can be told

    def touching(self, active: Values) -> Values:
        """A mask of the rows that are not active and have no slack."""
        return self.free(active) & (self.slack <= self.rtol)

    def free(self, active: Values) -> Values:
        return (active == 0) & np.isfinite(self.slack)

    @property
    def rtol(self) -> float:
        return eps(self.z) ** 0.5


def attempt(numbers: Numbers, latest: Holder, active: Values) -> Attempt:
    """Solve with the rows for which `active` > 0. `latest` owns the factor."""
    active = np.maximum(active, 0)
    some, r = system_of(numbers, active)
    latest.clear()
    n, unit = numbers.system.sizes[0], numbers.unit_of_x(active)
    with holding(latest):
        u, ratio = _corrected(some, r, n, unit)
        # too few digits: once more by factors that keep more
        if not (ratio <= eps(u) ** DIGITS).all() and some.use_careful_solver():
            u, ratio = _corrected(some, r, n, unit)
    z = some.outside(u)
    # slack in units of the terms of a row, multipliers in units of the largest force
    force, slack = numbers.force(z[..., :n]), numbers.slacks(z[..., :n], unit)
    pull = multipliers(numbers, z) / or_one(force)
    return Attempt(some, z, ratio, slack, pull, force, some.loses_multipliers(u, r))


def _corrected(some: ActiveSystem, r: Values, n: int, unit: Values) -> tuple[Values, Values]:
    """The solution, and how much its correction is of it: beside large multipliers a small x is rounding."""
    u = some.solved(r)
    # u <- u + K^-1 (r - K u)
    du = some.correction(u, r)
    u = u + du
    # an x that rounding covers counts as changed by all of itself
    return u, np.where(some.loses_solution(u, r), 1, change(some, r, u, du, n, unit))


def system_of(numbers: Numbers, active: Values) -> tuple[ActiveSystem, Values]:
    """The system of these rows, and its right-hand side."""
    system, data = numbers.system, numbers.data
    some = ActiveSystem(system, system.values(data.P, numbers.C, active), active)
    return some, some.inside(system.side(data.q, numbers.sides, active))


def change(some: ActiveSystem, r: Values, u: Values, du: Values, n: int, unit: Values) -> Values:
    """The size of du relative to u (*batch,): of x or of the multipliers, whichever changes more.

    Where one of these is 0, du is relative to the terms of x, whose size is `unit`, or to the forces.
    """
    # divisors are at least eps^(1/2) of the terms, as x or all multipliers may be 0
    known, x, dx = eps(u) ** 0.5, *(some.outside(v)[..., :n] for v in (u, du))
    least_x, least_y = known * unit, known * largest(r[..., :n])
    of_x = largest(dx) / or_one(np.maximum(largest(x), least_x))
    of_y = largest(du[..., n:]) / or_one(np.maximum(largest(u[..., n:]), least_y))
    return np.maximum(of_x, of_y)[..., 0]


def multipliers(numbers: Numbers, z: Values) -> Values:
    """The multiplier of each row, times its largest entry."""
    n, w = numbers.system.sizes[0], numbers.system.sizes[3]
    y = z[..., n:]
    # one w for the two bounds of an unknown: w for ub, -w for lb
    return (np.concatenate([y, -y[..., y.shape[-1] - w :]], -1) if w else y) * numbers.heights
