"""The active rows of a quadratic program, by a solver, mended by exchanges: numbers on the host.

Rows that depend on others are left out of the system, and exchanges go on until x is optimal. A row is
weak if it is active without force, or inactive without slack: there the solution has no derivative.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import adjoint, common_batch, eps, spread
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.owners.holder import Holder, holding
from ldiv.core.policies.errstate import under
from ldiv.core.policies.refused_member import named
from ldiv.core.rules.compiled import in_rows
from ldiv.core.rules.finite import all_finite, not_finite
from ldiv.engines import solver as systems
from ldiv.engines.factors.cache import counts, share_factors
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.active_system import dependent
from ldiv.engines.programs.attempts import DIGITS, Attempt, attempt, change, system_of
from ldiv.engines.programs.constraints import Constraints
from ldiv.engines.programs.exchanges import judged, settled
from ldiv.engines.programs.guess import Guess, approximate, require_bounded
from ldiv.engines.programs.numbers import Numbers, or_one
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.engines.programs.small_dense import are_taken, proven
from ldiv.errors import (
    NotPositiveDefiniteError,
    SingularMatrixError,
    expected_got,
    of_numbers,
    value_error,
)
from ldiv.structures.asymmetry import refuse_asymmetry
from ldiv.structures.dense import Dense
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric, symmetric_part

ABSENT = {"h": np.inf, "lb": -np.inf, "ub": np.inf}  # as no row says it
AT_ONCE = 20  # exchanges
IMPLIED_ROW = 2  # in `weak`
CORRECTIONS = 3


class Solution(NamedTuple):
    """(x, y, z, w); which rows are in the system; which are weak (1), or implied by others (2); the steps
    of the solver. `loose` says by how much rounding may move z, where a solve with the system leaves an
    error that is larger than rounding.
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
            if are_taken(system, solver):
                return solved(system, solver, Data(*map(in_rows, values)))[0]
            return _solve(system, solver, Data(*values))
        except Exception as problem:  # under jit nobody else names the member
            of_some: Any = lambda some: _solve(system, solver, Data(*some))
            if (error := named(problem, of_some, (1,) * len(values), list(values))) is problem:
                raise
    raise error


def solved(system: Optimality, solver: str, data: Data) -> tuple[Solution, Any]:
    """The solution of a small dense program, and the factor that compiled derivatives use, None where
    some members went the careful way.
    """
    if (found := proven(system, solver, data)) is None:
        return _solve(system, solver, Data(*map(asnumpy, data))), None
    z, active, steps, accepted, seen, factor = found
    sure = Solution(z, active, np.zeros_like(active), steps, np.zeros_like(z))
    if np.count_nonzero(accepted) == accepted.size:
        return sure, factor
    # only members that were declined go the careful way
    rest = accepted == 0
    is_convex, data = bool(seen[rest].all()), Data(*map(asnumpy, data))
    if rest.all():
        return _solve(system, solver, data, is_convex), None
    some = Data(*[spread(x, rest.shape, 1)[rest] for x in data])
    for mine, its in zip(sure, _solve(system, solver, some, is_convex), strict=True):
        mine[rest] = its
    return sure, None


def _solve(system: Optimality, solver: str, data: Data, is_convex: bool = False) -> Solution:
    batch = common_batch((1,) * len(data), data)
    numbers = Numbers(system, Data(*[spread(x, batch, 1) for x in data] if batch else data))
    _require_finite(numbers)
    if not is_convex:
        _require_convex(numbers)
    latest = Holder()  # of the factor of the last exchange
    guess = approximate(numbers, solver, batch)
    active = guess.active.copy()
    # all programs at once, with the rows that the solver found
    tried = _tried(numbers, latest, active)
    # a member that no exchange changes is optimal
    following = None if tried is None else tried.exchanged(active, system.sizes[1])
    wrong = np.ones(batch, bool)
    if following is not None:
        wrong[...] = (following != active).any(-1)
    for i in _where(wrong):
        start = None if following is None else following[i]
        own = numbers.member(i)
        try:
            mended = _mended(Constraints(own), latest, Guess(*(x[i] for x in guess)), start)
        except SingularMatrixError:
            # an unbounded program has a singular system: a solver can tell
            require_bounded(own, solver)
            raise
        active[i] = mended[0]
        if not batch:
            tried = mended[1]
        elif tried is not None:
            tried.put(i, mended[1])
    # some system was singular at first: solve all with the mended rows
    if tried is None:
        tried = attempt(numbers, latest, active)
    # implied rows (-1) are not in the system
    with holding(latest):
        z, loose = _refined(tried, numbers, np.maximum(active, 0))
    share_factors(latest)
    weak = tried.weak(active, system.sizes[1])
    # members with weak or implied rows are judged one by one
    for i in _where(np.asarray((weak > 0).any(-1) | (active < 0).any(-1))):
        z[i], active[i], weak[i] = _judged(numbers.member(i), active[i], z[i])
    # rows with uncertain multipliers count as implied by others
    vague = tried.vague[..., None] & (active > 0) & (weak == 0)
    weak = np.where((active < 0) | vague, IMPLIED_ROW, weak)
    return Solution(z, np.maximum(active, 0), weak, guess.steps, loose)


def _tried(numbers: Numbers, latest: Holder, active: Values) -> Attempt | None:
    """Return the attempt, None if the system of some program is singular."""
    try:
        return attempt(numbers, latest, active)
    except SingularMatrixError:
        return None


def _require_finite(numbers: Numbers) -> None:
    """Numbers, and infinite bounds where they say nothing."""
    data = numbers.data
    finite = all(map(all_finite, (data.P, data.q, numbers.C, data.b)))
    if finite and (numbers.limits > -np.inf).all():
        return
    for name, x in data._asdict().items():
        if (np.isfinite(x) | (x == ABSENT.get(name, 0.0))).all():
            continue
        if name not in ABSENT:
            raise not_finite(name)
        wanted, came = (
            f"finite numbers, or {ABSENT[name]} for none",
            "NaN, or infinity of the other sign",
        )
        raise of_numbers(value_error(name, wanted, came, "Look at what made it."))


def _refined(found: Attempt, numbers: Numbers, active: Values) -> tuple[Values, Values]:
    """z, corrected by residuals of twice the digits, and by how much rounding may move it, where the
    first one did.
    """
    z, ratio, known, step = found.z, found.ratio, eps(found.z), 1
    # corrections go on until the last one is below eps^0.6 of u
    while step < CORRECTIONS and not (ratio <= known**0.6).all():
        some, r = system_of(numbers, active)
        # u = D^-1 z,  du = (D K D)^-1 (r - D K D u)
        u = some.scaled(z)
        du = some.correction(u, r)
        u, unit = u + du, numbers.unit_of_x(active)
        z, ratio = some.outside(u), change(some, r, u, du, numbers.system.sizes[0], unit)
        step += 1
    # refused: the first correction left too few digits, or the last one is still large
    if not (found.ratio <= known**DIGITS).all() or not (ratio <= known**0.3).all():
        raise dependent(
            f"a solution of which less than {-np.log10(known) / 8:.0f} digits are known"
        )
    # where the first correction was above eps^0.75: how far rounding may move z
    is_loose, off = (found.ratio > known**0.75)[..., None], np.zeros_like(z)
    if is_loose.any():
        some, r = system_of(numbers, active)
        off = np.where(is_loose, some.outside(some.moved(some.scaled(z), r)), off)
    return z, off


def _where(wanted: Values) -> list[tuple[int, ...]]:
    """The places of a batch, which may have no axes."""
    return list(map(tuple, np.argwhere(wanted).tolist())) if wanted.any() else []


def _mended(
    rows: Constraints, latest: Holder, guess: Guess, start: Values | None
) -> tuple[Values, Attempt]:
    """All exchanges at once, as long as that leads on; else one at a time."""
    numbers = rows.numbers
    for _ in range(AT_ONCE):
        # a singular system: exchanges go on one at a time
        if start is None or (found := _tried(numbers, latest, start)) is None:
            break
        following = found.exchanged(start, rows.k)
        if (following == start).all():
            return following, found
        start = following
    return settled(rows, partial(attempt, numbers, latest), guess.active, guess.x)


def _judged(numbers: Numbers, active: Values, z: Values) -> tuple[Values, Values, Values]:
    """z with its multipliers, which rows are active, and which of them are weak or implied."""
    rows, own = Constraints(numbers), Holder()
    found = attempt(numbers, own, active)
    with holding(own):
        active, weak, y = judged(rows, found, active)
    return z if y is None else rows.outside(z, y, found.force), active, weak


def _require_convex(numbers: Numbers) -> None:
    """Look for a Cholesky factor of P, shifted by what rounding leaves of an eigenvalue 0.

    Raises NotSymmetricError where P differs from its transpose.
    """
    size, (structure, P) = numbers.size_of_P, numbers.matrices[0]
    shift = eps(P) ** (2 / 3) * or_one(size)
    if isinstance(structure, Dense):
        refuse_asymmetry(P, adjoint(P), "H")
        shifted, i = np.array(symmetric_part(P, "H")), np.arange(structure.n)
        shifted[..., i, i] += shift
        counts["factorizations"] += 1
        is_convex = frontend_of(shifted).dense.cholesky(shifted)[1]
    else:
        # P = 0 is convex
        is_convex = not size.any() or _is_definite(structure, P, shift)
    if not is_convex:
        advice = (
            "The program is not convex: a point where its gradient vanishes need not be a minimum."
        )
        message = expected_got(
            "P", "a positive semidefinite matrix", "one with a negative eigenvalue", advice
        )
        raise of_numbers(ValueError(message))


def _is_definite(P: Any, values: Values, shift: Values) -> bool:
    """Whether P + shift I is definite, for a sparse P."""
    n = P.shape[0]
    # P and shift I on one pattern: entries in one place are summed
    structure = P.cached("shifted", lambda: Symmetric(Sparse(_with_diagonal(P.entries))))
    diagonal = np.broadcast_to(shift, (*values.shape[:-1], n)).astype(values.dtype)
    shifted = np.concatenate([values, diagonal], -1)
    try:
        with holding(Holder()):
            # no right-hand side: the factorization is all that is wanted
            systems.solve(structure, shifted, np.zeros((n, 0), values.dtype), "pos", "auto")
    except NotPositiveDefiniteError:
        return False
    return True


def _with_diagonal(P: Pattern) -> Pattern:
    i = np.arange(P.shape[0])
    return Pattern(np.concatenate([P.rows, i]), np.concatenate([P.cols, i]), P.shape)
