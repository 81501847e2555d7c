"""Sparse arrays from their entries, and from other matrices, under SciPy's names.

Values are arrays of the user's framework; indices may come from any framework.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np

from ldiv.core.arrays.shapes import eps, real
from ldiv.core.arrays.typing import AnyArray, IndexLike
from ldiv.core.arrays.validate import as_float, require_flag, require_shape, require_two_dimensions
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, namespace, own, sparse_home
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.entries import Format, compressed, coordinates
from ldiv.matrices.foreign_entries import entries_of
from ldiv.matrices.matrix import Matrix, accept
from ldiv.matrices.sparse_array import SparseArray, sparse_at
from ldiv.matrices.sparse_indexing import all_of
from ldiv.structures.placed import Placed


def _parts(name: str, what: str, arg: tuple[Any, ...], count: int) -> Any:
    if len(arg) != count:
        raise type_error(name, f"{what} or a matrix", shown(arg), "Give all of them.")
    return arg


def _converted(name: str, x: Any, shape: tuple[int, int] | None, format: Format) -> SparseArray:
    """Convert a matrix to this format, and check its shape."""
    A = as_sparse(name, x)
    if shape is not None and require_shape("shape", shape) != tuple(A.shape[-2:]):
        raise value_error("shape", f"that of the matrix, {A.shape[-2:]}", shape, "Leave it out.")
    return A.asformat(format)


def _nothing(arg: Any) -> Any:
    """The matrix without entries that a pair of integers asks for; anything else as it is."""
    if isinstance(arg, tuple) and len(arg) == 2 and all(isinstance(s, Integral) for s in arg):
        return sparse_at(*coordinates("", np.zeros(0), ([], []), arg))
    return arg


def _are_two(at: Any) -> bool:
    """Rows and columns."""
    if isinstance(at, tuple | list):
        return len(at) == 2
    return is_array(at) and tuple(at.shape[:1]) == (2,)


def _finished(A: SparseArray, dtype: Any, copy: Any) -> SparseArray:
    """Convert to the requested dtype, and copy the values if that was requested."""
    if require_flag("copy", copy):
        A = A.copy()
    return A if dtype is None else A.astype(dtype)


@public
def coo_array(
    arg: tuple[AnyArray, tuple[IndexLike, ...] | AnyArray] | tuple[int, int] | AnyArray,
    shape: tuple[int, int] | None = None,
    dtype: Any = None,
    copy: bool = False,
) -> SparseArray:
    """A sparse array from values, rows and columns, in coordinate format.

        A[i, j] = sum of all values[e] with rows[e] = i and columns[e] = j

    Parameters
    ----------
    arg : tuple (values, (rows, columns)), a pair of integers (m, n), or a matrix
        values (*batch, nnz), of float32, float64, complex64 or complex128; rows and columns (nnz,),
        integers of any framework, in any order; or both as one NumPy array (2, nnz). A pair
        (m, n) is a matrix of this shape without entries. A matrix is whatever `asarray` takes:
        sparse or dense, of which all entries are kept.
    shape : tuple of two ints, optional
        Found from the largest indices where it is absent.
    dtype : optional
        That of the values, of their framework or by NumPy's name; by default their own.
    copy : bool, default False
        Copy the values of PyTorch, too, so that later writes to them do not change the matrix.

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
    The matrix has copies of the indices and of NumPy's values, so that SciPy may sort and prune a
    matrix that shares them; tensors are shared, unless they are constants in memory of NumPy.
    Cost: the indices are checked, copied and hashed; the values are copied or shared.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.coo_array((np.array([1.0, 2.0, 3.0]), ([0, 0, 1], [0, 0, 1])), shape=(2, 2)).toarray()
    array([[3., 0.],
           [0., 3.]])
    """
    arg = _nothing(arg)
    if not isinstance(arg, tuple):
        return _finished(_converted("coo_array", arg, shape, "coo"), dtype, copy)
    what = "(values, (rows, columns))"
    values, at = _parts("coo_array", what, arg, 2)
    if not _are_two(at):
        raise type_error(
            "coo_array", what, f"{shown(at)} for the second", "Rows and columns are two vectors."
        )
    found = sparse_at(*coordinates("", _own_values("values", values), at, shape))
    return _finished(found, dtype, copy)


@public
def csr_array(
    arg: tuple[AnyArray, IndexLike, IndexLike] | tuple[AnyArray, Any] | AnyArray,
    shape: tuple[int, int] | None = None,
    dtype: Any = None,
    copy: bool = False,
) -> SparseArray:
    """A sparse array from compressed rows.

        A[i, indices[e]] = sum of values[e],    indptr[i] <= e < indptr[i + 1]

    Parameters
    ----------
    arg : tuple (values, indices, indptr), a pair of integers (m, n), or a matrix
        values (*batch, nnz); indices (nnz,), the column of each value; indptr (m + 1,), where each
        row begins. (values, (rows, columns)) as in `coo_array`, too: duplicates are added up. A
        pair and a matrix are as in `coo_array`.
    shape : tuple of two ints, optional
        Found from indptr and the largest index where it is absent.
    dtype, copy : optional
        As in `coo_array`.

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
    Values are copied or shared as in `coo_array`.
    Cost: the indices are checked, copied and hashed.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.csr_array((np.array([1.0, 2.0]), [1, 0], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 1.],
           [2., 0.]])
    """
    return _compressed("csr", arg, shape, dtype, copy)


@public
def csc_array(
    arg: tuple[AnyArray, IndexLike, IndexLike] | tuple[AnyArray, Any] | AnyArray,
    shape: tuple[int, int] | None = None,
    dtype: Any = None,
    copy: bool = False,
) -> SparseArray:
    """A sparse array from compressed columns.

        A[indices[e], j] = sum of values[e],    indptr[j] <= e < indptr[j + 1]

    Parameters
    ----------
    arg : tuple (values, indices, indptr), a pair of integers (m, n), or a matrix
        values (*batch, nnz); indices (nnz,), the row of each value; indptr (n + 1,), where each
        column begins. Everything else is as in `csr_array`.
    shape, dtype, copy : optional
        As in `csr_array`.

    Returns
    -------
    A : SparseArray (*batch, m, n)
        Explicit zeros are stored.

    Raises
    ------
    ValueError, TypeError
        As in `csr_array`.

    Notes
    -----
    Differentiable in values, in every mode. Cost: that of `csr_array`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.csc_array((np.array([1.0, 2.0]), [1, 1], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 0.],
           [1., 2.]])
    """
    return _compressed("csc", arg, shape, dtype, copy)


def _compressed(
    format: Literal["csr", "csc"], arg: Any, shape: tuple[int, int] | None, dtype: Any, copy: bool
) -> SparseArray:
    arg = _nothing(arg)
    if not isinstance(arg, tuple):
        return _finished(_converted(f"{format}_array", arg, shape, format), dtype, copy)
    if len(arg) == 2 and _are_two(arg[1]):
        return coo_array(arg, shape, dtype, copy).asformat(format)
    values, indices, indptr = _parts(f"{format}_array", "(values, indices, indptr)", arg, 3)
    values = _own_values("values", values)
    found = sparse_at(*compressed("", values, indices, indptr, shape, format))
    return _finished(found, dtype, copy)


@public
def asarray(x: AnyArray) -> SparseArray:
    """A SparseArray from a sparse matrix of SciPy, PyTorch or JAX, or from a dense array.

    Matrices with more than two axes are a batch: their pattern is the union of all.

    Parameters
    ----------
    x : sparse matrix or dense array
        A SciPy sparse array or matrix, a PyTorch sparse COO, CSR, CSC, BSR or BSC tensor, a JAX
        BCOO or BCSR, or a dense array (*batch, m, n). A SparseArray is returned as it is, a matrix
        that is made of others, as by `kron`, is written out.

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
    Differentiable in the values. The matrix has copies of the indices and of NumPy's and SciPy's
    values, which stay what they are whatever SciPy does to its matrix; tensors are shared as in
    `coo_array`.
    Under `jax.jit` the indices of a BCOO or BCSR must not be arguments, as they may be in `solve`; a
    SparseArray can be one.
    A warning about PyTorch itself: in 2.13 the backward passes of `torch.sparse_csr_tensor(...)`
    and of `torch.mm` with a sparse operand allocate n x n numbers (12 GB at n = 40,000). Nothing in
    ldiv uses these passes: an array made with `ldiv.csr_array((values, indices, indptr))` does not
    need them.

    Cost: the indices are copied to the host and checked; nothing is factored.

    Examples
    --------
    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> ldiv.asarray(sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]])))
    <SparseArray (2, 2) float64, nnz=2 (50%), csr, numpy>
    """
    return as_sparse("asarray", x)


def as_sparse(name: str, x: Any) -> SparseArray:
    """Convert an argument of this name as `asarray` does."""
    if isinstance(x, SparseArray):
        return x
    if (found := sparse_of(name, x)) is not None:
        return found
    if isinstance(x, Matrix):
        return x.tosparse()
    x = _own_values(name, x)
    require_two_dimensions(name, x)
    m, n = x.shape[-2:]
    return SparseArray(all_of((m, n)), namespace(x).reshape(x, (*x.shape[:-2], m * n)), "coo")


def sparse_of(name: str, x: Any) -> SparseArray | None:
    """A sparse matrix of another library; None for anything else."""
    if (found := entries_of(name, x)) is None:
        return None
    return sparse_at(_own_values(f"values of {name}", found.values), *found[1:])


def _own_values(name: str, values: Any) -> Array:
    return own(as_float(name, values))


def matrix_of(name: str, x: Any) -> Matrix | None:
    """A sparse matrix of another library; its places are parameters where they are no numbers yet."""
    if (home := sparse_home(x)) is None or (parts := home.sparse_parts(name, x)).unknown is None:
        return sparse_of(name, x)
    values = _own_values(f"values of {name}", parts.values)
    m, n = parts.shape[-2:]
    if max(m, n) * eps(values) > 2:  # floating numbers would not tell the rows apart
        raise parts.unknown
    places = (namespace(values).astype(i, real(values).dtype) for i in parts.at)
    return Matrix(Placed((m, n), values.shape[-1]), (values, *places))


accept(matrix_of)
