"""Rows that say nothing: bounds far away, infinite sides, zeros. Certificates that prove nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from programs import loss, program

import ldiv
from ldiv.engines.libraries.program import Program

pytest.importorskip("clarabel")
jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
jax.config.update("jax_enable_x64", True)

P = program(0)
FREE = {name: P[name] for name in ("P", "q", "G", "h", "A", "b")}
NO = np.zeros(0)


@pytest.mark.parametrize("solver", ["auto", "clarabel", "piqp"])
@pytest.mark.parametrize("array", [np.asarray, sp.csr_array])
def test_a_bound_far_away_is_none(array: Any, solver: Any) -> None:
    pytest.importorskip("piqp")
    given = FREE | {name: array(FREE[name]) for name in "PGA"}
    expected = ldiv.solve_qp(**given)
    for far in 10.0 ** np.array([7, 10, 12, 16, 19, 20, 30]):
        x = ldiv.solve_qp(**given, lb=-far, ub=far, solver=solver)
        assert np.allclose(x, expected, 1e-9, 1e-9), far


def test_derivatives_beside_bounds_far_away_and_infinite_sides() -> None:
    """Members of a batch have different bounds and sides."""
    sides = np.stack([P["h"], P["h"]])
    sides[0, 0], sides[1, 1] = np.inf, 1e12
    data = P | {"h": sides, "ub": np.where(np.isinf(P["ub"]), 1e15, P["ub"])}
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in data.items()}
    x = ldiv.solve_qp(**tensors)
    slopes = torch.autograd.grad(loss(x), list(tensors.values()))
    of_jax = jax.jit(jax.grad(lambda p: loss(ldiv.solve_qp(**p))))(data)
    own = dict(zip(data, (s.numpy() for s in slopes), strict=True))
    assert all(np.allclose(own[name], of_jax[name], 1e-9, 1e-12) for name in data)
    assert (own["ub"][data["ub"] == 1e15] == 0).all()
    for i, row in enumerate([0, 1]):
        assert own["h"][i, row] == 0
        left = {name: np.delete(P[name], row, 0) for name in ("G", "h")}
        one = {name: torch.tensor(y, requires_grad=True) for name, y in (P | left).items()}
        alone = ldiv.solve_qp(**one)
        (of_h,) = torch.autograd.grad(loss(alone), one["h"])
        assert np.allclose(x[i].detach(), alone.detach(), 1e-9, 1e-9)
        assert np.allclose(np.delete(own["h"][i], row), of_h, 1e-6, 1e-9)


def test_a_solution_at_a_bound_far_away() -> None:
    """The solver finds none without this bound, or one that leaves it."""
    for diagonal, far in (([1.0, 0.0], 1e7), ([1.0, 1e-8], 1e7), ([0.0, 0.0], 1e12)):
        given = np.diag(diagonal), np.array([1e-3, -1.0]), None, None, None, None
        assert np.allclose(ldiv.solve_qp(*given, np.zeros(2), np.array([1.0, far])), [0, far])
    with pytest.raises(ldiv.QuadraticProgramError, match="unbounded"):
        ldiv.solve_qp(np.diag([1.0, 0.0]), -np.ones(2), lb=-1e12)


def test_what_no_row_says() -> None:
    for name, x, none in (("h", -np.inf, "inf"), ("lb", np.inf, "-inf"), ("ub", np.nan, "inf")):
        given = P | {name: np.full_like(P[name], x)}
        with pytest.raises(
            ValueError, match=f"^{name}: expected finite numbers, or {none} for none"
        ):
            ldiv.solve_qp(**given)


def test_rows_of_zeros() -> None:
    expected = ldiv.solve_qp(**P)
    rows = np.vstack([P["G"], np.zeros((2, 12))])
    x = ldiv.solve_qp(**P | {"G": rows, "h": np.append(P["h"], [0.0, 1.0])})
    assert np.allclose(x, expected)
    for off, name, sides in (
        ({"G": rows, "h": np.append(P["h"], [1.0, -1.0])}, "Row 7 of G is 0", 1),
        ({"A": np.zeros((1, 12)), "b": np.ones(1)}, "Row 0 of A is 0", -1),
    ):
        with pytest.raises(ldiv.QuadraticProgramError, match=f"infeasible.*{name}") as info:
            ldiv.solve_qp(**P | off)
        assert abs(info.value.certificate).sum() == 1 and info.value.certificate.sum() == sides
    assert ldiv.solve_qp(np.zeros((0, 0)), NO, np.zeros((1, 0)), np.ones(1)).shape == (0,)


def test_unbounded_without_a_row() -> None:
    with pytest.raises(ldiv.QuadraticProgramError, match="unbounded") as info:
        ldiv.solve_qp(np.zeros((3, 3)), np.array([1.0, -2.0, 0.0]))
    assert np.allclose(info.value.certificate, [-1, 2, 0])


def test_a_certificate_has_a_place_for_rows_that_were_left_out() -> None:
    """Rows of G, then upper and lower bounds."""
    G, h = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([0.0, np.inf, -1.0])
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible") as info:
        ldiv.solve_qp(np.eye(2), np.ones(2), G, h, lb=np.array([-np.inf, -1e12]), ub=1e12)
    y = info.value.certificate
    assert y.shape == (6,) and np.allclose(y / y[0], [1, 0, 1, 0, 0, 0])


def test_wrong_certificates_are_not_shown() -> None:
    """x <= 1 and -x <= 1: a solver may call it infeasible, or without end, by rounding."""
    rows, none = sp.csc_array([[1.0], [-1.0]]), np.zeros(0, int)
    p = Program(sp.csc_array((1, 1)), np.ones(1), rows, np.ones(2), 0, (none, none), none)
    assert isinstance(p.unbounded("a solver", 3, np.array([-1.0])), ldiv.ConvergenceError)
    for y in ([1.0, 1.0], [1.0, -2.0], [np.nan, 1.0]):
        assert isinstance(p.infeasible("a solver", 3, np.array(y)), ldiv.ConvergenceError)
    p = p._replace(sides=np.array([1.0, -2.0]), units=np.zeros(2, int))
    assert isinstance(p.infeasible("a solver", 3, np.ones(2)), ldiv.QuadraticProgramError)
