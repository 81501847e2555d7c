"""Constructors of sparse arrays under SciPy's names.

Values are arrays of the user's framework; indices may come from any framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ldiv.core.arrays import alike, batch_of, broadcast
from ldiv.core.dispatch import is_array, namespace
from ldiv.core.public import public
from ldiv.core.trees import Array
from ldiv.core.typing import AnyArray, IndexLike
from ldiv.core.validate import (
    DTYPES,
    as_float,
    require_array,
    require_batches,
    require_float,
    require_int,
    require_shape,
    together,
)
from ldiv.errors import expected_got, shown
from ldiv.matrices.entries import compressed, coordinates, entries_of
from ldiv.matrices.matrix import Matrix, accept
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.sparse_indexing import structure_at
from ldiv.matrices.sparse_values import Format

Index = np.ndarray[Any, np.dtype[Any]]


def _sparse(
    values: Array, rows: Index, cols: Index, shape: tuple[int, int], format: Any
) -> SparseArray:
    return SparseArray(structure_at(rows, cols, shape), values, format)


def _parts(name: str, what: str, arg: tuple[Any, ...], count: int) -> Any:
    if len(arg) != count:
        raise TypeError(expected_got(name, f"{what} or a matrix", shown(arg), "Give all of them."))
    return arg


def _converted(name: str, x: Any, shape: tuple[int, int] | None, format: Format) -> SparseArray:
    """Another matrix in this format."""
    A = as_sparse(name, x)
    if shape is not None and tuple(shape) != A.shape[-2:]:
        raise ValueError(
            expected_got(
                "shape", f"that of the matrix, {A.shape[-2:]}", str(shape), "Leave it out."
            )
        )
    return A.asformat(format)


@public
def coo_array(
    arg: tuple[AnyArray, tuple[IndexLike, ...] | AnyArray] | AnyArray,
    shape: tuple[int, int] | None = None,
) -> SparseArray:
    """A sparse array from values, rows and columns, in coordinate format.

        A[i, j] = sum of all values[e] with rows[e] = i and columns[e] = j

    Parameters
    ----------
    arg : tuple (values, (rows, columns)), or a matrix
        values (*batch, nnz), of float32, float64, complex64 or complex128; rows and columns (nnz,),
        integers of any framework, in any order; or both as one NumPy array (2, nnz). A matrix is
        whatever `asarray` takes: sparse or dense, of which all entries are kept.
    shape : tuple of two ints, optional
        Found from the largest indices where it is absent.

    Returns
    -------
    A : SparseArray (*batch, m, n)
        Explicit zeros are stored.

    Raises
    ------
    ValueError
        For indices that are negative or out of range.
    TypeError
        For other tuples, for what is no matrix, and for other dtypes.

    See Also
    --------
    csr_array, csc_array, diags_array, eye_array, asarray

    Notes
    -----
    Differentiable in values, in every mode. Duplicates add up, as in assembly, and each of them
    receives its cotangent.
    Cost: the indices are checked, copied and hashed; the values are not copied.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.coo_array((np.array([1.0, 2.0, 3.0]), ([0, 0, 1], [0, 0, 1])), shape=(2, 2)).toarray()
    array([[3., 0.],
           [0., 3.]])
    """
    if not isinstance(arg, tuple):
        return _converted("coo_array", arg, shape, "coo")
    what = "(values, (rows, columns))"
    values, at = _parts("coo_array", what, arg, 2)
    if not (
        len(at) == 2
        if isinstance(at, tuple | list)
        else isinstance(at, np.ndarray) and at.shape[:1] == (2,)
    ):
        raise TypeError(
            expected_got(
                "coo_array",
                what,
                f"{shown(at)} for the second",
                "Rows and columns are two vectors.",
            )
        )
    return _sparse(*coordinates("", as_float("values", values), at, shape))


@public
def csr_array(
    arg: tuple[AnyArray, IndexLike, IndexLike] | AnyArray, shape: tuple[int, int] | None = None
) -> SparseArray:
    """A sparse array from compressed rows.

        A[i, indices[e]] = sum of values[e],    indptr[i] <= e < indptr[i + 1]

    Parameters
    ----------
    arg : tuple (values, indices, indptr), or a matrix
        values (*batch, nnz); indices (nnz,), the column of each value; indptr (m + 1,), where each
        row begins. A matrix is whatever `asarray` takes.
    shape : tuple of two ints, optional
        Found from indptr and the largest index where it is absent.

    Returns
    -------
    A : SparseArray (*batch, m, n)
        Explicit zeros are stored.

    Raises
    ------
    ValueError
        For indices that are negative or out of range.
    TypeError
        For other tuples, for what is no matrix, and for other dtypes.

    See Also
    --------
    coo_array, csc_array

    Notes
    -----
    Otherwise like `coo_array`: differentiable in values, in every mode; duplicates add up.
    Cost: the indices are checked, copied and hashed; the values are not copied.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.csr_array((np.array([1.0, 2.0]), [1, 0], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 1.],
           [2., 0.]])
    """
    if not isinstance(arg, tuple):
        return _converted("csr_array", arg, shape, "csr")
    values, indices, indptr = _parts("csr_array", "(values, indices, indptr)", arg, 3)
    return _sparse(*compressed("", as_float("values", values), indices, indptr, shape, "csr"))


@public
def csc_array(
    arg: tuple[AnyArray, IndexLike, IndexLike] | AnyArray, shape: tuple[int, int] | None = None
) -> SparseArray:
    """A sparse array from compressed columns.

        A[indices[e], j] = sum of values[e],    indptr[j] <= e < indptr[j + 1]

    Parameters
    ----------
    arg : tuple (values, indices, indptr), or a matrix
        values (*batch, nnz); indices (nnz,), the row of each value; indptr (n + 1,), where each
        column begins. A matrix is whatever `asarray` takes.
    shape : tuple of two ints, optional
        Found from indptr and the largest index where it is absent.

    Returns
    -------
    A : SparseArray (*batch, m, n)
        Explicit zeros are stored.

    Raises
    ------
    ValueError
        For indices that are negative or out of range.
    TypeError
        For other tuples, for what is no matrix, and for other dtypes.

    See Also
    --------
    coo_array, csr_array

    Notes
    -----
    Otherwise like `coo_array`: differentiable in values, in every mode; duplicates add up.
    Cost: the indices are checked, copied and hashed; the values are not copied.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.csc_array((np.array([1.0, 2.0]), [1, 1], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 0.],
           [1., 2.]])
    """
    if not isinstance(arg, tuple):
        return _converted("csc_array", arg, shape, "csc")
    values, indices, indptr = _parts("csc_array", "(values, indices, indptr)", arg, 3)
    return _sparse(*compressed("", as_float("values", values), indices, indptr, shape, "csc"))


@public
def diags_array(
    diagonals: AnyArray | Sequence[AnyArray],
    *,
    offsets: int | IndexLike = 0,
    shape: tuple[int, int] | None = None,
    format: Format | None = None,
) -> SparseArray:
    """A sparse array from its diagonals, as in SciPy.

        A[i, i + offset] = diagonal[i - max(-offset, 0)]

    Parameters
    ----------
    diagonals : array (*batch, length), or a sequence of such arrays
        A diagonal of length 1 is repeated.
    offsets : int, or a sequence of ints, default 0
        One for each diagonal, all different: 0 is the main diagonal, positive ones lie above it.
    shape : tuple of two ints, optional
        A square matrix that holds the longest diagonal where it is absent.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.

    Returns
    -------
    A : SparseArray (*batch, m, n)

    Raises
    ------
    ValueError
        For offsets that do not match the diagonals, and for lengths that do not fit the shape.
    TypeError
        For diagonals that are not arrays, and for mixed frameworks.

    Notes
    -----
    Differentiable in the diagonals, in every mode.
    Cost: a copy of the diagonals, one behind the other; nothing is factored.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> diagonals = [np.array([2.0]), np.array([-1.0, -3.0])]
    >>> ldiv.diags_array(diagonals, offsets=[0, 1], shape=(3, 3)).toarray()
    array([[ 2., -1.,  0.],
           [ 0.,  2., -3.],
           [ 0.,  0.,  2.]])
    """
    if not (isinstance(diagonals, tuple | list) or is_array(diagonals)):
        raise TypeError(
            expected_got(
                "diagonals",
                "an array or a sequence of arrays",
                shown(diagonals),
                "Each has the offset of the same place.",
            )
        )
    arrays: Sequence[Array] = diagonals if isinstance(diagonals, tuple | list) else [diagonals]
    at = _offsets(offsets)
    if len(arrays) != len(at) or len(set(at)) < len(at) or not arrays:
        raise ValueError(
            expected_got(
                "offsets",
                "one for each of the diagonals, all different",
                f"{at} for {len(arrays)}",
                "Match them.",
            )
        )
    batch: tuple[int, ...] = ()
    for d in arrays:
        if require_float("diagonals", d).ndim == 0:
            raise ValueError(
                expected_got(
                    "diagonals", "arrays (..., length)", "a scalar", "Use an array of length 1."
                )
            )
        together("diagonals", d, arrays[0])
        require_batches("diagonals", batch, batch_of(d, 1))
        batch = broadcast(batch, batch_of(d, 1))
    if shape is None:
        n = max(d.shape[-1] + abs(k) for d, k in zip(arrays, at, strict=True))
        shape = n, n
    m, n = require_shape("shape", shape)
    rows, cols, values = [], [], []
    xp = namespace(arrays[0])
    for d, k in zip(arrays, at, strict=True):
        length = max(min(m + min(k, 0), n - max(k, 0)), 0)
        if d.shape[-1] not in (1, length):
            raise ValueError(
                expected_got(
                    f"the diagonal at {k}",
                    f"length {length} (or 1) for shape {(m, n)}",
                    str(d.shape[-1]),
                    "Cut or extend it.",
                )
            )
        rows.append(np.arange(length) + max(-k, 0))
        cols.append(np.arange(length) + max(k, 0))
        values.append(xp.broadcast_to(d, (*batch, length)))
    data = (
        arrays[0]
        if len(arrays) == 1 and tuple(arrays[0].shape) == tuple(values[0].shape)
        else xp.concat(values, axis=-1)
    )
    found = _sparse(data, np.concatenate(rows), np.concatenate(cols), (m, n), "coo")
    return found.asformat(format)


@public
def eye_array(
    m: int,
    n: int | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike = np.float64,
    format: Format | None = None,
    like: AnyArray | None = None,
) -> SparseArray:
    """The identity, or ones on the k-th diagonal, as a sparse array.

        A[i, i + k] = 1

    Parameters
    ----------
    m : int
        The number of rows.
    n : int, optional
        The number of columns; m where it is absent.
    k : int, default 0
        The diagonal: 0 is the main one, positive ones lie above it.
    dtype : dtype, default float64
        float32, float64, complex64 or complex128, for NumPy values.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.
    like : array, optional
        An array whose framework, dtype and device the values get; `dtype` is then not used.

    Returns
    -------
    A : SparseArray (m, n)

    Raises
    ------
    ValueError
        For negative sizes.
    TypeError
        For other dtypes.

    Notes
    -----
    A constant: differentiable in its `.data`, like every sparse array.
    Cost: one array of ones.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.eye_array(2).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    m = require_int("m", m, 0)
    m, n = require_shape("shape", (m, m if n is None else require_int("n", n, 0)))
    k = require_int("k", k)
    if like is not None:
        require_float("like", like)
    elif (dtype := _dtype(dtype)) not in DTYPES:
        raise TypeError(
            expected_got(
                "dtype",
                "one of " + ", ".join(DTYPES),
                dtype,
                "For arrays of another framework give one as `like`.",
            )
        )
    length = max(min(m + min(k, 0), n - max(k, 0)), 0)
    ones = (
        np.ones(length, dtype=dtype)
        if like is None
        else namespace(like).ones(length, **alike(like))
    )
    found = _sparse(
        ones, np.arange(length) + max(-k, 0), np.arange(length) + max(k, 0), (m, n), "coo"
    )
    return found.asformat(format)


@public
def asarray(x: AnyArray) -> SparseArray:
    """A SparseArray from a sparse matrix of SciPy, PyTorch or JAX, or from a dense array.

    Parameters
    ----------
    x : sparse matrix or dense array
        A SciPy sparse array or matrix, a PyTorch sparse COO, CSR or CSC tensor, a JAX BCOO or BCSR,
        or a dense array (*batch, m, n). A SparseArray is returned as it is.

    Returns
    -------
    A : SparseArray
        A dense array keeps all its entries: the pattern never depends on values.

    Raises
    ------
    ValueError
        For inconsistent or out-of-range indices, and for an array with fewer than two axes.
    TypeError
        For a matrix whose entries are not stored, and for other layouts and dtypes.

    Notes
    -----
    Differentiable in the values.
    Under `jax.jit` the indices of a BCOO or BCSR must not be arguments; a SparseArray can be one.
    A warning about PyTorch itself: in 2.13 the backward passes of `torch.sparse_csr_tensor(...)`
    and of `torch.mm` with a sparse operand allocate n x n numbers (12 GB at n = 40,000). ldiv never
    goes through them; make the array with `ldiv.csr_array((values, indices, indptr))` and their
    backward is not needed.
    Cost: the indices are copied to the host and checked; nothing is factored.

    Examples
    --------
    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> ldiv.asarray(sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]])))
    <SparseArray (2, 2) float64, nnz=2 (50%), csr, numpy>
    """
    return as_sparse("asarray", x)


def as_sparse(name: str, x: Any) -> SparseArray:
    """What `asarray` makes of an argument of this name."""
    if isinstance(x, SparseArray):
        return x
    if (found := sparse_of(name, x)) is not None:
        return found
    if isinstance(x, Matrix):
        raise TypeError(
            expected_got(
                name,
                "a sparse matrix or an array",
                repr(x),
                "Its entries are not at hand: it is a matrix as it is.",
            )
        )
    x = as_float(name, x)
    if x.ndim < 2:
        raise ValueError(
            expected_got(
                name, "a matrix (..., m, n)", f"shape {tuple(x.shape)}", "Add the missing axis."
            )
        )
    m, n = x.shape[-2:]
    rows, cols = (i.ravel() for i in np.indices((m, n)))
    return _sparse(namespace(x).reshape(x, (*x.shape[:-2], m * n)), rows, cols, (m, n), "coo")


def sparse_of(name: str, x: Any) -> SparseArray | None:
    """A sparse matrix of another library; None for anything else."""
    if (found := entries_of(name, x)) is None:
        return None
    return _sparse(as_float(f"values of {name}", found.values), *found[1:])


accept(sparse_of)


def _offsets(offsets: Any) -> list[int]:
    """One number, or a sequence or an array of them."""
    if isinstance(offsets, tuple | list) or (
        is_array(offsets) and require_array("offsets", offsets).ndim == 1
    ):
        return [require_int("offsets", k) for k in offsets]
    return [require_int("offsets", offsets)]


def _dtype(dtype: Any) -> str:
    try:
        return str(np.dtype(dtype))
    except Exception:
        return shown(dtype)
