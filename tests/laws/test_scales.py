"""f(2^k A) = 2^(dk) f(A), to the last bit, in values and two orders of derivatives: every rule that
says its units, in every front end, and the functions that users call.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ldiv import testing
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.core.frameworks.folders import plugins
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.rule import Rule
from ldiv.rules.cholesky_banded import CholeskyBanded
from ldiv.rules.exponential_action import ExponentialAction, ExponentialProjection
from ldiv.rules.gaussian_divergence import GaussianDivergence
from ldiv.rules.iterated_least_squares import IteratedLeastSquares
from ldiv.testing.cases import DTYPES

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

POWERS = (1000, -540, 540, -1000)
ROUNDED = {
    CholeskyBanded: 1e-20,  # so small in a second derivative that it is lost below the range
    GaussianDivergence: 2e-15,  # XLA fuses sums of complex sizes otherwise beside a change of units
}
# rules without units, and why
WITHOUT = {
    "Complement": "a basis: constants",
    "Constant": "a copy, without derivatives",
    "Adjugate": "n - 1 factors of A, which it takes out itself: test_det has its laws",
    "Det": "its unit depends on n: slogdet has units",
    "Defined": "a check, whose bounds have the units of eigenvalues",
    "ColumnOrder": "integers",
    "RowOrder": "integers",
    "LeaveOneOut": "constants of a stochastic estimate",
    "Deflated": "inside of Eigenpairs, whose units it is computed in",
    "Divided": "inside of rules of eigenvectors, whose units it is computed in",
    "InverseGaps": "inside of Eigenpairs, whose units it is computed in",
    "LU": "scaled by its kernel; exchanges are integers",
    "MatrixMap": "units of its own: tests of matrix functions",
    "Frechet": "a function of H that knows units",
    "Riccati": "an equation with units of four matrices",
    "ContinuousRiccati": "an equation with units of four matrices",
    "DiscreteRiccati": "an equation with units of four matrices",
    "OnHostOnly": "no derivatives",
    "OptimalitySolve": "derivatives of QuadraticProgram",
    "QuadraticProgram": "units of x, of the objective and of rows: test_solve_qp_units has their laws",
    "Kink": "no derivatives",
    "Root": "a function of the user's",
    "Vanishing": "zeros",
}


def _rules_of(module):
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Rule)
        and value.__module__ == module.__name__
    ]


def test_a_rule_says_its_units_or_why_not():
    found = {rule for module in plugins("rule") for rule in _rules_of(module)}
    silent = {rule.__name__ for rule in found if rule.units is Rule.units}
    assert silent <= set(WITHOUT), silent - set(WITHOUT)


@functools.cache
def _cases():
    """Yield of each rule one case for each kind of structure, each with all its units."""
    seen, found = set(), []
    for dtype in DTYPES:
        for rule, args in testing.found_rules(dtype):
            structure = getattr(rule, "structure", None)
            kind = dtype, type(rule), structure and type(structure.unview()[0])
            if kind in seen:
                continue
            seen.add(kind)
            found += [(dtype, rule, args, unit) for unit in rule.units]
    return found


def _marked(cases):
    """`make test` takes each of them by NumPy, at one of four scales, and by PyTorch those that are
    rescaled; `make test-all` all in all front ends.
    """
    found = []
    for i, (dtype, rule, args, unit) in enumerate(cases):
        is_slow = isinstance(rule, ExponentialProjection)
        is_long = is_slow or isinstance(rule, ExponentialAction)  # programs, of many steps
        for name, (j, power) in product(("numpy", "torch", "jax"), enumerate(POWERS)):
            if name == "jax" and (abs(power) == 1000 or (is_long and power < 0)):
                continue  # XLA takes numbers below the normal range for zero, on the way too
            has_turn = (i + j) % len(POWERS) == 0 and dtype == DTYPES[i % len(DTYPES)]
            chosen = has_turn and (
                name == "numpy" or (name == "torch" and bool(unit.by) and not is_slow)
            )
            label = f"{type(rule).__name__}-{i}-{dtype}-{name}-{power}"
            marks = () if chosen else pytest.mark.exhaustive
            found.append(pytest.param(name, power, rule, args, unit, id=label, marks=marks))
    return found


ALL = _cases()


@pytest.mark.parametrize(("name", "power", "rule", "args", "unit"), _marked(ALL))
def test_rule(name, power, rule, args, unit):
    kinds = type(rule), type(getattr(rule, "structure", None))
    rtol = max(ROUNDED.get(kind, 0) for kind in kinds)
    testing.scale_laws(rule, args, unit, power, name, rtol)


SINGLE = {"float64": np.float32, "complex128": np.complex64}


def _quickly(powers):
    """Each rule in NumPy, and every twelfth also in `make test`."""
    cases = [(dtype, *case, power) for dtype, *case in ALL for power in powers]
    return [
        pytest.param(
            *case,
            id=f"{type(case[1]).__name__}-{i}-{case[0]}-{case[-1]}",
            marks=() if i % 12 == 0 else pytest.mark.exhaustive,
        )
        for i, case in enumerate(cases)
    ]


@pytest.mark.parametrize(("dtype", "rule", "args", "unit", "power"), _quickly((501, -501)))
def test_odd_powers_whose_roots_round(dtype, rule, args, unit, power):
    testing.scale_laws(rule, args, unit, power, "numpy", 1e-10)


@pytest.mark.parametrize(("dtype", "rule", "args", "unit", "power"), _quickly((60, -60)))
def test_single_precision(dtype, rule, args, unit, power):
    args = tuple(
        rebuild(arg, [x.astype(SINGLE[dtype]) if x.dtype.kind in "fc" else x for x in leaves(arg)])
        for arg in args
    )
    if isinstance(
        rule, IteratedLeastSquares
    ):  # its 1e-14 are below the rounding of single precision
        rule = replace(rule, iteration=replace(rule.iteration, atol=1e-6, btol=1e-6))
    testing.scale_laws(rule, args, unit, power, "numpy")


def test_solutions_lie_row_after_row():
    """Products add in the order of memory: it is the same whether solutions are scaled afterwards or not."""
    A, b = np.stack([4 * np.eye(3) + 1, 5 * np.eye(3) + 1]), np.ones((3, 2))
    frontend = frontend_of(A)
    x = frontend.dense.lu_solve(*frontend.dense.lu_factor(A), b, "N")
    y = frontend.dense.solve_triangular(np.tril(A), b, True)
    assert x.flags.c_contiguous
    assert y.flags.c_contiguous
