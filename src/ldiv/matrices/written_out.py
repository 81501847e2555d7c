"""A composed matrix as a SparseArray, built from the entries of its parts.

A x B: a_ij b_kl at (i m + k, j n + l), B (m, n);    A + B, A @ B, c A and blocks as of SparseArrays
"""

from __future__ import annotations

from functools import reduce
from operator import add, matmul

import numpy as np

from ldiv.core.arrays.inputs import moved
from ldiv.core.arrays.shapes import batch_of, broadcast, factors, spread
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.errors import type_error
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.matrix import Matrix, writes_out
from ldiv.matrices.sparse_array import SparseArray, sparse_at
from ldiv.matrices.stacking import bmat
from ldiv.structures.block import Block
from ldiv.structures.composed import Composed, is_dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.kronecker import Kronecker, outer_sum
from ldiv.structures.product import Product
from ldiv.structures.scaled import Scaled, read
from ldiv.structures.shifted_kronecker import ShiftedKronecker
from ldiv.structures.sparse import Sparse
from ldiv.structures.sum import Sum


def written_out(A: Matrix) -> SparseArray:
    """The SparseArray with the entries of A; TypeError where they are not at hand."""
    if isinstance(A, SparseArray):
        return A
    return _of_parts(A.structure, A.params)


def is_sparse(structure: Structure) -> bool:
    """Whether all entries are at hand, and few: of a Kronecker product one sparse part suffices."""
    return _kind(structure) == 2


def _kind(structure: Structure) -> int:
    """0 for entries that are not at hand, 1 for those of a dense array, 2 for those of a pattern."""
    if not isinstance(structure, Composed):
        base = structure.unview()[0]
        return 2 if isinstance(base, Sparse | Diagonal) else int(is_dense(base))
    if not isinstance(structure, Scaled | Kronecker | Sum | Product | Block):
        return 0
    kinds = [_kind(part) for part in structure.parts]
    return max(kinds) if isinstance(structure, Kronecker) and min(kinds) else min(kinds)


def _of_parts(structure: Structure, p: Tree) -> SparseArray:
    if not isinstance(structure, Composed):
        return _of_one(structure, p)
    if isinstance(structure, Scaled):
        base = _of_parts(structure.base, p[0])
        return base._like(factors(read(structure, p[1]), 1) * base.values)
    if isinstance(structure, ShiftedKronecker):
        raise _not_at_hand(structure)
    parts = [_of_parts(part, q) for part, q in zip(structure.parts, p, strict=True)]
    if isinstance(structure, Kronecker):
        return _kronecker(*parts)
    if isinstance(structure, Sum):
        return reduce(add, parts)
    if isinstance(structure, Product):
        return reduce(matmul, reversed(parts) if structure.backwards else parts)
    if isinstance(structure, Block):
        at = dict(zip(structure.places, parts, strict=True))
        m, n = len(structure.heights), len(structure.widths)
        return bmat([[at.get((i, j)) for j in range(n)] for i in range(m)])
    raise _not_at_hand(structure)


def _of_one(structure: Structure, p: Tree) -> SparseArray:
    base, op = structure.unview()
    if isinstance(base, Sparse):
        A = SparseArray(base, p)
    elif isinstance(base, Diagonal):
        i = np.arange(base.n)
        A = sparse_at(p, i, i, base.shape, "coo")
    elif is_dense(base):
        A = as_sparse("A", base.todense(p))
    else:
        raise _not_at_hand(base)
    return A._view(op)


def _kronecker(A: SparseArray, B: SparseArray) -> SparseArray:
    (a, b), (m, n) = (A.values, B.values), B.structure.shape
    a, b = moved(a, b), moved(b, a)
    batch = broadcast(batch_of(a, 1), batch_of(b, 1))
    both = spread(a, batch, 1)[..., :, None] * spread(b, batch, 1)[..., None, :]
    values = namespace(both).reshape(both, (*batch, A.nnz * B.nnz))
    (rows, cols), (i, j) = A.coords, B.coords
    shape = A.structure.shape[0] * m, A.structure.shape[1] * n
    return sparse_at(values, outer_sum(rows, i, m), outer_sum(cols, j, n), shape, "coo")


def _not_at_hand(structure: Structure) -> TypeError:
    advice = "Use it as it is, or write it out as a dense array, A.toarray()."
    return type_error(
        "A", "a matrix whose entries are stored", f"one on {type(structure).__name__}", advice
    )


writes_out(tosparse=written_out)
