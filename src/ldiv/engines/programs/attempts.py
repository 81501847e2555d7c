"""The solution for some active rows, and how far it is from optimal: numbers on the host.

The slack of a row is in units of its terms, the multiplier in units of the forces that it is among.
Rows are those of A, G, ub and lb in turn; the slack of an equality is -|b - A x|.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import eps, spread
from ldiv.core.holder import Holder, holding
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.active_system import ActiveSystem, dense_if_full
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.engines.programs.posed import largest_of_rows, terms, without_rows
from ldiv.structures.sparse import Sparse


class Attempt(NamedTuple):
    """The system of some active rows, its right-hand side and solution, and the first correction `du` of
    it; the `unit` of x; the slack and the multiplier `pull` of each row; the largest entry of each row
    of A and G, `heights`, and of the terms of the gradient, `force`.
    """

    system: ActiveSystem
    r: Values
    u: Values
    du: Values
    unit: Values
    slack: Values
    pull: Values
    heights: Values
    force: Values

    def exchanged(self, active: Values, equalities: int) -> Values:
        """Make all exchanges at once. Equalities and bounds that meet stay active."""
        held = active == 1
        held[..., :equalities] = False
        enters = self.free(active) & (self.slack < -self.rtol)
        leaves = held & (self.pull < -self.rtol)
        return np.where(enters, 1, np.where(leaves, 0, active)).astype(active.dtype)

    def weak(self, active: Values, equalities: int) -> Values:
        """Return which rows hold only just."""
        pull = (active == 1) & (abs(self.pull) <= self.rtol)
        pull[..., :equalities] = False
        return (self.touching(active) | pull).astype(active.dtype)  # in which NaN can be told

    def touching(self, active: Values) -> Values:
        """Which rows are not active and have no slack."""
        found: Values = self.free(active) & (self.slack <= self.rtol)
        return found

    def free(self, active: Values) -> Values:
        found: Values = (active == 0) & np.isfinite(self.slack)
        return found

    @property
    def rtol(self) -> float:
        return eps(self.u) ** 0.5


def attempt(system: Optimality, latest: Holder, data: Data, active: Values) -> Attempt:
    """With the rows for which `active` > 0. `latest` owns the factor."""
    P, q, _, b, _, h, lb, ub = data
    active = np.maximum(active, 0)
    some = ActiveSystem(system, system.values(data.P, data.A, data.G, active), active)
    r = some.inside(system.side(q, b, h, lb, ub, active))
    latest.clear()
    with holding(latest):
        u = some.solved(r)
        du = some.correction(u, r)  # beside large multipliers a small x is rounding
        u = u + du
    z = some.outside(u)
    x = system.split(z)[0]
    unit = unit_of_x(system, data, active)
    slack, heights = slacks(system, data, x, unit)
    force = largest(_product(system.P, P, x)) + largest(q)
    pull = multipliers(system, z, heights) / or_one(force)
    return Attempt(some, r, u, du, unit, slack, pull, heights, force)


def multipliers(system: Optimality, z: Values, heights: Values) -> Values:
    """The multiplier of each row, times its largest entry."""
    _, y, of_G, of_bounds = system.split(z)
    of_rows = np.concatenate([y, of_G], -1) * heights
    return np.concatenate([of_rows, of_bounds, -of_bounds], -1)


def slacks(system: Optimality, data: Data, x: Values, unit: Values) -> tuple[Values, Values]:
    """The slack of each row, in units of its terms; and the largest entry of each row of A and G."""
    _, _, A, b, G, h, lb, ub = data
    # rounding of x is that of its largest entries, and of what cancelled where x itself is 0
    around = abs(x) + eps(x) ** 0.25 * largest(x) + 100 * eps(x) ** 0.5 * unit
    size = _product(system.A, abs(A), around) + abs(b)
    parts, batch = [-abs(b - _product(system.A, A, x)) / or_one(size)], x.shape[:-1]
    there = np.isfinite(h)
    size = _product(system.G, abs(G), around) + np.where(there, abs(h), 0)
    parts.append(np.where(there, h - _product(system.G, G, x), np.inf) / or_one(size))
    if system.bounds:
        meet = np.broadcast_to(ub == lb, x.shape)
        for bound, sign in ((ub, 1), (lb, -1)):
            there = np.isfinite(bound) & ~meet
            size = around + np.where(there, abs(bound), 0)
            parts.append(np.where(there, sign * (bound - x), np.inf) / or_one(size))
    heights = [largest_of_rows(M.entries, abs(p)) for M, p in ((system.A, A), (system.G, G))]
    slack, of_rows = (
        np.concatenate([spread(p, batch, 1) for p in some], -1) for some in (parts, heights)
    )
    return slack, of_rows


def unit_of_x(system: Optimality, data: Data, active: Values) -> Values:
    """The size of x (*batch, 1) as the terms of its system have it: of the active rows, or q over P."""
    batch = active.shape[:-1]
    of_rows = np.concatenate([spread(x, batch, 1) for x in terms(system, data)], -1)
    most = largest(np.where(active > 0, of_rows, 0))
    unit = np.minimum(without_rows(data)[..., None], np.where(most > 0, most, np.inf))
    return np.where(np.isfinite(unit), unit, 0)


def largest(x: Values) -> Values:
    """The largest absolute value (*batch, 1)."""
    found: Values = abs(x).max(-1, initial=0, keepdims=True)
    return found


def or_one(x: Values) -> Values:
    """x, with 1 in place of 0."""
    return np.where(x > 0, x, 1)


def _product(structure: Sparse, p: Values, x: Values) -> Values:
    small, p = dense_if_full(structure, p)
    found: Any = small.matmul(p, x[..., None])[..., 0]
    return found
