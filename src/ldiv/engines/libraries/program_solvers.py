"""Which solver looks for the active rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from ldiv.engines.libraries import clarabel, highs, piqp
from ldiv.engines.libraries.program import Found, Program
from ldiv.errors import ConvergenceError, QuadraticProgramError

SOLVERS: dict[str, Callable[[Program], Found]] = {
    "clarabel": clarabel.solve,
    "piqp": piqp.solve,
    "highs": highs.solve,
}


def solve(program: Program, solver: str) -> Found:
    """ "auto": HiGHS for a linear program, PIQP for a dense one, else Clarabel, else PIQP, as far as
    they are here. What PIQP does not solve goes on to Clarabel, whose certificates are more exact.
    """
    if solver != "auto":
        return SOLVERS[solver](program)
    clarabel_here, piqp_here = _is_here("clarabel"), _is_here("piqp")
    if not program.upper.data.any() and _is_here("highspy"):
        return highs.solve(program)
    if piqp_here and (program.is_dense or not clarabel_here):
        try:
            return piqp.solve(program)
        except (ConvergenceError, QuadraticProgramError):
            if not clarabel_here:
                raise
    return clarabel.solve(program)


def _is_here(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
