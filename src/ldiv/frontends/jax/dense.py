"""P A = L U, A = L L^H, L^-1 B: the dense kernels of XLA, batched, and scattered sums.

A failure is a flag or NaN in what comes out; the engine that calls them checks it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.core.trees import Array


def product(a: Array, x: Array) -> Array:
    # by default GPUs and TPUs round factors to TF32 or bfloat16
    return jnp.matmul(a, x, precision="highest")


def scatter(x: Array, index: Any, size: int) -> Array:
    return jnp.zeros((*x.shape[:-2], size, x.shape[-1]), x.dtype).at[..., index, :].add(x)


def lu_factor(a: Array) -> tuple[Array, Array]:
    lu, _, order = jax.lax.linalg.lu(a)
    return lu, order


def sign_of_rows(order: Array) -> Array:
    """det P: -1 for an odd number of inversions."""
    return 1 - 2 * (jnp.triu(order[..., :, None] > order[..., None, :]).sum((-2, -1)) % 2)


def lu_solve(lu: Array, order: Array, b: Array, op: str) -> Array:
    """A^-1 b, A^-T b or A^-H b; the second result of `lu_factor` is the order of the rows:
    A[order] = L U.
    """
    lu, b = _together(lu, b.astype(lu.dtype))
    order = jnp.broadcast_to(order, lu.shape[:-1])[..., None]
    solve = partial(
        jax.lax.linalg.triangular_solve,
        lu,
        left_side=True,
        transpose_a=op != "N",
        conjugate_a=op == "H",
    )
    if op == "N":  # x = U^-1 L^-1 P b
        y = solve(jnp.take_along_axis(b, order, -2), lower=True, unit_diagonal=True)
        return solve(y, lower=False)
    # x = P^T L^-T U^-T b, and the same with H
    y = solve(solve(b, lower=False), lower=True, unit_diagonal=True)
    return jnp.take_along_axis(y, jnp.argsort(order, -2), -2)


def cholesky(a: Array) -> tuple[Array, Array]:
    """(L, whether all of the batch is positive definite)."""
    l = jax.lax.linalg.cholesky(a, symmetrize_input=False)
    return l, jnp.isfinite(l).all()  # XLA fills the factor of an indefinite matrix with NaN


def solve_triangular(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    dtype = jnp.promote_types(a.dtype, b.dtype)
    a, b = _together(a.astype(dtype), b.astype(dtype))
    return jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, unit_diagonal=unit)


def lu_pivoted(a: Array) -> tuple[Array, Array]:
    """A packed LU of an m x n matrix, and LAPACK's exchanges counted from 0."""
    lu, exchanges, _ = jax.lax.linalg.lu(a)
    return lu, exchanges


def row_order(exchanges: Array, m: int) -> Array:
    """The order of the m rows that these exchanges lead to."""
    return jax.lax.linalg.lu_pivots_to_permutation(exchanges, m)


def _together(a: Array, b: Array) -> tuple[Array, Array]:
    """Both on the same batch axes."""
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide, tall = (*batch, *a.shape[-2:]), (*batch, *b.shape[-2:])
    return jnp.broadcast_to(a, wide), jnp.broadcast_to(b, tall)
