"""The choice of the solver that finds the active rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ldiv.engines.libraries import clarabel, highs, piqp
from ldiv.engines.libraries.program import Found, Program, is_here
from ldiv.errors import ConvergenceError, QuadraticProgramError

SOLVERS: dict[str, Callable[[Program], Found]] = {
    "clarabel": clarabel.solve,
    "piqp": piqp.solve,
    "highs": highs.solve,
}


def solve(program: Program, solver: str) -> Found:
    """Solve by one solver, or with "auto" by the first installed one that suits the program.

    HiGHS takes linear programs, PIQP dense ones and bounds around a P of few entries, Clarabel and
    then PIQP all others. A program that one of them does not solve goes on to the next. So do programs
    without a solution in PIQP, since Clarabel's certificates are more exact.
    """
    if solver != "auto":
        return SOLVERS[solver](program)
    if program.is_linear and is_here("highspy"):
        with suppress(ConvergenceError):
            return highs.solve(program)
    for_piqp = program.is_dense or program.is_box
    if not is_here("piqp") or (not for_piqp and is_here("clarabel")):
        return clarabel.solve(program)
    try:
        return piqp.solve(program)
    except (ConvergenceError, QuadraticProgramError) as found:
        if not is_here("clarabel"):
            raise
        try:
            return clarabel.solve(program)
        except ConvergenceError as error:
            raise (found if isinstance(found, QuadraticProgramError) else error) from None
