"""Every law of the design, on everything that is found: structures, rules, solvers, front ends."""

import functools

import numpy as np
import pytest

import ldiv
from ldiv import testing
from ldiv.core.frameworks.dispatch import frontend_names
from ldiv.core.frameworks.trees import leaves
from ldiv.rules.exponential_action import ExponentialProjection
from ldiv.rules.solve import Solve
from ldiv.structures import Sparse
from ldiv.testing.cases import DTYPES

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytest.importorskip("autograd.numpy")

jax.config.update("jax_enable_x64", True)
found_rules = functools.cache(testing.found_rules)


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


def _rule_cases():
    """The laws of structures show their views, and those of solves hold for whatever structure:
    `make test` takes a rule on one structure of each kind, a solve in all ways on a sparse one.
    """
    seen, found = set(), []
    for case in _cases(found_rules):
        rule, _ = case.values
        structure = getattr(rule, "structure", None)
        kind = type(rule), structure and type(structure.unview()[0]), case.id.split("-")[-1]
        more = structure and kind in seen and not isinstance(structure.unview()[0], Sparse)
        seen.add(kind)
        marks = pytest.mark.exhaustive if more else ()
        found.append(pytest.param(*case.values, id=case.id, marks=marks))
    return found


@pytest.mark.parametrize(("rule", "args"), _rule_cases())
def test_rule(rule, args):
    testing.rule_laws(rule, args)


@pytest.mark.parametrize(
    ("rule", "args"),
    [case for case in _rule_cases() if not case.marks and case.id.endswith("float64")],
)
def test_refusals(rule, args):
    testing.refusal_laws(rule, args)


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
    for rule, args in found_rules(dtype):
        base, op = rule.structure.unview() if hasattr(rule, "structure") else (None, "N")
        if isinstance(base, ldiv.structures.Composed) and (
            type(base) in kinds or dtype == "float64" or not isinstance(rule, Solve)
        ):
            continue
        if isinstance(base, Sparse) or (op == "N" and all(np.ndim(x) < 3 for x in leaves(args))):
            kinds.add(type(base))
            yield rule, args


def _frontend_cases():
    """A front end knows of a rule what kind of kernel it has, and nothing else: `make test` takes
    each rule once, on complex numbers, and a solve once on real ones and on each kind of structure.
    """
    seen, found = set(), []
    for case in _cases(_for_frontends):
        (rule, args), real = case.values, case.id.endswith("float64")
        solve = isinstance(rule, Solve)
        kind = type(rule), type(getattr(rule, "structure", None)) if solve and not real else real
        # which the second derivatives of ExponentialAction run; JAX compiles it for a minute
        slow = isinstance(rule, ExponentialProjection)
        more = kind in seen or (real and not solve) or slow
        seen.add(kind)
        marks = pytest.mark.exhaustive if more else ()
        found.append(pytest.param(rule, args, id=case.id, marks=marks))
    return found


# whose kernels JAX runs as operations on arrays, as LAPACK's in XLA, with a function of the user's,
# on the host, and there with a factor that is kept, for a structure that is made of others, too
COMPILED = {
    ("Gemm", None): "arrays",
    ("QR", None): "LAPACK",
    ("Frechet", None): "a function of the user's",
    ("SLogDet", "Banded"): "the host",
    ("Solve", "Sparse"): "a factor",
    ("Solve", "Kronecker"): "factors of others",
}


def _in_frontends():
    """Yield the rules for each front end. JAX compiles a second for each rule, and the first of a
    kind shows its laws: it takes each rule once for each kind of structure and dtype, and views in
    solves alone.
    """
    compiled = set()
    for case in _frontend_cases():
        rule, structure = case.values[0], getattr(case.values[0], "structure", None)
        base, op = structure.unview() if structure else (None, "N")
        kind = type(rule).__name__, base and type(structure).__name__
        once = (*kind, type(base), case.id.endswith("float64"), isinstance(rule, Solve) and op)
        for name in frontend_names():
            if name != "numpy" and not (name == "jax" and once in compiled):
                more = case.marks or (name == "jax" and kind not in COMPILED)
                marks = pytest.mark.exhaustive if more else ()
                yield pytest.param(name, *case.values, id=f"{case.id}-{name}", marks=marks)
        compiled.add(once)


@pytest.mark.parametrize(("frontend", "rule", "args"), [*_in_frontends()])
def test_frontend(frontend, rule, args):
    testing.frontend_laws(frontend, rule, args)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("rule", "args"), [case for case in _frontend_cases() if not case.marks])
def test_jax_uncompiled(rule, args):
    testing.frontend_laws("jax", rule, args, compiled=False)
