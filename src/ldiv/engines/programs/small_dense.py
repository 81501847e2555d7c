"""Small dense programs by compiled calls: K and r of the rows that PIQP guesses, a factor of K, two
solves, and the proof that their z is the solution, and has a derivative.

It is accepted by member. What is declined, since rows only just hold or depend on each other, a unit
is far from 1 or digits are lost, goes the careful way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import common_batch, conform, numpy_dtype
from ldiv.core.owners.holder import owner
from ldiv.core.rules.compiled import in_rows
from ldiv.core.rules.finite import all_finite
from ldiv.engines.accuracy.accepted import LU, compiled, workers
from ldiv.engines.factors import doubled
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.dense_calls import OWNERS, kept
from ldiv.engines.libraries import piqp
from ldiv.engines.libraries.program import Plain, Values, is_here
from ldiv.engines.programs.numbers import SMALL
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.errors import ConvergenceError
from ldiv.structures.dense import dense


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
    """Whether compiled calls take such programs: rows without gaps, and a solver to guess with."""
    (n, k, m, w), patterns = system.sizes, (system.P, system.A, system.G)
    return (
        compiled() is not None
        and 0 < n < n + k + m + w <= SMALL
        and all(S.entries.is_full for S in patterns)
        and (m + w == 0 or (solver in ("auto", "piqp") and is_here("piqp")))
    )


def proven(system: Optimality, solver: str, data: Data) -> Proven | None:
    """Solve; None where nothing is tried."""
    native, keeper, dtype = compiled(), owner(), data.q.dtype
    batch, (n, k, m, w) = common_batch((1,) * len(data), data), system.sizes
    if type(keeper) not in OWNERS or not are_taken(system, solver) or 0 in batch:
        return None
    if solver == "auto" and not data.P.any(-1).all() and is_here("highspy"):
        return None  # HiGHS takes linear programs
    if not all_finite(data.h):
        return None  # PIQP prints a warning
    data, t = Data(*map(in_rows, data)), n + k + m + w
    active, steps = _guessed(system, data, batch)
    K, r, u, du, z = (np.empty((*batch, t, *more), dtype) for more in ((t,), (), (), (), ()))
    held, seen, accepted = np.empty_like(active), np.empty(batch, dtype), np.zeros(batch, dtype)
    given, threads = [x if x.shape[-1] else None for x in data], workers(K.shape)
    found = Proven(z, held, steps, accepted, seen, None)
    if not native.program_system(*given, active, K, r, held, seen, threads) or not seen.any():
        return found
    counts["factorizations"] += 1  # of P
    if not seen.all():
        K[seen == 0], r[seen == 0] = np.eye(t), 0
    # K u = r,  K du = r - K u
    factor, again, is_solved = native.solve(K, LU, r, u, "N", threads)
    if factor is None:
        return found
    kept(factor, again, keeper, LU, K)
    if not is_solved:
        return found
    left = doubled.residual(dense(t, t), K, u[..., None], r[..., None])[..., 0]
    if not factor.solve(left, du, "N", threads):
        return found
    counts["solves"] += 2
    native.program_solution(*given, held, u, du, z, accepted, threads)
    accepted *= seen
    return found._replace(factor=factor)


def _guessed(system: Optimality, data: Data, batch: tuple[int, ...]) -> tuple[Values, Values]:
    """The rows that PIQP finds active (*batch, rows), NaN where it finds no x, and its steps."""
    (n, k, m, w), dtype = system.sizes, data.q.dtype
    active, steps = np.ones((*batch, system.rows), dtype), np.zeros(batch, dtype)
    if m + w == 0:
        return active, steps
    count, rows, of_steps = prod(batch), active.reshape(-1, system.rows), steps.reshape(-1)
    shapes = (n, n), (n,), (k, n), (k,), (m, n), (m,), (w,), (w,)
    own = [
        (np.broadcast_to(x, (*batch, x.shape[-1])) if batch else x).reshape(count, *shape)
        for x, shape in zip(data, shapes, strict=True)
    ]
    for i, parts in enumerate(zip(*own, strict=True)):
        try:
            found = piqp.solve(Plain(*[x.astype(np.float64, copy=False) for x in parts]))
            rows[i, k:], of_steps[i] = found.active, found.steps
        except ConvergenceError:
            rows[i] = np.nan
    return active, steps


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
    sizes = Data(n * n, n, k * n, k, m * n, m, w, w)
    bars = Data(*[np.empty((*batch, size), dtype) for size in sizes])
    asked = Data(
        *[x if wanted and x.shape[-1] else None for x, wanted in zip(bars, need, strict=True)]
    )
    sides = [x if x.shape[-1] else None for x in (bars.b, bars.h)]
    more = asked.P, asked.A, asked.G, asked.lb, asked.ub
    native = compiled()
    if not native.program_pullback(active, z, lam, bars.q, *sides, *more, threads):
        return None
    return [
        conform(bar, x) if wanted else None for bar, x, wanted in zip(bars, flat, need, strict=True)
    ]
