"""P A = L U, A = L L^H, L^-1 B and others: the dense kernels of XLA, batched, and scattered sums.

A failure is a flag or NaN in the results, which the calling engine checks. In programs for the CPU
LAPACK runs for one batch member at a time where batched calls can wait for each other for ever
(`private.BATCHED_LAPACK_WAITS`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.core.policies.errstate import singular_state
from ldiv.frontends.jax import private
from ldiv.frontends.jax.values import traced


def product(a: jax.Array, x: jax.Array) -> jax.Array:
    # by default GPUs and TPUs round factors to TF32 or bfloat16
    return jnp.matmul(a, x, precision="highest")


def scatter(x: jax.Array, index: Any, size: int) -> jax.Array:
    return jnp.zeros((*x.shape[:-2], size, x.shape[-1]), x.dtype).at[..., index, :].add(x)


def _each(kernel: Callable[..., Any], *arrays: jax.Array) -> Any:
    """kernel(*arrays), of the same batch axes: in a program for the CPU one matrix after another,
    which takes no longer there.
    """
    if private.BATCHED_LAPACK_WAITS and singular_state() == "nan":
        return _in_any_batch(kernel)(*arrays)
    return _of_batch(kernel, *arrays)


def _in_any_batch(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_of_batch` for this kernel, also where batch axes come from jax.vmap."""
    each = jax.custom_batching.custom_vmap(partial(_of_batch, kernel))

    @each.def_vmap
    def _(size: int, batched: Any, *arrays: jax.Array) -> Any:
        wide = [
            x if b else jnp.broadcast_to(x, (size, *x.shape))
            for x, b in zip(arrays, batched, strict=True)
        ]
        found = _in_any_batch(kernel)(*wide)
        return found, jax.tree.map(lambda _: True, found)

    return each


def _of_batch(kernel: Callable[..., Any], *arrays: jax.Array) -> Any:
    batch = arrays[0].shape[:-2]
    if (
        not private.BATCHED_LAPACK_WAITS
        or any(0 in x.shape for x in arrays)
        or all(n == 1 for n in batch)
        or not any(map(traced, arrays))
    ):
        return kernel(*arrays)

    def in_turn(*arrays: jax.Array) -> Any:
        flat = [jnp.reshape(x, (-1, *x.shape[-2:])) for x in arrays]
        found = jax.lax.map(lambda xs: kernel(*xs), flat)
        return jax.tree.map(lambda y: jnp.reshape(y, (*batch, *y.shape[1:])), found)

    return jax.lax.platform_dependent(*arrays, cpu=in_turn, default=kernel)


def lu_factor(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(packed LU, row order and its inverse, concatenated), A[order] = L U."""
    lu, _, order = _each(jax.lax.linalg.lu, a)
    back = jnp.argsort(order, -1, stable=False).astype(order.dtype)
    return lu, jnp.concatenate([order, back], -1)


def sign_of_rows(order: jax.Array) -> jax.Array:
    """det P: -1 for an odd number of inversions."""
    order = jnp.split(order, 2, -1)[0]
    return 1 - 2 * (jnp.triu(order[..., :, None] > order[..., None, :]).sum((-2, -1)) % 2)


def lu_solve(lu: jax.Array, order: jax.Array, b: jax.Array, op: str) -> jax.Array:
    """A^-1 b, A^-T b or A^-H b."""
    lu, b = _together(lu, b.astype(lu.dtype))
    n = lu.shape[-1]
    order = jnp.broadcast_to(order, (*lu.shape[:-2], 2 * n))[..., None]
    take = partial(jnp.take_along_axis, axis=-2, mode="promise_in_bounds")
    solve = partial(_solve, lu, transpose_a=op != "N", conjugate_a=op == "H")
    if op == "N":  # x = U^-1 L^-1 P b
        y = solve(take(b, order[..., :n, :]), lower=True, unit_diagonal=True)
        return solve(y, lower=False)
    # x = P^T L^-T U^-T b, and the same with H
    y = solve(solve(b, lower=False), lower=True, unit_diagonal=True)
    return take(y, order[..., n:, :])


def cholesky(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(L, whether all of the batch is positive definite)."""
    l = _each(partial(jax.lax.linalg.cholesky, symmetrize_input=False), a)
    return l, jnp.isfinite(l).all()  # XLA fills the factor of an indefinite matrix with NaN


def solve_triangular(a: jax.Array, b: jax.Array, lower: bool, unit: bool = False) -> jax.Array:
    dtype = jnp.promote_types(a.dtype, b.dtype)
    a, b = _together(a.astype(dtype), b.astype(dtype))
    return _solve(a, b, lower=lower, unit_diagonal=unit)


def qr(a: jax.Array, mode: str = "reduced") -> Any:
    return _each(partial(jnp.linalg.qr, mode=mode), a)


def eigh(a: jax.Array) -> Any:
    return _each(jnp.linalg.eigh, a)


def svd(a: jax.Array) -> Any:
    return _each(partial(jnp.linalg.svd, full_matrices=False), a)


def svdvals(a: jax.Array) -> jax.Array:
    return _each(jnp.linalg.svdvals, a)


def _solve(a: jax.Array, b: jax.Array, **how: bool) -> jax.Array:
    return _each(partial(jax.lax.linalg.triangular_solve, left_side=True, **how), a, b)


def lu_pivoted(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A packed LU of an m x n matrix, and LAPACK's exchanges counted from 0."""
    lu, exchanges, _ = _each(jax.lax.linalg.lu, a)
    return lu, exchanges


def row_order(exchanges: jax.Array, m: int) -> jax.Array:
    """The order of the m rows that these exchanges lead to."""
    return jax.lax.linalg.lu_pivots_to_permutation(exchanges, m)


def _together(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Broadcast both to common batch axes."""
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide, tall = (*batch, *a.shape[-2:]), (*batch, *b.shape[-2:])
    return jnp.broadcast_to(a, wide), jnp.broadcast_to(b, tall)
