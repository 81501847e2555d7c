"""Solves over several processes, and their gradients, against those of one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from distributed.problem import DIRECT, ITERATIVE, Whole, distance, grid
from torch.autograd import forward_ad

import ldiv
from ldiv import distributed

jax.config.update("jax_enable_x64", True)
WIND, CALM = grid(7, wind=0.7, noise=0.1), grid(7)
CASES = {
    "lu": (WIND, {}, {}, DIRECT),
    "lu transposed": (WIND, {"trans": "T"}, {}, DIRECT),
    "ldlt": (CALM, {"assume_a": "her"}, {}, DIRECT),
    "positive": (CALM, {"assume_a": "pos"}, {}, DIRECT),
    "gmres": (WIND, {"method": "gmres", "M": "ilu"}, {}, ITERATIVE),
    "gmres transposed": (WIND, {"method": "gmres", "trans": "T"}, {}, ITERATIVE),
    "bicgstab": (WIND, {"method": "bicgstab", "M": "amg"}, {}, ITERATIVE),
    "minres": (CALM, {"method": "minres", "assume_a": "sym"}, {}, ITERATIVE),
    "cg, gamg": (CALM, {"assume_a": "pos", "method": "cg", "M": "amg"}, {}, ITERATIVE),
    "cg, hypre": (CALM, {"assume_a": "pos", "method": "cg", "M": "hypre"}, {}, ITERATIVE),
}


def gradients(A: Any, b: Any, weights: Any, total: Any, **options: Any) -> Any:
    """The solution, and the derivatives of a loss of it by values and right-hand side."""
    x = ldiv.solve(A, b, **options)
    total((x**2 * torch.tensor(weights)).sum()).backward()
    return x.detach(), A.params.grad if A.params.grad is not None else None, b.grad


def leaf(x: Any) -> Any:
    return torch.tensor(x, requires_grad=True)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_one_process(name: str) -> None:
    a, options, parameters, tolerance = CASES[name]
    w = Whole(a)
    here = {k: v for k, v in options.items() if k in ("assume_a", "trans")}
    x, A_bar, b_bar = gradients(
        w.everything(leaf(w.values)), leaf(w.b), w.weights, lambda loss: loss, **here
    )
    A, b = w.part(leaf(w.values[w.mine]), **parameters), leaf(w.b[w.own])
    x_here, A_bar_here, b_bar_here = gradients(A, b, w.weights[w.own], distributed.sum, **options)
    assert distance(x_here, x[w.own], x) <= tolerance
    assert distance(A_bar_here, A_bar[w.mine], A_bar) <= tolerance
    assert distance(b_bar_here, b_bar[w.own], b_bar) <= tolerance


def test_products_and_views() -> None:
    w = Whole(grid(6, wind=0.5))
    a = w.everything(w.values)
    A = w.part(w.values[w.mine])
    block = np.stack([w.b, w.weights], axis=-1)
    assert distance(A @ block[w.own], (a @ block)[w.own], a @ block) <= DIRECT
    assert distance(A.T @ w.b[w.own], (a.T @ w.b)[w.own], w.b) <= DIRECT
    assert distance(w.b[w.own] @ A, (a.T @ w.b)[w.own], w.b) <= DIRECT
    assert distance((2 * A) @ w.b[w.own], 2 * (a @ w.b)[w.own], w.b) <= DIRECT
    assert distance(A @ (1j * w.b[w.own]), 1j * (a @ w.b)[w.own], w.b) <= DIRECT
    assert A.shape == A.T.shape == a.shape
    assert A.local_shape == (len(w.own), len(w.own))
    assert "DistributedArray" in repr(A)


def test_blocks_complex_and_single_precision() -> None:
    w = Whole(grid(6, wind=0.5))
    a, A = w.everything(w.values), w.part(w.values[w.mine])
    block = np.stack([w.b, w.weights * 1j], axis=-1)
    whole = ldiv.solve(a, block)
    assert distance(ldiv.solve(A, block[w.own]), whole[w.own], whole) <= DIRECT
    half = w.part(w.values[w.mine].astype(np.float32))
    x = ldiv.solve(half, w.b[w.own].astype(np.float32))
    assert x.dtype == np.float32
    assert distance(x, ldiv.solve(a, w.b)[w.own], whole) <= 1e-5
    assert ldiv.solve(A, block[w.own][:, :0]).shape == (len(w.own), 0)


def test_forward_mode_and_second_order() -> None:
    w = Whole(grid(5, wind=0.3))
    rng = np.random.default_rng(2)
    d = rng.standard_normal(len(w.values))

    def loss(values: Any, make: Any, own: Any, total: Any) -> Any:
        x = ldiv.solve(make(values), torch.tensor(w.b[own]))
        return total((x**3 * torch.tensor(w.weights[own])).sum())

    def everything(values: Any, direction: Any, *where: Any) -> Any:
        values, direction = torch.tensor(values), torch.tensor(direction)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(values.clone().requires_grad_(), direction)
            y = loss(dual, *where)
            slope = forward_ad.unpack_dual(y).tangent
            (curvature,) = torch.autograd.grad(slope, dual)
        again = values.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(again, *where), again, create_graph=True)
        inner = (first * direction).sum()
        (second,) = torch.autograd.grad(where[-1](inner), again)
        return slope.detach(), curvature, second

    whole = everything(w.values, d, w.everything, np.arange(len(w.b)), lambda x: x)
    here = everything(w.values[w.mine], d[w.mine], w.part, w.own, distributed.sum)
    assert distance(here[0], whole[0], whole[0]) <= DIRECT
    for x, y in zip(here[1:], whole[1:], strict=True):
        assert distance(x, y[w.mine], y) <= 10 * DIRECT


def test_numpy_vjp_and_jvp() -> None:
    w = Whole(grid(6, wind=0.5))
    x, pull = ldiv.vjp(lambda v, b: ldiv.solve(w.everything(v), b), w.values, w.b)
    x_here, pull_here = ldiv.vjp(
        lambda v, b: ldiv.solve(w.part(v), b), w.values[w.mine], w.b[w.own]
    )
    A_bar, b_bar = pull(w.weights)
    A_bar_here, b_bar_here = pull_here(w.weights[w.own])
    assert distance(x_here, x[w.own], x) <= DIRECT
    assert distance(A_bar_here, A_bar[w.mine], A_bar) <= DIRECT
    assert distance(b_bar_here, b_bar[w.own], b_bar) <= DIRECT


@pytest.mark.parametrize("compiled", [False, True])
def test_jax(compiled: bool) -> None:
    w = Whole(grid(6, wind=0.5))

    def solve(A: Any, b: Any, method: str) -> Any:
        return ldiv.solve(A, b) + ldiv.solve(A.T, b, method=method)

    def loss(values: Any, b: Any) -> Any:
        x = solve(w.part(values), b, "gmres")
        return distributed.sum(jnp.sum(x**2 * w.weights[w.own]))

    values, b = leaf(w.values), leaf(w.b)
    x = solve(w.everything(values), b, "direct")
    (x**2 * torch.tensor(w.weights)).sum().backward()
    x, A_bar, b_bar = x.detach().numpy(), values.grad, b.grad
    f = jax.value_and_grad(loss, (0, 1))
    arguments = jnp.array(w.values[w.mine]), jnp.array(w.b[w.own])
    value, (A_bar_here, b_bar_here) = (jax.jit(f) if compiled else f)(*arguments)
    assert distance(value, (x**2 * w.weights).sum(), value) <= ITERATIVE
    assert distance(A_bar_here, A_bar[w.mine], A_bar) <= ITERATIVE
    assert distance(b_bar_here, b_bar[w.own], b_bar) <= ITERATIVE


def test_a_batch_of_matrices() -> None:
    w = Whole(grid(5, wind=0.3))
    values = torch.tensor(np.stack([w.values, 2 * w.values]))
    solve = torch.vmap(lambda v: ldiv.solve(w.part(v), torch.tensor(w.b[w.own])))
    x = ldiv.solve(w.everything(w.values), w.b)[w.own]
    y = solve(values[:, w.mine])
    assert distance(y[0], x, x) <= DIRECT
    assert distance(2 * y[1], x, x) <= DIRECT


def test_one_factorization_serves_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from ldiv.distributed.solvers import petsc

    made, LinearSolver = [], petsc.LinearSolver

    def counted(*args: Any) -> Any:
        made.append(LinearSolver(*args))
        return made[-1]

    monkeypatch.setattr(petsc, "LinearSolver", counted)
    w = Whole(grid(5, wind=0.4))
    v, b = leaf(w.values[w.mine]), leaf(w.b[w.own])
    for _ in range(3):
        A = w.part(v)
        distributed.sum((ldiv.solve(A, ldiv.solve(A.T, b)) ** 2).sum()).backward()
    assert 1 <= len(made) <= 3
    F = ldiv.factorized(w.part(w.values[w.mine] * 2))
    made.clear()
    for trans in ("N", "T"):
        F.solve(w.b[w.own], trans)
    assert not made


def test_info_and_explain() -> None:
    w = Whole(grid(5))
    A = w.part(w.values[w.mine])
    x, info = ldiv.solve(A, w.b[w.own], assume_a="pos", method="cg", info=True)
    assert info.engine == "cg"
    assert info.iterations > 0
    assert info.residual <= 1e-10
    _, direct = ldiv.solve(A, w.b[w.own], info=True)
    assert direct.engine == "mumps"
    assert direct.condition is None
    said = ldiv.explain(A, assume_a="pos")
    assert said.engine == "mumps"
    assert "processes" in str(said)
    start = ldiv.solve(A, w.b[w.own], assume_a="pos", method="cg", x0=x, info=True)
    assert start[1].iterations <= 2


def test_options_of_petsc_are_honoured() -> None:
    w = Whole(grid(6, wind=0.5))
    v = leaf(w.values[w.mine])
    gmres = {"ksp_type": "gmres", "pc_type": "jacobi"}
    A = w.part(
        v,
        solver_parameters=gmres | {"ksp_rtol": 1e-13},
        adjoint_parameters=gmres | {"ksp_max_it": 1},
    )
    b = torch.tensor(w.b[w.own])
    x, info = ldiv.solve(A, b, info=True)
    assert info.engine == "gmres"
    assert info.residual <= 1e-13
    with pytest.raises(ldiv.ConvergenceError, match="gmres"):
        distributed.sum(x.sum()).backward()
