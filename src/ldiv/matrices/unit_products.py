"""Entries of a matrix by products with unit vectors: A[i, j] = e_i^T (A e_j) = e_j^T (A^T e_i)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, conj, take
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
from ldiv.structures.toeplitz import Toeplitz


def dense_array(A: Matrix) -> Any:
    """The dense array (*batch, m, n)."""
    if _is_written_out(A):
        return written_out(A).toarray()
    if (entries := _at_hand(A, *np.indices(A.structure.shape))) is not None:
        return entries
    return _columns(A, np.arange(A.structure.shape[1]))


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
    if (entries := _at_hand(A, rows, cols)) is not None:
        return entries
    (used_rows, i), (used_cols, j) = _distinct(rows), _distinct(cols)
    if len(used_rows) < len(used_cols):
        block, at = _columns(A.T, used_rows), cols * len(used_rows) + i
    else:
        block, at = _columns(A, used_cols), rows * len(used_cols) + j
    flat = namespace(block).reshape(block, (*block.shape[:-2], block.shape[-2] * block.shape[-1]))
    return take(flat, at)


def _at_hand(A: Matrix, rows: Index, cols: Index) -> Array | None:
    """The entries of a matrix whose products are FFTs, which round each entry to eps |A|; else None."""
    base, op = A.structure.unview()
    if not isinstance(base, Toeplitz | Circulant):
        return None
    transposed, conjugated = VIEWS[op]
    entries = base.at(A.params, *((cols, rows) if transposed else (rows, cols)))
    return conj(entries) if conjugated else entries


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
