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
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.engines.programs.posed import posed
from ldiv.errors import ConvergenceError, EngineError, QuadraticProgramError


class Guess(NamedTuple):
    """The active rows, among those of A, G, ub and lb; the steps of the solver; and its x, NaN where it
    did not run.
    """

    active: Values
    steps: Values
    x: Values


def approximate(system: Optimality, solver: str, data: Data) -> Guess:
    """Ask the solver about each program of a batch (N, .). Bounds that meet are active by half."""
    x = np.full(data.q.shape, np.nan)
    active, steps = np.zeros((len(x), system.rows), data.q.dtype), np.zeros(len(x), data.q.dtype)
    equalities, _, upper, lower = system.of_rows(active)
    equalities[...] = 1
    for i, (program, places, far, exponent) in enumerate(posed(system, data)):
        if not len(places):
            continue
        found = _near(program, solver, far) if far.any() else None
        if found is None:
            found = program_solvers.solve(program, solver)
        active[i, equalities.shape[1] + places[found.active]] = 1
        steps[i], x[i] = found.steps, np.ldexp(found.x, exponent)
    if system.bounds:
        meet, both = data.lb == data.ub, (upper == 1) & (lower == 1)
        upper[meet] = lower[meet] = 0.5
        above = data.ub - x > x - data.lb
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


def require_bounded(system: Optimality, solver: str, data: Data) -> None:
    """Ask the solver, if it is here, where no row decides and the system of one program is singular."""
    (rows,) = posed(system, Data(*(x[None] for x in data)))
    if not len(rows.places):
        with suppress(EngineError, ConvergenceError):
            program_solvers.solve(rows.program, solver)
