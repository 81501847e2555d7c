"""The derivatives of g in each framework, and the loss of each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import AT, Problem, U, V
from contestants import NotClaimed

Modes = dict[str, Callable[[], Any]]


def function(xp: Any, problem: Problem, apply: Any, cast: Any) -> Callable[[Any], Any]:
    """g in arrays of a framework; `cast` makes its constants."""
    matrices, sides, weights = problem.data
    if problem.sparse:
        matrices = matrices[:, problem.pattern[0], problem.pattern[1]]
    matrices, sides, weights = map(cast, (matrices, sides, weights))
    operation = problem.operation

    def loss(t: Any) -> Any:
        combined = lambda parts: parts[0] + sum(t[k] * parts[k + 1] for k in range(len(AT)))
        out = apply(combined(matrices), combined(sides))
        if operation == "logdet":
            return out.real
        if operation == "eigenvalues":
            if out.ndim == 2:
                return (out[0, 0] + out[1, 1] + out[0, 0] * out[1, 1] - out[0, 1] * out[1, 0]).real
            return out[0] + out[1] + out[0] * out[1]
        if operation == "cholesky":
            return (weights.conj() * xp.tril(out)).real.sum()
        if operation == "subspace":
            inner = (out.conj() * weights[0][:, None]).sum(0)
            return (inner.conj() * inner).real.sum()  # |inner|^2 by abs has no derivatives at 0
        return (weights[0].conj() * out).real.sum() + (out.conj() * out).real.sum()

    return loss


def in_torch(problem: Problem, apply: Any, single: bool) -> Modes:
    import torch
    from torch.func import grad, jvp, vmap

    real = torch.float32 if single else torch.float64
    at, u, v = (torch.tensor(x, dtype=real) for x in (AT, U, V))
    dtype = {(0, 0): torch.float64, (0, 1): torch.float32, (1, 0): torch.complex128}[
        problem.complex, single
    ]
    g = function(torch, problem, apply, lambda a: torch.as_tensor(np.array(a)).to(dtype))

    def reverse(times: int) -> Any:
        """By the graph, as `backward` does."""
        t = at.clone().requires_grad_()
        value, gradient = g(t), None
        for along in (None, u, v)[:times]:
            if along is not None:
                value = gradient @ along
            (gradient,) = torch.autograd.grad(value, t, create_graph=times > 1)
        return gradient

    def slope(t: Any) -> Any:
        return jvp(g, (t,), (u,))[1]

    return {
        "value": lambda: g(at),
        "reverse": lambda: reverse(1),
        "forward": lambda: slope(at),
        "vmap of reverse": lambda: vmap(grad(g))(torch.stack([at, at + u])),
        "reverse over reverse": lambda: reverse(2),
        "forward over reverse": lambda: jvp(grad(g), (at,), (u,))[1],
        "reverse over forward": lambda: grad(slope)(at),
        "forward over forward": lambda: jvp(slope, (at,), (v,))[1],
        "reverse, three times": lambda: reverse(3),
    }


def in_jax(problem: Problem, apply: Any, single: bool) -> Modes:
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp, grad, jvp = jax.numpy, jax.grad, jax.jvp
    real = "float32" if single else "float64"
    at, u, v = (jnp.asarray(x, real) for x in (AT, U, V))
    dtype = {(0, 0): "float64", (0, 1): "float32", (1, 0): "complex128"}[problem.complex, single]
    g = function(jnp, problem, apply, lambda a: jnp.asarray(a, dtype))
    slope = lambda t: jvp(g, (t,), (u,))[1]
    curve = lambda t: grad(g)(t) @ u
    twice = lambda t: grad(curve)(t) @ v
    return {
        "value": lambda: g(at),
        "reverse": lambda: grad(g)(at),
        "forward": lambda: slope(at),
        "vmap of reverse": lambda: jax.vmap(grad(g))(jnp.stack([at, at + u])),
        "reverse, compiled": lambda: jax.jit(grad(g))(at),
        "reverse over reverse": lambda: grad(curve)(at),
        "forward over reverse": lambda: jvp(grad(g), (at,), (u,))[1],
        "reverse over forward": lambda: grad(slope)(at),
        "forward over forward": lambda: jvp(slope, (at,), (v,))[1],
        "reverse, three times": lambda: grad(twice)(at),
    }


def modes_of(framework: str, problem: Problem, claim: Any, single: bool) -> Modes:
    """None where the package claims nothing."""
    try:
        apply = claim(problem)
    except NotClaimed:
        return {}
    made = {"torch": in_torch, "jax": in_jax}[framework](problem, apply, single)
    if problem.operation == "singular":
        return {mode: made[mode] for mode in ("value", "reverse")}
    return made
