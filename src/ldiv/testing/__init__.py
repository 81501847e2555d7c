"""The laws of the design as tests, for every structure, rule, solver and front end that is found,
ours or a third party's.

    structure_laws(structure, p)      rule_laws(rule, args)      frontend_laws(name, rule, args)
    solver_laws(engine, structure, p)      iteration_laws(engine, assume_a, structure, p)
    scale_laws(rule, args, unit, power, name)      refusal_laws(rule, args)

Each raises AssertionError with the law that is broken. `found_structures`, `found_rules`,
`found_solvers` (engines that factor) and `found_iterations` (those that iterate) list what there is
to run them on: every file in `structures/` and `rules/` says its own cases.
"""

from ldiv.testing.cases import found_iterations, found_rules, found_solvers, found_structures
from ldiv.testing.frontend import frontend_laws
from ldiv.testing.iteration import iteration_laws
from ldiv.testing.refusals import refusal_laws
from ldiv.testing.rule import rule_laws
from ldiv.testing.scale import scale_laws
from ldiv.testing.solver import solver_laws
from ldiv.testing.structure import structure_laws

__all__ = [
    "found_iterations",
    "found_rules",
    "found_solvers",
    "found_structures",
    "frontend_laws",
    "iteration_laws",
    "refusal_laws",
    "rule_laws",
    "scale_laws",
    "solver_laws",
    "structure_laws",
]
