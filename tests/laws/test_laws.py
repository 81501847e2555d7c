"""Every law of the design, on everything that is found: structures, rules, solvers, front ends."""

import numpy as np
import pytest

import ldiv
from ldiv import testing
from ldiv.core.dispatch import frontend_names
from ldiv.core.trees import leaves
from ldiv.rules.solve import Solve
from ldiv.testing.cases import DTYPES

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

jax.config.update("jax_enable_x64", True)


def _name(value):
    return value if isinstance(value, str) else type(value).__name__


def _cases(found):
    return [
        pytest.param(*case, id="-".join(_name(v) for v in case[:-1]) + f"-{dtype}")
        for dtype in DTYPES
        for case in found(dtype)
    ]


@pytest.mark.parametrize(("structure", "p"), _cases(testing.found_structures))
def test_structure(structure, p):
    testing.structure_laws(structure, p)


@pytest.mark.parametrize(("rule", "args"), _cases(testing.found_rules))
def test_rule(rule, args):
    testing.rule_laws(rule, args)


@pytest.mark.parametrize(("engine", "structure", "p"), _cases(testing.found_solvers))
def test_solver(engine, structure, p):
    testing.solver_laws(engine, structure, p)


@pytest.mark.parametrize(("engine", "assume_a", "structure", "p"), _cases(testing.found_iterations))
def test_iteration(engine, assume_a, structure, p):
    testing.iteration_laws(engine, assume_a, structure, p)


def _for_frontends(dtype):
    """Views and batches of right-hand sides are for a front end what they are for NumPy: seen on
    sparse matrices, that is enough.

    So is a matrix made of others what its parts are: one complex solve for each kind.
    """
    kinds = set()
    for rule, args in testing.found_rules(dtype):
        base, op = rule.structure.unview() if hasattr(rule, "structure") else (None, "N")
        if isinstance(base, ldiv.structures.Composed) and (
            type(base) in kinds or dtype == "float64" or not isinstance(rule, Solve)
        ):
            continue
        if isinstance(base, ldiv.structures.Sparse) or (
            op == "N" and all(np.ndim(x) < 3 for x in leaves(args))
        ):
            kinds.add(type(base))
            yield rule, args


def _frontend_cases():
    """Of a rule on structures `make test` takes complex numbers on one structure of each kind,
    and real numbers on one of any kind.
    """
    seen, found = set(), []
    for case in _cases(_for_frontends):
        (rule, args), real = case.values, case.id.endswith("float64")
        kind = type(rule), None if real else type(getattr(rule, "structure", None))
        again = kind in seen and hasattr(rule, "structure")
        seen.add(kind)
        found.append(
            pytest.param(rule, args, id=case.id, marks=pytest.mark.exhaustive if again else ())
        )
    return found


@pytest.mark.parametrize("frontend", [name for name in frontend_names() if name != "numpy"])
@pytest.mark.parametrize(("rule", "args"), _frontend_cases())
def test_frontend(frontend, rule, args):
    testing.frontend_laws(frontend, rule, args)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("rule", "args"), [case for case in _frontend_cases() if not case.marks])
def test_jax_uncompiled(rule, args):
    testing.frontend_laws("jax", rule, args, compiled=False)
