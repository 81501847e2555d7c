"""A program in other units, powers of two, has the same solution and gradient in these units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.libraries.program import Program

pytest.importorskip("clarabel")
torch = pytest.importorskip("torch")
rng = np.random.default_rng(0)
n = 6
M = rng.standard_normal((n, n))
PROGRAM = {
    "P": M @ M.T + np.eye(n),
    "q": rng.standard_normal(n),
    "G": rng.standard_normal((4, n)),
    "h": rng.uniform(0.1, 1, 4),
    "A": np.ones((1, n)),
    "b": np.full(1, 0.1),
    "lb": np.full(n, -0.2),
    "ub": np.full(n, 0.2),
}
# the power of the unit in each argument, and in x
OF_X = {"q": 1, "h": 1, "b": 1, "lb": 1, "ub": 1, "x": 1}
OF_OBJECTIVE = {"P": 1, "q": 1, "x": 0}
OF_ROWS = {"G": 1, "h": 1, "A": 1, "b": 1, "x": 0}
AGAINST = {"P": -1, "q": -1, "G": 2, "h": 2, "A": 1, "b": 1, "x": 0}


def _with_gradient(unit: dict[str, int], scale: float) -> dict[str, Any]:
    """Values and gradients, in units of the first."""
    given = {
        name: torch.tensor(x * scale ** unit.get(name, 0), requires_grad=True)
        for name, x in PROGRAM.items()
    }
    x = ldiv.solve_qp(**given)
    x[:3].sum().backward()
    assert all(y.grad is not None for y in given.values())
    powers = {name: unit.get(name, 0) - unit["x"] for name in given}
    found = {name: y.grad.numpy() * scale ** powers[name] for name, y in given.items()}
    return found | {"x": x.detach().numpy() * scale ** -unit["x"]}


RANGES = (
    (OF_X, (-540, -100, 100, 540)),
    (OF_OBJECTIVE, (-540, -300, -100, 100, 540)),
    (OF_ROWS, (-540, -40, 100, 300, 540)),
    (AGAINST, (-270, -100, 100, 270)),
)


@pytest.mark.parametrize(("unit", "power"), [(unit, p) for unit, ps in RANGES for p in ps])
def test_units(unit: dict[str, int], power: int) -> None:
    here, there = _with_gradient(unit, 1.0), _with_gradient(unit, 2.0**power)
    for name, x in here.items():
        assert np.allclose(there[name], x, 1e-12, 1e-12), name


@pytest.mark.parametrize(("unit", "power"), [(OF_OBJECTIVE, -100), (OF_ROWS, 100), (AGAINST, 40)])
def test_units_in_single_precision_batches_and_programs(unit: dict[str, int], power: int) -> None:
    expected = ldiv.solve_qp(**PROGRAM)
    sizes = 2.0 ** np.array([-power, 0, power])
    given = {
        name: np.stack([x * size ** unit.get(name, 0) for size in sizes]).astype(np.float32)
        for name, x in PROGRAM.items()
    }
    assert np.allclose(ldiv.solve_qp(**given), expected, 1e-5, 1e-5)
    for i in range(3):
        one = {name: x[i] for name, x in given.items()}
        assert np.allclose(ldiv.solve_qp(**one), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("solver", ["clarabel", "piqp", "highs"])
def test_each_row_has_its_unit(solver: Any) -> None:
    """A linear program whose rows are 2^-300 to 2^300, and a certificate in these units."""
    pytest.importorskip({"highs": "highspy"}.get(solver, solver))
    size = 2.0 ** np.array([-300, 0, 300])
    none, q, G = np.zeros((3, 3)), np.array([-3.0, -2.0, -1.0]), np.tril(np.ones((3, 3)))
    h = np.array([1.0, 3.0, 6.0])
    x = ldiv.solve_qp(none, q, size[:, None] * G, size * h, solver=solver)
    assert np.allclose(x, [1, 2, 3], 1e-12)
    twice, sides = np.vstack([size[:, None] * G, -size[:1, None] * G[:1]]), size[[0, 1, 2, 0]]
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible") as info:
        ldiv.solve_qp(none, q, twice, sides * [1, 3, 6, -2], solver=solver)
    y = info.value.certificate
    assert np.isclose(y[0], y[3], 1e-6)
    assert y[0] * size[0] > 1e-3


def test_rows_that_say_nothing_say_nothing_about_the_size_of_x() -> None:
    """A row of zeros, and bounds far away, beside rows in other units: x = (-2, -2, 1)."""
    pytest.importorskip("highspy")
    size = 2.0 ** np.array([-34, 54, -19, -8])
    G = np.array([[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, -1.0]])
    h, q = np.array([0.0, 1.0, 1.0, 1.0]), 2.0**21 * np.ones(3)
    given = {"G": size[:, None] * G, "h": size * h, "lb": np.full(3, -2.0)}
    for far in (2.0, 1e12):
        found = ldiv.solve_qp(np.zeros((3, 3)), q, **given, ub=np.array([2.0, 2.0, far]), full=True)
        assert np.isclose(found.value, 2.0**21 * -3)
        assert (found.x > -2 - 1e-12).all()


def test_a_wrong_certificate_is_not_shown() -> None:
    """A solver may call a strictly convex program with bounds far away unbounded."""
    d, none = np.array([0.0, -1.0]), np.zeros(0)
    for diagonal, kind in (
        ([1.0, 0.0], ldiv.QuadraticProgramError),
        ([1.0, 1.0], ldiv.ConvergenceError),
    ):
        upper = sp.csc_array(np.diag(diagonal))
        p = Program(upper, -d, sp.csc_array((0, 2)), none, 0, (none, none), none)
        assert isinstance(p.unbounded("a solver", 3, d), kind)
