"""The entries of an operator that is known by its action alone: products with the seeds of a
coloring of its columns. They must agree with a product in a random direction, unless the operator
is traced and its program shows that it has no others.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
from lineax.internal import pack_structures, ravel_vector, unravel_solution

from ldiv.core.frameworks.dispatch import frontend_of, traced
from ldiv.derivatives.coloring import Compression, compression
from ldiv.derivatives.jacobian_values import covers
from ldiv.errors import value_error
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.verify_pattern import agreed
from ldiv.structures.sparse import Sparse


def probed(operator: lx.AbstractLinearOperator, pattern: Sparse) -> SparseArray:
    """The entries of a pattern, from one product for each color."""
    shape = operator.out_size(), operator.in_size()
    if pattern.shape != shape:
        raise value_error(
            "sparsity", f"shape {shape}", str(pattern.shape), "It is the pattern of the operator."
        )
    at_x = any(map(traced, jax.tree.leaves(operator)))
    packed, operator = pack_structures(operator), lx.linearise(operator)
    dtype = jnp.result_type(*jax.tree.leaves(operator.in_structure()))

    def product(v: Any) -> Any:
        return ravel_vector(operator.mv(unravel_solution(v, packed)), packed)

    how, zero = compression(pattern, "forward"), jnp.zeros(shape[1], dtype)
    products = jax.vmap(product)
    if at_x and covers(pattern, frontend_of(zero).dependence(product, zero)):
        return SparseArray(pattern, how.entries(products(jnp.asarray(how.forward.T, dtype))))
    direction = np.random.default_rng(pattern.pattern.nnz).standard_normal(shape[1])
    seeds = jnp.asarray(np.vstack([how.forward.T, direction]), dtype)
    return SparseArray(pattern, _agreed(pattern, how, seeds[-1], products(seeds)))


def _agreed(pattern: Sparse, how: Compression, direction: Any, products: Any) -> Any:
    """The entries, which must give the last product; an operator that is not finite is refused
    where it is solved.
    """
    entries: Any = how.entries(products[:-1])
    finite = jnp.isfinite(products).all()
    checked = agreed(
        pattern, jnp.where(finite, entries, 0), direction, jnp.where(finite, products[-1], 0)
    )
    return jnp.where(finite, checked, entries)
