"""Entries of a matrix: those of its parts where they are at hand, else by products with unit vectors.

(c A)_ij = c a_ij;    (A + B)_ij = a_ij + b_ij;    (A x B)_ij = a_(i div m, j div n) b_(i mod m, j mod n)
for B (m, n);    else A[i, j] = e_i^T (A e_j) = e_j^T (A^T e_i), which has no digits of an entry far
below the others in its row or column, and spreads what is not finite.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, clone, conj, factors, take
from ldiv.core.arrays.space import HERE
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.structure import VIEWS
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.index_keys import Pairs, index_key
from ldiv.matrices.matrix import Matrix, writes_out
from ldiv.matrices.written_out import is_sparse, written_out
from ldiv.structures.circulant import Circulant
from ldiv.structures.composed import Composed, is_dense
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.scaled import Scaled, read
from ldiv.structures.sum import Sum
from ldiv.structures.toeplitz import Toeplitz


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


writes_out(toarray=dense_array, select=selected)
