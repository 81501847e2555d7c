"""The triangles of a sparse array, and its diagonal with other values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast, spread
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import as_float, require_batches, require_int, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import value_error
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.entries import Format
from ldiv.matrices.matrix import beside, common_dtype, scalar
from ldiv.matrices.operator_protocol import NUMBERS
from ldiv.matrices.sparse_array import SparseArray, sparse_at
from ldiv.rules.gather import gather, selecting


@public
def tril(A: SparseArray | AnyArray, k: int = 0, format: Format | None = None) -> SparseArray:
    """The lower triangle of a sparse array.

        L[i, j] = A[i, j] for j <= i + k, else 0

    Parameters
    ----------
    A : SparseArray, sparse matrix of another library, or dense array (*batch, m, n)
        The matrix. Of a dense array all entries of the triangle are kept.
    k : int, default 0
        The diagonal that is kept last: positive ones lie above the main one.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.

    Returns
    -------
    L : SparseArray (*batch, m, n)
        The entries on and below the k-th diagonal, on a pattern of their own.

    Raises
    ------
    TypeError
        For a matrix whose entries are not stored.

    See Also
    --------
    triu
    solve_triangular : reads one triangle as it is.

    Notes
    -----
    Differentiable in A, in every mode and order.
    Cost: one copy of the entries that are kept.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.tril(np.array([[1.0, 2.0], [3.0, 4.0]])).toarray()
    array([[1., 0.],
           [3., 4.]])
    """
    return _triangle(A, k, format, True)


@public
def triu(A: SparseArray | AnyArray, k: int = 0, format: Format | None = None) -> SparseArray:
    """The upper triangle of a sparse array.

        U[i, j] = A[i, j] for j >= i + k, else 0

    Parameters
    ----------
    A : SparseArray, sparse matrix of another library, or dense array (*batch, m, n)
        As in `tril`.
    k : int, default 0
        The diagonal that is kept first: positive ones lie above the main one.
    format : {"coo", "csr", "csc"}, optional
        As in `tril`.

    Returns
    -------
    U : SparseArray (*batch, m, n)
        The entries on and above the k-th diagonal, on a pattern of their own.

    Raises
    ------
    TypeError
        As in `tril`.

    Notes
    -----
    Differentiable in A, in every mode and order. Cost: that of `tril`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.triu(np.array([[1.0, 2.0], [3.0, 4.0]])).toarray()
    array([[1., 2.],
           [0., 4.]])
    """
    return _triangle(A, k, format, False)


def _triangle(A: Any, k: int, format: Format | None, lower: bool) -> SparseArray:
    a, k = as_sparse("A", A), require_int("k", k)
    beyond = a.col.astype(np.int64) - a.row - k
    kept = np.flatnonzero(beyond <= 0 if lower else beyond >= 0)
    return a._kept(kept, "coo").asformat(format)


@public
def setdiag(A: SparseArray | AnyArray, values: AnyArray | complex, k: int = 0) -> SparseArray:
    """The matrix with other values on a diagonal, as a new sparse array.

        B[i, i + k] = values[i - max(-k, 0)],    else B[i, j] = A[i, j]

    Parameters
    ----------
    A : SparseArray, sparse matrix of another library, or dense array (*batch, m, n)
        The matrix, which stays as it is.
    values : array (*batch, length), or a number
        A number fills the diagonal. Of a vector that is longer than the diagonal the rest is
        ignored; where it is shorter the rest of the diagonal stays, as in SciPy.
    k : int, default 0
        The diagonal: 0 is the main one, positive ones lie above it.

    Returns
    -------
    B : SparseArray (*batch, m, n)
        In the format of A; on its pattern, with all symbolic work, if that has every place of the
        diagonal once.

    Raises
    ------
    ValueError
        For a diagonal outside of the matrix.
    TypeError
        For mixed frameworks, and for a matrix whose entries are not stored.

    Notes
    -----
    Differentiable in A and in values, in every mode and order.
    Cost: one copy of the values.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.csr_array((np.array([1.0, 2.0]), [0, 1], [0, 2, 2]), shape=(2, 2))
    >>> ldiv.setdiag(A, np.array([7.0, 8.0])).toarray()
    array([[7., 2.],
           [0., 8.]])
    """
    a, k = beside(as_sparse("A", A), values), require_int("k", k)
    (m, n), old = a.structure.shape, a.values
    length = min(m + min(k, 0), n - max(k, 0))
    if length <= 0:
        raise value_error("k", f"a diagonal of a {m} x {n} matrix", k, "It lies outside.")
    if isinstance(values, NUMBERS):
        new = scalar("values", values, old)
    else:
        new = as_float("values", values, old)
        together("values", new, old)
    if new.ndim == 0:
        new = namespace(new).broadcast_to(new, (length,))
    new = new[..., : min(length, new.shape[-1])]
    require_batches("values", batch_of(old, 1), batch_of(new, 1))
    batch = broadcast(batch_of(old, 1), batch_of(new, 1))
    both = namespace(old).concat([spread(x, batch, 1) for x in common_dtype(old, new)], axis=-1)
    source, rows, cols = _replaced(a, new.shape[-1], k)
    filled = gather(selecting(source, both.shape[-1]), both)
    if np.array_equal(rows, a.row) and np.array_equal(cols, a.col):
        return a._like(filled)
    return sparse_at(filled, rows, cols, (m, n), "coo").asformat(a.format)


def _replaced(a: SparseArray, count: int, k: int) -> tuple[Index, Index, Index]:
    """(source, rows, cols) of the entries, those of the diagonal once.

    source: entry e of a, or nnz + i for the i-th of the `count` new values of the k-th diagonal.
    """
    down, across = max(-k, 0), max(k, 0)
    rows, cols = a.row.astype(np.int64), a.col.astype(np.int64)
    on = np.flatnonzero((cols - rows == k) & (rows - down < count))
    there, first = np.unique(rows[on] - down, return_index=True)
    source = np.arange(a.nnz)
    source[on[first]] = a.nnz + there
    kept = np.delete(np.arange(a.nnz), np.delete(on, first))
    missing = np.setdiff1d(np.arange(count), there)
    return (
        np.concatenate([source[kept], a.nnz + missing]),
        np.concatenate([rows[kept], missing + down]),
        np.concatenate([cols[kept], missing + across]),
    )
