"""Small dense programs by compiled calls: a guess of the active rows, K and r, a factor of K, two
solves, and the proof that their z is the solution, and has a derivative.

A dual active-set method guesses where P is definite, and PIQP where that finds no rows. A member whose
rows fail the proof goes the careful way.

It is accepted by member. What is declined, since rows only just hold or depend on each other, a unit
is far from 1 or digits are lost, goes the careful way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import broadcast, conform, numpy_dtype
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.owners.holder import owner
from ldiv.core.rules.finite import all_finite
from ldiv.engines.accuracy.accepted import LU, compiled, workers
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.dense_calls import OWNERS, kept
from ldiv.engines.libraries import piqp
from ldiv.engines.libraries.program import Plain, Values, is_here
from ldiv.engines.programs.numbers import SMALL
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.errors import ConvergenceError

SIDES = 1, 3, 5  # q, b and h: their cotangents are always passed, since they say n, k and m


class Proven(NamedTuple):
    """z, the active rows and the steps of the solver; which members are accepted; in which the looks at
    the data passed, convexity among them; and the factor of K.
    """

    z: Values
    active: Values
    steps: Values
    accepted: Values
    seen: Values
    factor: Any


def are_taken(system: Optimality, solver: str) -> bool:
    """Whether compiled calls take such programs: full rows, and no other solver by name."""
    n, k, m, w = system.sizes
    return (
        compiled() is not None
        and 0 < n < n + k + m + w <= SMALL
        and (m + w == 0 or solver == "auto" or (solver == "piqp" and is_here("piqp")))
        and system.P.entries.is_full
        and system.A.entries.is_full
        and system.G.entries.is_full
    )


def proven(system: Optimality, solver: str, data: Data) -> Proven | None:
    """Solve a program that is taken, for row-major arrays of any framework; None where nothing is tried."""
    native, keeper, dtype = compiled(), owner(), numpy_dtype(data.q)
    batch = broadcast(*[x.shape[:-1] for x in data if x.ndim > 1])
    if type(keeper) not in OWNERS or 0 in batch:
        return None
    n, k, m, w = system.sizes
    # t unknowns: x, the multipliers of A and G, and those of bounds
    t, given = n + k + m + w, [x if x.shape[-1] else None for x in data]
    r, u, left, du, z = [np.empty((*batch, t), dtype) for _ in range(5)]
    K = np.empty((*batch, t, t), dtype)
    active, steps = np.empty((*batch, system.rows), dtype), np.zeros(batch, dtype)
    seen, accepted = np.zeros(batch, dtype), np.zeros(batch, dtype)
    threads, found = workers(K.shape), Proven(z, active, steps, accepted, seen, None)
    system_of = partial(native.program_system, *given)
    # without a guess `program_system` finds the rows by its dual method
    by_dual_method = solver == "auto" and m + w > 0
    if by_dual_method and not system_of(None, K, r, active, steps, seen, threads):
        return None
    all_seen = by_dual_method and _holds_for_all(seen)
    if not all_seen:
        # without inequalities all rows are active
        guess = _guessed(system, solver, data, found) if m + w else np.ones_like(active)
        if not system_of(guess, K, r, active, steps, seen, threads) or not seen.any():
            return found
        all_seen = _holds_for_all(seen)
    counts["factorizations"] += 1  # of P
    # K = I for members that go the careful way, so that the batch has a factor
    if not all_seen:
        K[seen == 0], r[seen == 0] = np.eye(t), 0
    # K u = r,  K du = r - K u
    factor, again, is_solved = native.solve(K, LU, r, u, "N", threads)
    if factor is None:
        return found
    kept(factor, again, keeper, LU, K)
    if not is_solved:
        return found
    native.residual(K, u, r, left, "v", threads)
    if not factor.solve(left, du, "N", threads):
        return found
    counts["solves"] += 2
    native.program_solution(*given, active, u, du, z, accepted, threads)
    accepted *= seen
    return Proven(z, active, steps, accepted, seen, factor)


def _holds_for_all(members: Values) -> bool:
    return np.count_nonzero(members) == members.size  # a tenth of `all` for one program


def _guessed(system: Optimality, solver: str, data: Data, found: Proven) -> Values:
    """Return the rows found, and those that PIQP finds of members that are not `seen`; its steps are
    written to `found.steps`. A member that is not for PIQP, or is not solved by it, has NaN.
    """
    (n, k, m, w), steps = system.sizes, found.steps.reshape(-1)
    shapes = (n, n), (n,), (k, n), (k,), (m, n), (m,), (w,), (w,)
    own = [
        np.broadcast_to(y := asnumpy(x), (*found.steps.shape, y.shape[-1])).reshape(
            steps.size, *shape
        )
        for x, shape in zip(data, shapes, strict=True)
    ]
    guess = found.active.copy()
    # a view of `guess`, one row for each member
    guess[..., :k], rows = 1, guess.reshape(-1, system.rows)
    for i in np.flatnonzero(found.seen.reshape(-1) == 0):
        one, rows[i] = Plain(*[x[i].astype(np.float64, copy=False) for x in own]), np.nan
        is_for_highs = solver == "auto" and not one.P.any() and is_here("highspy")
        if is_for_highs or not is_here("piqp") or not all_finite(one.h):  # of which PIQP warns
            continue
        with suppress(ConvergenceError):
            result = piqp.solve(one)
            rows[i, :k], rows[i, k:], steps[i] = 1, result.active, result.steps
    return guess


def pulled_back(
    system: Optimality,
    need: Sequence[bool],
    factor: Any,
    z_bar: Any,
    z: Any,
    active: Any,
    flat: Any,
) -> list[Any] | None:
    """The cotangents of all data from K lam = z_bar, with the factor of `proven`."""
    (n, k, m, w), batch, dtype = system.sizes, z.shape[:-1], numpy_dtype(z)
    threads, lam = workers((*batch, *[z.shape[-1]] * 2)), np.empty(z.shape, dtype)
    if not factor.solve(z_bar, lam, "N", threads):
        return None
    counts["solves"] += 1
    sizes = n * n, n, k * n, k, m * n, m, w, w
    # room for the cotangents that are wanted, and for those of q, b and h in any case
    bars = [
        np.empty((*batch, size), dtype) if size and (wanted or i in SIDES) else None
        for i, (size, wanted) in enumerate(zip(sizes, need, strict=True))
    ]
    P, q, A, b, G, h, lb, ub = bars
    if not compiled().program_pullback(active, z, lam, q, b, h, P, A, G, lb, ub, threads):
        return None
    found: list[Any] = []
    for bar, x, wanted in zip(bars, flat, need, strict=True):
        if not wanted:
            found.append(None)
        elif bar is None:
            # an argument without entries
            found.append(np.empty(x.shape, dtype))
        else:
            found.append(bar if bar.shape == x.shape else conform(bar, x))
    return found
