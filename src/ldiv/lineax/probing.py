"""The entries of an operator that is known by its action alone: products with the seeds of a
coloring of its columns.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import lineax as lx
from lineax.internal import pack_structures, ravel_vector, unravel_solution

from ldiv.derivatives.coloring import compression
from ldiv.errors import expected_got
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse


def probed(operator: lx.AbstractLinearOperator, pattern: Sparse) -> SparseArray:
    """The entries of a pattern, from one product for each color."""
    shape = operator.out_size(), operator.in_size()
    if pattern.shape != shape:
        raise ValueError(
            expected_got(
                "sparsity",
                f"shape {shape}",
                str(pattern.shape),
                "It is the pattern of the operator.",
            )
        )
    packed, operator = pack_structures(operator), lx.linearise(operator)
    how, dtype = (
        compression(pattern, "forward"),
        jnp.result_type(*jax.tree.leaves(operator.in_structure())),
    )
    transposed_products = jax.vmap(
        lambda s: ravel_vector(operator.mv(unravel_solution(s, packed)), packed), 1
    )(jnp.asarray(how.forward, dtype))
    return SparseArray(pattern, how.entries(transposed_products))
