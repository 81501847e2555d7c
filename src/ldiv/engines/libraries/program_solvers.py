"""Which solver looks for the active rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from ldiv.engines.libraries import clarabel, highs, piqp
from ldiv.engines.libraries.program import Found, Program

SOLVERS: dict[str, Callable[[Program], Found]] = {
    "clarabel": clarabel.solve,
    "piqp": piqp.solve,
    "highs": highs.solve,
}


def solve(program: Program, solver: str) -> Found:
    """ "auto": HiGHS for a linear program, else Clarabel, else PIQP, as far as they are here."""
    return SOLVERS[_automatic(program) if solver == "auto" else solver](program)


def _automatic(program: Program) -> str:
    order = () if program.upper.data.any() else (("highs", "highspy"),)
    for name, package in (*order, ("clarabel", "clarabel"), ("piqp", "piqp")):
        if importlib.util.find_spec(package) is not None:
            return name
    return "clarabel"  # which says what to install
