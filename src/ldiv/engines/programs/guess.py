"""The active rows of one program, as a solver sees them.

Solvers have absolute tolerances: a bound of 1e12, where x is near 1, costs them all their digits. So
rows that are so far away are left out first; where the solution does not reach them it is that of all.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import NamedTuple

import numpy as np

from ldiv.engines.libraries import program_solvers
from ldiv.engines.libraries.program import Found, Program, Values
from ldiv.engines.programs.numbers import Numbers
from ldiv.engines.programs.posed import Posed, posed
from ldiv.errors import ConvergenceError, EngineError, QuadraticProgramError


class Guess(NamedTuple):
    """The active rows, among those of A, G, ub and lb; the steps of the solver; and its x, NaN where it
    did not run.
    """

    active: Values
    steps: Values
    x: Values


def approximate(numbers: Numbers, solver: str, batch: tuple[int, ...]) -> Guess:
    """Ask the solver about each program of a batch. Bounds that meet are active by half."""
    numbers = numbers if len(batch) == 1 else numbers.flat(prod(batch))
    system, (_, q, *_, lb, ub) = numbers.system, numbers.data
    x, k = np.empty(q.shape), system.sizes[1]
    active, steps = np.zeros((len(x), system.rows), q.dtype), np.empty(len(x), q.dtype)
    active[:, :k] = 1
    for alike in posed(numbers):
        at, count = alike.members, len(alike.members)
        of_rows, of_solver, of_x = zip(*[_asked(p, solver) for p in alike.programs], strict=True)
        active[np.array(at)[:, None], alike.places] = np.concatenate(of_rows).reshape(count, -1)
        # x = 2^s x' for the x' of the solver
        x[at] = np.ldexp(np.concatenate(of_x).reshape(count, -1), alike.exponents)
        steps[at] = of_solver
    if system.bounds:
        # views: what is written into these is written into `active`
        *_, upper, lower = system.of_rows(active)
        meet, both = lb == ub, (upper == 1) & (lower == 1)
        # bounds that meet are one row: each is active by half
        upper[meet] = lower[meet] = 0.5
        # of both bounds the one that is nearer to x
        above = ub - x > x - lb
        upper[both & above] = lower[both & ~above] = 0
    return Guess(*[y.reshape((*batch, *y.shape[1:])) for y in (active, steps, x)])


def _asked(posed: Posed, solver: str) -> Found:
    """Ask without the rows that say nothing, and first without those that are far, if there are some."""
    program, says, far = posed
    # equalities alone need no solver
    if len(program.sides) == program.equalities:
        found = Found(np.zeros(0, bool), 0, np.full(len(program.q), np.nan))
    else:
        near = None if far is None else _near(program, solver, far)
        found = near or program_solvers.solve(program, solver)
    return found if says is None else _of_all(found, says)


def _near(program: Program, solver: str, far: Values) -> Found | None:
    """Ask with the rows that are near; None where no x is found, or none that the others allow."""
    rows, sides = (x[program.equalities :][far] for x in (program.rows, program.sides))
    try:
        found = program_solvers.solve(program.without(far), solver)
    except ConvergenceError:
        return None
    except QuadraticProgramError as error:
        # still infeasible with more rows; a direction d counts if no far row ends it, C d <= 0
        if error.status == "infeasible" or (rows @ error.certificate <= 0).all():
            raise
        return None
    # this x is the solution if it satisfies the far rows as well
    return _of_all(found, ~far) if (rows @ found.x <= sides).all() else None


def _of_all(found: Found, there: Values) -> Found:
    """Extend the result to all rows, of which the solver had the rows `there`."""
    active = np.zeros(len(there), bool)
    active[there] = found.active
    return found._replace(active=active)


def require_bounded(numbers: Numbers, solver: str) -> None:
    """Ask the solver, if it is here, where no row decides and the system of one program is singular."""
    ((program, *_),) = next(posed(numbers.flat(1))).programs
    if len(program.sides) == program.equalities:
        with suppress(EngineError, ConvergenceError):
            program_solvers.solve(program, solver)
