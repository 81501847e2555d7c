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
    # of complex numbers only: real ones may have no such operation that can be differentiated
    real = (
        (lambda z: z.real)
        if problem.complex or "eig" in operation or operation == "rebuilt"
        else lambda z: z
    )

    def loss(t: Any) -> Any:
        combined = lambda parts: parts[0] + sum(t[k] * parts[k + 1] for k in range(len(AT)))
        out = apply(combined(matrices), combined(sides))
        if operation in ("logdet", "kron", "marginal"):
            return real(out)
        if operation == "det":
            a = combined(matrices)
            return real(out) + real(a.conj() * a).sum()
        if operation == "eigenvalues":
            if out.ndim == 2:
                return real(out[0, 0] + out[1, 1] + out[0, 0] * out[1, 1] - out[0, 1] * out[1, 0])
            return out[0] + out[1] + out[0] * out[1]
        if operation in ("cholesky", "updated"):
            return real(weights.conj() * xp.tril(out)).sum()
        if operation == "subspace":
            inner = (out.conj() * weights[0][:, None]).sum(0)
            return real(inner.conj() * inner).sum()  # |inner|^2 by abs has no derivatives at 0
        if operation == "eigvals":
            return real(out.conj() * out).sum()
        if operation == "eig":
            values, X = out
            inner = (X.conj() * weights[0][:, None]).sum(0)
            return real((values.conj() * values) * (inner.conj() * inner)).sum()
        w = weights[: out.shape[0], : out.shape[0]] if out.ndim == 2 else weights[0]
        return real(w.conj() * out).sum() + real(out.conj() * out).sum()

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
        """The gradient by the graph, as `backward` finds it."""
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


def in_pytensor(problem: Problem, apply: Any, single: bool) -> Modes:
    import pytensor
    import pytensor.tensor as pt
    from pytensor.gradient import pushforward
    from pytensor.graph.replace import vectorize_graph

    real = "float32" if single else "float64"
    at, u, v = (np.array(x, real) for x in (AT, U, V))
    dtype = {(0, 0): "float64", (0, 1): "float32", (1, 0): "complex128"}[problem.complex, single]
    t = pt.vector("t", dtype=real, shape=(len(AT),))
    loss = function(pt, problem, apply, lambda a: pt.as_tensor(np.asarray(a, dtype)))

    def run(make: Callable[[Any], Any], point: Any = at) -> Any:
        return pytensor.function([t], make(loss(t)))(point)

    def slope(g: Any, along: Any = u) -> Any:
        return pushforward(g, t, pt.as_tensor(along))

    def gradient(g: Any, *along: Any) -> Any:
        found = pytensor.grad(g, t)
        return gradient((found * along[0]).sum(), *along[1:]) if along else found

    def each(g: Any) -> Any:
        there = pt.as_tensor(np.stack([at, at + u]))
        return vectorize_graph(gradient(g), replace={t: there})

    return {
        "value": lambda: run(lambda g: g),
        "reverse": lambda: run(gradient),
        "forward": lambda: run(slope),
        "vmap of reverse": lambda: pytensor.function([], each(loss(t)))(),
        "reverse over reverse": lambda: run(lambda g: gradient(g, u)),
        "forward over reverse": lambda: run(lambda g: slope(gradient(g))),
        "reverse over forward": lambda: run(lambda g: gradient(slope(g))),
        "forward over forward": lambda: run(lambda g: slope(slope(g), v)),
        "reverse, three times": lambda: run(lambda g: gradient(g, u, v)),
    }


FRAMEWORKS = {"torch": in_torch, "jax": in_jax, "pytensor": in_pytensor}


def modes_of(framework: str, problem: Problem, claim: Any, single: bool) -> Modes:
    """None where the package claims nothing."""
    try:
        apply = claim(problem)
    except NotClaimed:
        return {}
    made = FRAMEWORKS[framework](problem, apply, single)
    if problem.operation == "singular":
        return {mode: made[mode] for mode in ("value", "reverse")}
    return made
