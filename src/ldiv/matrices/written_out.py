"""The entries of a matrix made of others: all of them, sparse or dense, or some of them.

    (c A)_ij = c a_ij;    (A + B)_ij = a_ij + b_ij;    (A x B)_(i m + k, j n + l) = a_ij b_kl, B (m, n)

A @ B and blocks as of SparseArrays. Where entries are not at hand, products with unit vectors give them:
A[i, j] = e_i^T (A e_j) = e_j^T (A^T e_i), which has no digits of an entry far below the others in its row
or column, and spreads what is not finite.
"""

from __future__ import annotations

from functools import reduce
from operator import add, matmul
from typing import Any

import numpy as np

from ldiv.core.arrays.inputs import moved
from ldiv.core.arrays.shapes import alike, batch_of, broadcast, clone, conj, factors, spread, take
from ldiv.core.arrays.space import HERE
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.errors import type_error
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.index_keys import Pairs, index_key
from ldiv.matrices.matrix import Matrix, writes_out
from ldiv.matrices.sparse_array import SparseArray, sparse_at
from ldiv.matrices.stacking import bmat
from ldiv.structures.block import Block
from ldiv.structures.circulant import Circulant
from ldiv.structures.composed import Composed, is_dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.kronecker import Kronecker, outer_sum
from ldiv.structures.product import Product
from ldiv.structures.scaled import Scaled, read
from ldiv.structures.shifted_kronecker import ShiftedKronecker
from ldiv.structures.sparse import Sparse
from ldiv.structures.sum import Sum
from ldiv.structures.toeplitz import Toeplitz


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


def dense_array(A: Matrix) -> Any:
    """The dense array (*batch, m, n)."""
    if _is_written_out(A):
        return written_out(A).toarray()
    dense = A.structure.todense(A.params)
    # a matrix that is stored as this array keeps its own
    return dense if isinstance(A.structure, Composed) else clone(dense)


def selected(A: Matrix, key: Any) -> Any:
    """A[key]: an array if an integer or pairs take an axis away, else a SparseArray."""
    if _is_written_out(A):
        return written_out(A)[key]
    found = index_key(key, A.structure.shape)
    if isinstance(found, Pairs):
        entries = _entries(A, found.rows.index, found.cols.index)
        return entries if found.rows.index.ndim == 1 else as_sparse("A", entries)
    down, across = found
    entries = _entries(A, np.array(down.content, int)[:, None], np.array(across.content, int)[None])
    if across.scalar:
        entries = entries[..., 0]
    if down.scalar:
        return entries[..., 0] if across.scalar else entries[..., 0, :]
    return entries if across.scalar else as_sparse("A", entries)


def _is_written_out(A: Matrix) -> bool:
    """Whether the entries come from those of the parts; refused are matrices over processes."""
    return is_sparse(A.structure) or A.structure.space is not HERE


def _entries(A: Matrix, rows: Index, cols: Index) -> Array:
    """The entries (*batch, *shape) at rows and columns that broadcast to this shape."""
    structure, p = A.structure, A.params
    if isinstance(structure, Scaled):
        alpha = factors(read(structure, p[1]), len(np.broadcast_shapes(rows.shape, cols.shape)))
        return alpha * _entries(Matrix(structure.base, p[0]), rows, cols)
    if isinstance(structure, Sum | Kronecker):
        parts = [Matrix(part, q) for part, q in zip(structure.parts, p, strict=True)]
        if isinstance(structure, Sum):
            return reduce(add, (_entries(part, rows, cols) for part in parts))
        m, n = parts[1].structure.shape
        return _entries(parts[0], rows // m, cols // n) * _entries(parts[1], rows % m, cols % n)
    if is_sparse(structure):
        rows, cols = np.broadcast_arrays(rows, cols)
        flat = written_out(A)[rows.ravel(), cols.ravel()]
        return namespace(flat).reshape(flat, (*flat.shape[:-1], *rows.shape))
    base, op = structure.unview()
    transposed, conjugated = VIEWS[op]
    at = (cols, rows) if transposed else (rows, cols)
    if is_dense(base):
        entries = _at(base.todense(p), *at)
    elif isinstance(base, Toeplitz | Circulant):
        entries = base.at(p, *at)
    else:
        return _by_products(A, rows, cols)
    return conj(entries) if conjugated else entries


def _by_products(A: Matrix, rows: Index, cols: Index) -> Array:
    """The entries by as many products as there are different rows, or columns if these are fewer."""
    (used_rows, i), (used_cols, j) = _distinct(rows), _distinct(cols)
    if len(used_rows) < len(used_cols):
        return _at(_columns(A.T, used_rows), cols, i)
    return _at(_columns(A, used_cols), rows, j)


def _at(a: Array, rows: Index, cols: Index) -> Array:
    """a[..., rows, cols]."""
    flat = namespace(a).reshape(a, (*a.shape[:-2], a.shape[-2] * a.shape[-1]))
    return take(flat, rows * a.shape[-1] + cols)


def _distinct(index: Index) -> tuple[Index, Index]:
    """The distinct indices, and the place of each index among them."""
    used, place = np.unique(index, return_inverse=True)
    return used, place.reshape(index.shape)


def _columns(A: Matrix, cols: Index) -> Any:
    """A e_j for these j, (*batch, m, k)."""
    like = leaves(A.params)[0]
    units = np.arange(A.structure.shape[1])[:, None] == cols
    return A @ namespace(like).asarray(units, **alike(like))


writes_out(tosparse=written_out, toarray=dense_array, select=selected)
