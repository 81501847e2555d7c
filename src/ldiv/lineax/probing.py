"""The entries J[i, j] = (J @ s)[i], s the sum of the unit vectors of one colour, j the only column of it with an entry in row i.

Reference: Curtis, Powell, Reid, On the estimation of sparse Jacobian matrices, J. Inst. Math. Appl. 13 (1974).
"""

from __future__ import annotations

from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import scipy.sparse
from lineax.internal import pack_structures, ravel_vector, unravel_solution

from ldiv.errors import got
from ldiv.matrices.construct import coo_array
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse


def probed(operator: lx.AbstractLinearOperator, pattern: Sparse) -> SparseArray:
    """The entries of a pattern, from one product for each colour."""
    if pattern.shape != (operator.out_size(), operator.in_size()):
        raise ValueError(
            got("sparsity", f"shape {(operator.out_size(), operator.in_size())}", str(pattern.shape), "It is the pattern of the operator.")
        )
    packed, operator = pack_structures(operator), lx.linearise(operator)
    colour = pattern.memo("colouring", lambda: colouring(pattern))
    seeds = colour == np.arange(colour.max(initial=0) + 1)[:, None]
    seen = jax.vmap(lambda e: ravel_vector(operator.mv(unravel_solution(e, packed)), packed))(
        jnp.asarray(seeds, jnp.result_type(*jax.tree.leaves(operator.in_structure())))
    )
    rows, cols = pattern.pattern.rows, pattern.pattern.cols
    return SparseArray(pattern, seen[colour[cols], rows])


def colouring(pattern: Sparse) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A colour for each column, no two of a colour with an entry in one row, by the first that is free."""
    places = scipy.sparse.csr_array((np.ones(pattern.pattern.nnz), (pattern.pattern.rows, pattern.pattern.cols)), shape=pattern.shape)
    meets = scipy.sparse.csr_array(places.T @ places)
    colour = np.full(pattern.shape[1], -1)
    for j, (start, stop) in enumerate(zip(meets.indptr, meets.indptr[1:], strict=False)):
        taken = set(colour[meets.indices[start:stop]].tolist())
        colour[j] = next(c for c in count() if c not in taken)
    return colour


def pattern_of(array: SparseArray) -> Sparse:
    """Every position once, not as a view."""
    once = coo_array((np.ones(array.nnz), (array.row, array.col)), shape=array.structure.shape).sum_duplicates()
    structure = once.structure
    assert isinstance(structure, Sparse)
    return structure
