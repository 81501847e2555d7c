"""The active rows of a quadratic program, by a solver, mended by exchanges: numbers on the host.

Rows that depend on others are left out of the system, and exchanges go on until x is optimal. A row is
weak if it is active without force, or inactive without slack: there the solution has no derivative.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from ldiv.core.arrays import common_batch, eps, spread
from ldiv.core.errstate import under
from ldiv.core.finite import not_finite
from ldiv.core.holder import Holder, holding
from ldiv.core.pattern import Pattern
from ldiv.core.refused_member import named
from ldiv.engines import solver as systems
from ldiv.engines.factors.cache import hand_over
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.active_system import dense_if_full, dependent
from ldiv.engines.programs.attempts import Attempt, attempt, largest, or_one, slacks, unit_of_x
from ldiv.engines.programs.constraints import Constraints
from ldiv.engines.programs.exchanges import judged, settled
from ldiv.engines.programs.guess import Guess, approximate, require_bounded
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError, expected_got, of_numbers
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

ABSENT = {"h": np.inf, "lb": -np.inf, "ub": np.inf}  # as no row says it
AT_ONCE = 20  # exchanges
IMPLIED_ROW = 2  # in `weak`
CORRECTIONS = 3


class Solution(NamedTuple):
    """(x, y, z, w); which rows are in the system; which are weak (1), or implied by others (2); the steps
    of the solver; and whether a solve with the system leaves an error that is larger than rounding.
    """

    z: Values
    active: Values
    weak: Values
    steps: Values
    loose: Values


def solve(system: Optimality, solver: str, *values: Values) -> Solution:
    """Solve all programs of a batch. The owner of the call keeps the last factor."""
    with under("raise"):
        try:
            return _solve(system, solver, Data(*values))
        except Exception as problem:  # under jit nobody else names the member
            of_some = partial(_of_some, system, solver)
            if (error := named(problem, of_some, (1,) * len(values), list(values))) is problem:
                raise
    raise error


def _of_some(system: Optimality, solver: str, values: list[Values]) -> Solution:
    return _solve(system, solver, Data(*values))


def _solve(system: Optimality, solver: str, data: Data) -> Solution:
    batch = common_batch((1,) * len(data), data)
    for name, x in data._asdict().items():
        finite = np.isfinite(x)
        if not (finite.all() or (finite | (x == ABSENT.get(name, 0.0))).all()):
            raise _not_finite(name)
    _require_convex(system.P, data.P)
    latest = Holder()  # of the factor of the last exchange
    members = Data(*(spread(x, batch, 1) for x in data))
    flat = Data(*(x.reshape(prod(batch), x.shape[-1]) for x in members))
    found = approximate(system, solver, flat)
    guess = Guess(*(x.reshape((*batch, *x.shape[1:])) for x in found))
    active = guess.active.copy()
    tried = _tried(system, latest, data, active)
    following = None if tried is None else tried.exchanged(active, system.sizes[1])
    wrong = np.ones(batch, bool)
    if following is not None:
        wrong[...] = (following != active).any(-1)
    for i in _where(wrong):
        start = None if following is None else following[i]
        own = Data(*(x[i] for x in members))
        try:
            some = Constraints(system, own)
            active[i], tried = _mended(some, latest, Guess(*(x[i] for x in guess)), start)
        except SingularMatrixError:
            require_bounded(system, solver, own)
            raise
    if batch and wrong.any():
        tried = attempt(system, latest, data, active)
    assert tried is not None
    with holding(latest):
        z, loose = _refined(tried, system.sizes[0])
    hand_over(latest)
    weak = tried.weak(active, system.sizes[1])
    doubtful = np.asarray((weak > 0).any(-1) | (active < 0).any(-1))
    for i in _where(doubtful):
        own = Data(*(x[i] for x in members))
        z[i], active[i], weak[i] = _judged(system, own, active[i], z[i])
    weak = np.where(active < 0, IMPLIED_ROW, weak)
    return Solution(z, np.maximum(active, 0), weak, guess.steps, loose)


def _tried(system: Optimality, latest: Holder, data: Data, active: Values) -> Attempt | None:
    """None where the system of some program is singular."""
    try:
        return attempt(system, latest, data, active)
    except SingularMatrixError:
        return None


def _not_finite(name: str) -> Exception:
    if name not in ABSENT:
        return not_finite(name)
    wanted, advice = f"finite numbers, or {ABSENT[name]} for none", "Look at what made it."
    return of_numbers(
        ValueError(expected_got(name, wanted, "NaN, or infinity of the other sign", advice))
    )


def _refined(found: Attempt, n: int) -> tuple[Values, Values]:
    """z, corrected by residuals of twice the digits, and whether the first one moved it."""
    some, r, u, du = found[:4]
    known, first = eps(u), None
    # where x or the multipliers are 0, rounding is beside the terms of x, whose size is their unit, and
    # beside the forces
    of_x, of_forces = known**0.5 * found.unit, known**0.5 * largest(r[..., :n])
    for step in range(CORRECTIONS):
        if step:
            du = some.correction(u, r)
            u = u + du
        dx, z = some.outside(du)[..., :n], some.outside(u)
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
    """The change of x, relative to its largest entry (*batch,)."""
    change: Values = largest(dx) / or_one(np.maximum(largest(x), least))
    return change[..., 0]


def _where(wanted: Values) -> list[tuple[int, ...]]:
    """The places of a batch, which may have no axes."""
    return [i for i in np.ndindex(wanted.shape) if wanted[i]]


def _mended(
    rows: Constraints, latest: Holder, guess: Guess, start: Values | None
) -> tuple[Values, Attempt]:
    """All exchanges at once, as long as that leads on; else one at a time."""
    system, data = rows.system, rows.data
    for _ in range(AT_ONCE):
        if start is None or (found := _tried(system, latest, data, start)) is None:
            break
        following = found.exchanged(start, rows.k)
        if (following == start).all():
            return following, found
        start = following
    slack = np.zeros(system.rows)
    if not np.isnan(guess.x).any():
        slack = slacks(system, data, guess.x, unit_of_x(system, data, guess.active))[0]
    return settled(rows, partial(attempt, system, latest, data), guess.active, slack)


def _judged(
    system: Optimality, data: Data, active: Values, z: Values
) -> tuple[Values, Values, Values]:
    """z with its multipliers, which rows are active, and which of them are weak or implied."""
    rows, own = Constraints(system, data), Holder()
    found = attempt(system, own, data, active)
    with holding(own):
        active, weak, y = judged(rows, found, active)
    return z if y is None else rows.outside(z, y, found.force), active, weak


def _require_convex(P: Sparse, values: Values) -> None:
    """Look for a Cholesky factor of P, shifted by what rounding leaves of an eigenvalue 0."""
    size, n = largest(values), P.shape[0]
    if not size.any():
        return
    shift = np.broadcast_to(eps(values) ** (2 / 3) * or_one(size), (*values.shape[:-1], n))
    structure = P.cached("with a diagonal", lambda: Sparse(_with_diagonal(P.entries)))
    none = np.zeros((n, 0), values.dtype)
    shifted = np.concatenate([values, shift.astype(values.dtype)], -1)
    given, shifted = dense_if_full(structure, shifted)
    symmetric = given.cached("symmetric", lambda: Symmetric(given))
    try:
        with holding(Holder()):
            systems.solve(symmetric, shifted, none, "pos", "auto")
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
