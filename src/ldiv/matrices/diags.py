"""SciPy's older names of sparse arrays from diagonals: diags, spdiags, eye, identity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from ldiv.core.arrays.typing import AnyArray, IndexLike
from ldiv.core.arrays.validate import as_float, require_int, require_shape
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.errors import value_error
from ldiv.matrices.diagonals import diags_array, eye_array, offsets_of
from ldiv.matrices.entries import Format
from ldiv.matrices.sparse_array import SparseArray, sparse_at


@public
def diags(
    diagonals: AnyArray | Sequence[AnyArray],
    offsets: int | IndexLike = 0,
    shape: tuple[int, int] | None = None,
    format: Format | None = None,
    dtype: DTypeLike | None = None,
) -> SparseArray:
    """A sparse array from its diagonals: `diags_array`, with its arguments by place.

        A[i, i + offset] = diagonal[i - max(-offset, 0)]

    Parameters
    ----------
    diagonals : array (*batch, length), or a sequence of such arrays
        As in `diags_array`.
    offsets, shape, format, dtype : optional
        As in `diags_array`.

    Returns
    -------
    A : SparseArray (*batch, m, n)
        With the operators of arrays: `A @ B` is a product, and `A * B` is of entries.

    Raises
    ------
    ValueError, TypeError
        As in `diags_array`.

    Notes
    -----
    Differentiable in the diagonals, in every mode.
    Cost: a copy of the diagonals, one behind the other.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.diags([2.0, np.array([-1.0, -3.0])], [0, 1], (3, 3)).toarray()
    array([[ 2., -1.,  0.],
           [ 0.,  2., -3.],
           [ 0.,  0.,  2.]])
    """
    return diags_array(diagonals, offsets=offsets, shape=shape, format=format, dtype=dtype)


@public
def spdiags(
    data: AnyArray,
    diags: IndexLike,
    m: int | tuple[int, int] | None = None,
    n: int | None = None,
    format: Format | None = None,
) -> SparseArray:
    """A sparse array from rows that hold its diagonals, as in SciPy and MATLAB.

        A[j - k, j] = data[i, j],    k = diags[i]

    Parameters
    ----------
    data : array (*batch, number of diagonals, length)
        A column of A for each of its columns; what lies outside of A is not read.
    diags : int, or a sequence of ints
        One for each row of data, all different: 0 is the main diagonal, positive ones lie above it.
    m, n : int, optional
        Rows and columns of A, or m a pair of both; by default as many as data has columns.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.

    Returns
    -------
    A : SparseArray (*batch, m, n)

    Raises
    ------
    ValueError, TypeError
        As in `diags_array`.

    Notes
    -----
    Differentiable in the data, in every mode.
    Cost: a copy of the data.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.spdiags(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [0, 1], 3, 3).toarray()
    array([[1., 5., 0.],
           [0., 2., 6.],
           [0., 0., 3.]])
    """
    values: Array = as_float("data", data)
    if values.ndim == 0:
        raise value_error("data", "a row for each diagonal", "a number", "Write eye.")
    values = values[None] if values.ndim == 1 else values
    at = offsets_of("diags", diags)
    if len(at) != values.shape[-2]:
        came = f"{len(at)} for {values.shape[-2]} rows"
        raise value_error("diags", "one for each row of data", came, "Match them.")
    length = values.shape[-1]
    if isinstance(m, tuple):
        rows, cols = require_shape("m", m)
    else:
        rows, cols = (
            length if s is None else require_int(name, s, 0) for name, s in (("m", m), ("n", n))
        )
    columns = [np.arange(max(k, 0), max(min(cols, rows + k, length), max(k, 0))) for k in at]
    found = namespace(values).concat(
        [
            values[..., i, j[0] : j[-1] + 1] if len(j) else values[..., i, :0]
            for i, j in enumerate(columns)
        ],
        axis=-1,
    )
    at_rows = [j - k for j, k in zip(columns, at, strict=True)]
    A = sparse_at(found, np.concatenate(at_rows), np.concatenate(columns), (rows, cols), "coo")
    return A.asformat(format)


@public
def eye(
    m: int,
    n: int | None = None,
    k: int = 0,
    dtype: DTypeLike = np.float64,
    format: Format | None = None,
) -> SparseArray:
    """The identity, or ones on the k-th diagonal, as a sparse array: `eye_array`, by place.

        A[i, i + k] = 1

    Parameters
    ----------
    m, n, k : int
        Rows, columns and the diagonal, as in `eye_array`.
    dtype, format : optional
        As in `eye_array`.

    Returns
    -------
    A : SparseArray (m, n)

    Raises
    ------
    ValueError, TypeError
        As in `eye_array`.

    Notes
    -----
    A constant: differentiable in its `.data`, like every sparse array.
    Cost: one array of ones.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.eye(2).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    return eye_array(m, n, k=k, dtype=dtype, format=format)


@public
def identity(
    n: int,
    dtype: DTypeLike = np.float64,
    format: Format | None = None,
    *,
    like: AnyArray | None = None,
) -> SparseArray:
    """The identity matrix as a sparse array.

    Parameters
    ----------
    n : int
        The number of rows, and of columns.
    dtype, format, like : optional
        As in `eye_array`.

    Returns
    -------
    I : SparseArray (n, n)

    Raises
    ------
    ValueError, TypeError
        As in `eye_array`.

    Notes
    -----
    A constant: differentiable in its `.data`, like every sparse array. Cost: one array of ones.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.identity(2, format="csr").toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    return eye_array(require_int("n", n, 0), dtype=dtype, format=format, like=like)
