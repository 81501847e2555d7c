"""The active rows of one program, as a solver sees them.

Solvers have absolute tolerances: a bound of 1e12, where x is near 1, costs them all their digits. So
rows that are so far away are left out first; where the solution does not reach them it is that of all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ldiv.engines.libraries import program_solvers
from ldiv.engines.libraries.program import Found, Program, Values
from ldiv.engines.programs.numbers import Numbers
from ldiv.engines.programs.posed import posed
from ldiv.errors import ConvergenceError, EngineError, QuadraticProgramError


class Guess(NamedTuple):
    """The active rows, among those of A, G, ub and lb; the steps of the solver; and its x, NaN where it
    did not run.
    """

    active: Values
    steps: Values
    x: Values


def approximate(numbers: Numbers, solver: str) -> Guess:
    """Ask the solver about each program of a batch (N, .). Bounds that meet are active by half."""
    system, (_, q, *_, lb, ub) = numbers.system, numbers.data
    x, k = np.full(q.shape, np.nan), system.sizes[1]
    active, steps = np.zeros((len(x), system.rows), q.dtype), np.zeros(len(x), q.dtype)
    active[:, :k] = 1
    for program, i, places, far, exponent in posed(numbers):
        if not len(places):
            continue
        found = None if far is None else _near(program, solver, far)
        if found is None:
            found = program_solvers.solve(program, solver)
        active[i, places[found.active]] = 1
        steps[i], x[i] = found.steps, np.ldexp(found.x, exponent) if exponent else found.x
    if system.bounds:
        *_, upper, lower = system.of_rows(active)
        meet, both = lb == ub, (upper == 1) & (lower == 1)
        upper[meet] = lower[meet] = 0.5
        above = ub - x > x - lb
        upper[both & above] = lower[both & ~above] = 0
    return Guess(active, steps, x)


def _near(program: Program, solver: str, far: Values) -> Found | None:
    """Ask with the rows that are near; None where no x is found, or none that the others allow."""
    rows, sides = (x[program.equalities :][far] for x in (program.rows, program.sides))
    try:
        active, steps, x = program_solvers.solve(program.without(far), solver)
    except ConvergenceError:
        return None
    except QuadraticProgramError as error:
        if error.status == "infeasible" or (rows @ error.certificate <= 0).all():
            raise
        return None
    if not (rows @ x <= sides).all():
        return None
    of_all = np.zeros(len(far), bool)
    of_all[~far] = active
    return Found(of_all, steps, x)


def require_bounded(numbers: Numbers, solver: str) -> None:
    """Ask the solver, if it is here, where no row decides and the system of one program is singular."""
    (rows,) = posed(numbers.flat(1))
    if not len(rows.places):
        with suppress(EngineError, ConvergenceError):
            program_solvers.solve(rows.program, solver)
