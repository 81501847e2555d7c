"""Value and gradient by calls one step beside the plain one, over that: another way to say the same
matrix, more columns, a transformation, or something that is asked for besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from problems import systems

import ldiv

F64 = torch.float64
Step = Callable[[float], Any]  # of the scale of the matrix
Row = tuple[str, str, str, float, dict[str, Step]]  # problem, which over which, target, both


def value_and_gradient(solve: Callable[[Any, Any], Any], a: Any, b: Any, c: Any) -> Step:
    """x of s A, and its cotangents along c."""

    def step(s: float) -> Any:
        x, rhs = (a * s).requires_grad_(), b.clone().requires_grad_()
        return torch.autograd.grad(solve(x, rhs), (x, rhs), c)

    return step


def dense(n: int) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(n, n, generator=generator, dtype=F64) + 8 * torch.eye(n, dtype=F64)
    b, c = torch.randn(2, n, generator=generator, dtype=F64)
    plain = value_and_gradient(ldiv.solve, a, b, c)
    ways = {
        "factorized(A).solve": lambda a, b: ldiv.factorized(a).solve(b),
        "solve(asarray(A))": lambda a, b: ldiv.solve(ldiv.asarray(a), b),
    }
    for name, way in ways.items():
        contenders = {name: value_and_gradient(way, a, b, c), "solve": plain}
        yield f"dense {n} x {n}", name, "solve", 1.2, contenders


def sparse(side: int) -> Iterator[Row]:
    """Sparse calls on a grid of side x side, by LU and by Cholesky."""
    a = systems.by_rows(systems.poisson(side, side))
    values, n = torch.from_numpy(a.data), a.shape[0]
    A = ldiv.csr_array((values, a.indices, a.indptr), shape=a.shape)
    at = torch.from_numpy(a.indptr).long(), torch.from_numpy(a.indices).long()
    generator = torch.Generator().manual_seed(0)
    b, c = torch.randn(2, n, generator=generator, dtype=F64)
    B, C = torch.randn(2, n, 10, generator=generator, dtype=F64)

    def solve(kind: str, x: Any, b: Any, **options: Any) -> Any:
        return ldiv.solve(A.with_data(x), b, assume_a=kind, **options)

    def by_func(kind: str, mode: str) -> Step:
        f = partial(solve, kind)
        if mode == "jvp":
            return lambda s: torch.func.jvp(f, (values * s, b), (values, c))
        loss = torch.func.grad(lambda x, b: (f(x, b) * c).sum(), argnums=(0, 1))
        return lambda s: loss(values * s, b)

    def of_tensor(kind: str) -> Step:
        def step(s: float) -> Any:
            T = torch.sparse_csr_tensor(*at, values * s, a.shape).requires_grad_()
            rhs = b.clone().requires_grad_()
            return torch.autograd.grad(ldiv.solve(T, rhs, assume_a=kind), (T, rhs), c)

        return step

    for kind in ("gen", "pos"):
        of = partial(solve, kind)
        plain = value_and_gradient(of, values, b, c)
        ways: dict[str, tuple[float, Step]] = {
            "info": (
                1.5,
                value_and_gradient(lambda x, b, of=of: of(x, b, info=True)[0], values, b, c),
            ),
            "float32": (1.5, value_and_gradient(partial(of, factor_dtype="float32"), values, b, c)),
            "func.grad": (1.3, by_func(kind, "grad")),
            "func.jvp": (1.3, by_func(kind, "jvp")),
            "10 columns": (1.3, value_and_gradient(of, values, B, C)),
            "torch's CSR": (1.3, of_tensor(kind)),
        }
        for name, (target, way) in ways.items():
            yield f"grid {side}^2, {kind}", name, "solve", target, {name: way, "solve": plain}
    pair = {k: value_and_gradient(partial(solve, k), values, b, c) for k in ("pos", "gen")}
    yield f"grid {side}^2", "pos", "gen", 1.0, pair
    batch = torch.stack([values * (1 + i / 10) for i in range(4)])
    b = torch.randn(4, n, 1, generator=generator, dtype=F64)
    pair = {k: value_and_gradient(partial(solve, k), batch, b, b) for k in ("pos", "gen")}
    yield f"4 grids {side}^2", "pos", "gen", 1.0, pair


def jitted(side: int) -> Iterator[Row]:
    """The same in a program of JAX."""
    a, rng = systems.by_rows(systems.poisson(side, side)), np.random.default_rng(0)
    values, n = jnp.asarray(a.data), a.shape[0]
    A = ldiv.csr_array((values, a.indices, a.indptr), shape=a.shape)
    for kind in ("gen", "pos"):
        ways: dict[str, Step] = {}
        for name, k in (("10 columns", 10), ("one", 1)):
            b, c = jnp.asarray(rng.standard_normal((2, n, k)))

            def loss(v: Any, b: Any, c: Any = c, kind: str = kind) -> Any:
                return jnp.sum(c * ldiv.solve(A.with_data(v), b, assume_a=kind))

            f = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
            ways[name] = lambda s, f=f, b=b: jax.block_until_ready(f(values * s, b))
        yield f"jit, grid {side}^2, {kind}", "10 columns", "one", 1.5, ways
