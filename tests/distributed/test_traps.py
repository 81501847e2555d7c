"""Solvers of PETSc whose transposed solve is none: the gradient is right all the same, or refused.

Measured of PETSc 3.18: KSPSolveTranspose with SuperLU_DIST solves with A and says that it has
converged, with hypre it returns zeros and says so, too; ml and sor raise, and crash at exit. Of two
factorizations by SuperLU_DIST the first one to be freed takes the process with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed.problem import DIRECT, ITERATIVE, Whole, distance, grid

import ldiv
from ldiv.distributed import linear_solver

WIND = grid(8, wind=2.0, noise=0.1)
GMRES = {"ksp_type": "gmres", "ksp_pc_side": "right"}
TRAPS: dict[str, tuple[dict[str, Any], float]] = {
    "mumps, of the transpose": (
        {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "mumps"},
        DIRECT,
    ),
    "hypre": (GMRES | {"pc_type": "hypre"}, ITERATIVE),
    "ml": (GMRES | {"pc_type": "ml"}, ITERATIVE),
    "sor": (GMRES | {"pc_type": "sor"}, ITERATIVE),
    "gamg": (GMRES | {"pc_type": "gamg"}, ITERATIVE),
}


@pytest.mark.parametrize("name", TRAPS)
def test_adjoint_systems_are_solved_with_the_transpose(name: str) -> None:
    parameters, tolerance = TRAPS[name]
    w = Whole(WIND)
    A = w.part(w.values[w.mine], solver_parameters=parameters)
    x, pull = ldiv.vjp(lambda b: ldiv.solve(A, b), w.b[w.own])
    (b_bar,) = pull(w.weights[w.own])
    whole = ldiv.solve(w.everything(w.values), w.weights, trans="T")
    assert distance(b_bar, whole[w.own], whole) <= tolerance
    assert distance(x, ldiv.solve(w.everything(w.values), w.b)[w.own], w.b) <= 10 * tolerance


def test_what_a_package_says_of_its_transposed_solve_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package that solves with A where it is asked for A^T: its residual refuses it."""
    of_forward = linear_solver.LinearSolver._solver
    monkeypatch.setattr(
        linear_solver.LinearSolver,
        "_solver",
        lambda self, _, adjoint: of_forward(self, False, adjoint),
    )
    w = Whole(grid(8, wind=2.1, noise=0.1))
    A = w.part(w.values[w.mine])
    _, pull = ldiv.vjp(lambda b: ldiv.solve(A, b), w.b[w.own])
    with pytest.raises(ldiv.EngineError, match=r"residual of .* in the transposed system"):
        pull(w.weights[w.own])


def test_superlu_dist_is_refused() -> None:
    w = Whole(WIND)
    A = w.part(w.values[w.mine], solver_parameters={"pc_factor_mat_solver_type": "superlu_dist"})
    with pytest.raises(ldiv.EngineError, match="superlu_dist"):
        ldiv.solve(A, w.b[w.own])


def test_an_adjoint_that_does_not_converge_is_refused() -> None:
    w = Whole(WIND)
    A = w.part(
        w.values[w.mine],
        solver_parameters={"ksp_type": "preonly"},
        adjoint_parameters={"ksp_type": "richardson", "pc_type": "none", "ksp_max_it": 5},
    )
    _, pull = ldiv.vjp(lambda b: ldiv.solve(A, b), w.b[w.own])
    with pytest.raises(ldiv.ConvergenceError, match="richardson"):
        pull(w.weights[w.own])


def test_a_plain_sum_counts_every_copy_of_a_loss() -> None:
    """`distributed.sum` is not an all-reduce whose backward is an all-reduce."""
    torch = pytest.importorskip("torch")
    from ldiv import distributed

    x = torch.arange(3.0, dtype=torch.float64, requires_grad=True)
    distributed.sum((x**2).sum()).backward()
    assert torch.equal(x.grad, 2 * x.detach())
    theta = torch.ones((), dtype=torch.float64, requires_grad=True)
    size = int(np.round(distributed.sum(np.ones(()))))
    distributed.sum((distributed.spread(theta) * x.detach()).sum()).backward()
    assert float(theta.grad) == 3 * size
