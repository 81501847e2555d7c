"""The active rows of a quadratic program, by a solver, mended by exchanges: numbers on the host.

Out goes the row with the most negative multiplier, in comes the one that is most violated; what holds
in the end is optimal, since the program is convex. A row is weak if it is active without force, or
inactive without slack: there the solution has no derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import common_batch, eps, spread
from ldiv.core.errstate import under
from ldiv.core.finite import not_finite
from ldiv.core.holder import Holder, holding
from ldiv.core.pattern import Pattern
from ldiv.engines import solver as systems
from ldiv.engines.factors.cache import hand_over
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.active_system import CAUSES, ActiveSystem, dependent
from ldiv.engines.programs.guess import approximate, require_bounded
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.engines.programs.posed import largest_of_rows, terms, without_rows
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError, expected_got, of_numbers
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

ABSENT = {"h": np.inf, "lb": -np.inf, "ub": np.inf}  # as no row says it
EXCHANGES = 20
CORRECTIONS = 3


class Solution(NamedTuple):
    """(x, y, z, w); what is active, and what is weak, of each inequality; the steps of the solver; and
    whether a solve with the system leaves an error that is larger than rounding.
    """

    z: Values
    active: Values
    weak: Values
    steps: Values
    loose: Values


class Attempt(NamedTuple):
    """The system of some active rows, its right-hand side and solution; of each inequality the slack in
    units of its terms, and the multiplier in units of the forces that it is among.
    """

    system: ActiveSystem
    r: Values
    u: Values
    slack: Values
    pull: Values

    def member(self, i: tuple[int, ...]) -> Attempt:
        """What exchanges look at, of one program."""
        return self._replace(slack=self.slack[i], pull=self.pull[i])

    def exchanged(self, active: Values, at_once: bool = False) -> Values:
        """What is active next. Bounds that meet stay, whatever their force."""
        free, held = self._free(active), active == 1
        if active.size and not at_once:
            first = np.where(free, self.slack, np.inf).argmin(-1)[..., None]
            last = np.where(held, self.pull, np.inf).argmin(-1)[..., None]
            here = np.arange(active.shape[-1])
            free, held = free & (here == first), held & (here == last)
        enters, leaves = free & (self.slack < -self._rtol), held & (self.pull < -self._rtol)
        return np.where(enters, 1, np.where(leaves, 0, active)).astype(active.dtype)

    def weak(self, active: Values) -> Values:
        """What holds only just."""
        slack = self._free(active) & (self.slack <= self._rtol)
        pull = (active == 1) & (abs(self.pull) <= self._rtol)
        return (slack | pull).astype(active.dtype)  # in which NaN can be told

    def _free(self, active: Values) -> Values:
        free: Values = (active == 0) & np.isfinite(self.slack)
        return free

    @property
    def _rtol(self) -> float:
        return eps(self.u) ** 0.5


def solve(system: Optimality, solver: str, *values: Values) -> Solution:
    """Of all programs of a batch. The last factor is kept by the owner of the call."""
    with under("raise"):
        return _solve(system, solver, Data(*values))


def _solve(system: Optimality, solver: str, data: Data) -> Solution:
    batch, dtype = common_batch((1,) * len(data), data), data.q.dtype
    for name, x in data._asdict().items():
        if not (np.isfinite(x) | (x == ABSENT.get(name, 0.0))).all():
            raise _not_finite(name)
    _require_convex(system.P, data.P)
    active, steps = np.zeros((*batch, system.rows), dtype), np.zeros(batch, dtype)
    members = [spread(x, batch, 1) for x in data]
    latest = Holder()  # of the factor of the last exchange
    for i in np.ndindex(batch):
        active[i], steps[i] = approximate(system, solver, Data(*(x[i] for x in members)))
    attempt = partial(_attempt, system, latest)
    try:
        found = attempt(data, active)
    except SingularMatrixError:
        for i in np.ndindex(batch):
            require_bounded(system, solver, Data(*(x[i] for x in members)))
        raise
    moved = (found.exchanged(active) != active).any(-1)
    if moved.any():
        for i in np.ndindex(batch):
            if moved[i]:
                own = Data(*(x[i] for x in members))
                active[i], last = _mended(attempt, own, active[i], found.member(i))
        found = attempt(data, active) if batch else last
    with holding(latest):
        z, loose = _refined(found, _unit(system, data, active), system.sizes[0])
    hand_over(latest)
    return Solution(z, active, found.weak(active), steps, loose)


def _not_finite(name: str) -> Exception:
    if name not in ABSENT:
        return not_finite(name)
    wanted, advice = f"finite numbers, or {ABSENT[name]} for none", "Look at what made it."
    return of_numbers(
        ValueError(expected_got(name, wanted, "NaN, or infinity of the other sign", advice))
    )


def _refined(found: Attempt, unit: Values, n: int) -> tuple[Values, Values]:
    """z, corrected by residuals of twice the digits, and whether the first one moved it."""
    some, r, u = found[:3]
    known, first = eps(u), None
    # where x or the multipliers are 0, rounding is beside the terms of x, whose size is `unit`, and
    # beside the forces
    of_x, of_forces = known**0.5 * unit, known**0.5 * _largest(r[..., :n])
    for _ in range(CORRECTIONS):
        du = some.correction(u, r)
        u, dx = u + du, some.outside(du)[..., :n]
        z = some.outside(u)
        ratio = np.maximum(
            _change(dx, z[..., :n], of_x), _change(du[..., n:], u[..., n:], of_forces)
        )
        first = ratio if first is None else first
        if (ratio <= known**0.6).all():
            break
    if not (first <= known**0.125).all() or not (ratio <= known**0.3).all():
        raise dependent(
            f"a solution of which less than {-np.log10(known) / 8:.0f} digits are known"
        )
    return z, (first > known**0.75).astype(u.dtype)


def _change(dx: Values, x: Values, least: Values) -> Values:
    """That of x, relative to its largest entry (*batch,)."""
    change: Values = _largest(dx) / _or_one(np.maximum(_largest(x), least))
    return change[..., 0]


def _mended(
    attempt: Callable[[Data, Values], Attempt], data: Data, guess: Values, first: Attempt
) -> tuple[Values, Attempt]:
    """All exchanges at once, as long as that leads on; else one at a time."""
    for at_once in (True, False):
        active, found = guess, first
        with suppress(SingularMatrixError) if at_once else nullcontext():
            for _ in range(EXCHANGES):
                following = found.exchanged(active, at_once)
                if (following == active).all():
                    return active, found
                active, found = following, attempt(data, following)
    raise SingularMatrixError(
        "solve_qp",
        f"no active rows that hold after {EXCHANGES} exchanges",
        causes=CAUSES,
        what="the optimality system",
        verdict="is not determined",
    )


def _attempt(system: Optimality, latest: Holder, data: Data, active: Values) -> Attempt:
    P, q, _, b, _, h, lb, ub = data
    some = ActiveSystem(system, system.values(data.P, data.A, data.G, active), active)
    r = some.inside(system.side(q, b, h, lb, ub, active))
    latest.clear()
    with holding(latest):
        u = some.solved(r)
    z = some.outside(u)
    x, _, of_G, of_bounds = system.split(z)
    slack, heights = _slack(system, data, x, _unit(system, data, active))
    force = _largest(_product(system.P, P, x)) + _largest(q)
    pull = np.concatenate([of_G * heights, of_bounds, -of_bounds], -1) / _or_one(force)
    return Attempt(some, r, u, slack, pull)


def _slack(system: Optimality, data: Data, x: Values, unit: Values) -> tuple[Values, Values]:
    """The slack of each inequality, in units of its terms; and the largest entry of each row of G."""
    G, h, lb, ub = data[4:]
    # rounding of x is that of its largest entries, and of what cancelled where x itself is 0
    around = abs(x) + eps(x) ** 0.25 * _largest(x) + 100 * eps(x) ** 0.5 * unit
    there = np.isfinite(h)
    size = _product(system.G, abs(G), around) + np.where(there, abs(h), 0)
    parts, batch = (
        [np.where(there, h - _product(system.G, G, x), np.inf) / _or_one(size)],
        x.shape[:-1],
    )
    if system.bounds:
        for bound, sign in ((ub, 1), (lb, -1)):
            there = np.isfinite(bound)
            size = around + np.where(there, abs(bound), 0)
            parts.append(np.where(there, sign * (bound - x), np.inf) / _or_one(size))
        meet = np.broadcast_to(ub == lb, x.shape)
        parts[1:] = [np.where(meet, np.inf, part) for part in parts[1:]]
    heights = largest_of_rows(system.G.entries, abs(G))
    return np.concatenate([spread(p, batch, 1) for p in parts], -1), heights


def _unit(system: Optimality, data: Data, active: Values) -> Values:
    """The size of x (*batch, 1) as the terms of its system have it: of the active rows, or q over P."""
    of_b, *of_rows = terms(system, data)
    batch = active.shape[:-1]
    held = np.where(active > 0, np.concatenate([spread(x, batch, 1) for x in of_rows], -1), 0)
    most = np.maximum(_largest(of_b), _largest(held))
    unit = np.minimum(without_rows(data)[..., None], np.where(most > 0, most, np.inf))
    return np.where(np.isfinite(unit), unit, 0)


def _product(structure: Sparse, p: Values, x: Values) -> Values:
    found: Any = structure.apply(p, x[..., None], "N")[..., 0]
    return found


def _largest(x: Values) -> Values:
    found: Values = abs(x).max(-1, initial=0, keepdims=True)
    return found


def _or_one(x: Values) -> Values:
    return np.where(x > 0, x, 1)


def _require_convex(P: Sparse, values: Values) -> None:
    """By a Cholesky factor of P, shifted by what rounding leaves of an eigenvalue 0."""
    size, n = _largest(values), P.shape[0]
    if not size.any():
        return
    shift = np.broadcast_to(eps(values) ** (2 / 3) * _or_one(size), (*values.shape[:-1], n))
    structure = P.cached("with a diagonal", lambda: Symmetric(Sparse(_with_diagonal(P.entries))))
    none = np.zeros((n, 0), values.dtype)
    shifted = np.concatenate([values, shift.astype(values.dtype)], -1)
    try:
        with holding(Holder()):
            systems.solve(structure, shifted, none, "pos", "auto")
    except NotPositiveDefiniteError:
        advice = (
            "The program is not convex: a point where its gradient vanishes need not be a minimum."
        )
        message = expected_got(
            "P", "a positive semidefinite matrix", "one with a negative eigenvalue", advice
        )
        raise of_numbers(ValueError(message)) from None


def _with_diagonal(P: Pattern) -> Pattern:
    i = np.arange(P.shape[0])
    return Pattern(np.concatenate([P.rows, i]), np.concatenate([P.cols, i]), P.shape)
