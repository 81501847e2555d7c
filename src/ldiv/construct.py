"""Constructors of sparse arrays under SciPy's names; values are arrays of your framework, indices may come from any."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ldiv.arrays import alike
from ldiv.errors import got
from ldiv.pattern import Pattern
from ldiv.rule import Array, asnumpy, is_array, namespace, public
from ldiv.sparse import SparseArray
from ldiv.structures.sparse import Sparse
from ldiv.validate import require_float, require_unmasked

Index = np.ndarray[Any, np.dtype[Any]]
LARGEST = int(np.iinfo(np.int64).max)
_made: weakref.WeakValueDictionary[Pattern, Sparse] = weakref.WeakValueDictionary()


def _sparse(values: Array, rows: Index, cols: Index, shape: tuple[int, int], format: str) -> SparseArray:
    """Equal patterns share one structure, so that rebuilding an array in a loop keeps its symbolic work."""
    require_float("values", values)
    pattern = Pattern(rows, cols, shape)
    structure = _made.get(pattern)
    if structure is None:
        structure = _made.setdefault(pattern, Sparse(pattern))
    return SparseArray(structure, values, format)


def _index(name: str, i: Any) -> Index:
    require_unmasked(name, i)
    host = np.asarray(asnumpy(i) if is_array(i) else i)
    if host.size == 0:
        host = host.astype(np.int64)
    if host.dtype.kind not in "iu" or host.ndim != 1:
        raise TypeError(got(name, "a vector of integers", f"{host.ndim} axes of {host.dtype}", "Indices are int32 or int64."))
    if len(host) and host.max() > LARGEST:
        raise ValueError(got(name, f"indices up to {LARGEST}", str(host.max()), "Indices are int32 or int64."))
    return host if host.dtype in (np.int32, np.int64) else host.astype(np.int64)  # differences of small or unsigned ones wrap around


def _require_range(name: str, i: Index, size: int) -> None:
    if len(i) and (i.min() < 0 or i.max() >= size):
        raise ValueError(got(name, f"indices in 0 .. {size - 1}", f"{i.min()} .. {i.max()}", "Negative indices do not count from the end here."))


def _shape(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2 or any(int(s) != s or s < 0 for s in shape):
        raise ValueError(got("shape", "(rows, columns)", repr(shape), "Batch axes belong to the values."))
    if max(shape) > LARGEST:
        raise ValueError(got("shape", f"at most {LARGEST} rows and columns", repr(shape), "Indices are int32 or int64."))
    return int(shape[0]), int(shape[1])


@public
def coo_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from (values, (rows, columns)): A[i, j] = sum of the values e with row_e = i, column_e = j.

    values: (*batch, nnz), float32, float64, complex64 or complex128; rows, columns: (nnz,) integers of any framework.
    Duplicates add up and each receives its cotangent (assembly); explicit zeros stay; any order. Without `shape` the largest
    indices say it. Differentiable in values in every mode, no cost. Raises ValueError for indices out of range or negative.

    >>> import ldiv, numpy as np
    >>> ldiv.coo_array((np.array([1.0, 2.0, 3.0]), ([0, 0, 1], [0, 0, 1])), shape=(2, 2)).toarray()
    array([[3., 0.],
           [0., 3.]])
    """
    try:
        values, (rows, cols) = arg
    except (TypeError, ValueError):
        raise TypeError(got("coo_array", "(values, (rows, columns))", type(arg).__name__, "For another matrix use ldiv.asarray.")) from None
    rows, cols = _index("rows", rows), _index("columns", cols)
    if len(rows) != len(cols):
        raise ValueError(got("indices", "as many rows as columns", f"{len(rows)} and {len(cols)}", "Each entry has one of each."))
    if shape is None:
        if not len(rows):
            raise ValueError(got("shape", "(rows, columns) where there are no entries", "None", "Pass it."))
        shape = int(rows.max()) + 1, int(cols.max()) + 1
    shape = _shape(shape)
    _require_range("rows", rows, shape[0])
    _require_range("columns", cols, shape[1])
    return _sparse(values, rows, cols, shape, "coo")


def _compressed(name: str, arg: Any, shape: tuple[int, int] | None, major: int) -> tuple[Array, Index, Index, tuple[int, int]]:
    try:
        values, indices, indptr = arg
    except (TypeError, ValueError):
        raise TypeError(got(name, "(values, indices, indptr)", type(arg).__name__, "For another matrix use ldiv.asarray.")) from None
    indices, indptr = _index("indices", indices), _index("indptr", indptr)
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(
            got("indptr", f"0 = indptr[0] <= ... <= indptr[-1] = {len(indices)}", str(indptr[:5].tolist()) + " ...", "It counts the indices.")
        )
    if shape is None:
        minor = int(indices.max()) + 1 if len(indices) else 0
        shape = (len(indptr) - 1, minor) if major == 0 else (minor, len(indptr) - 1)
    shape = _shape(shape)
    if len(indptr) != shape[major] + 1:
        raise ValueError(
            got("indptr", f"{shape[major] + 1} numbers for shape {shape}", str(len(indptr)), "One more than rows (csr) or columns (csc).")
        )
    _require_range("indices", indices, shape[1 - major])
    return values, indices, np.repeat(np.arange(shape[major]), np.diff(indptr)), shape


@public
def csr_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from (values, indices, indptr) by rows; otherwise like `coo_array`.

    >>> import ldiv, numpy as np
    >>> ldiv.csr_array((np.array([1.0, 2.0]), [1, 0], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 1.],
           [2., 0.]])
    """
    values, cols, rows, shape = _compressed("csr_array", arg, shape, 0)
    return _sparse(values, rows, cols, shape, "csr")


@public
def csc_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from (values, indices, indptr) by columns; otherwise like `coo_array`.

    >>> import ldiv, numpy as np
    >>> ldiv.csc_array((np.array([1.0, 2.0]), [1, 1], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 0.],
           [1., 2.]])
    """
    values, rows, cols, shape = _compressed("csc_array", arg, shape, 1)
    return _sparse(values, rows, cols, shape, "csc")


@public
def diags_array(diagonals: Any, *, offsets: Any = 0, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from its diagonals: A[i, i + offset] = diagonal[i - max(-offset, 0)], as in SciPy.

    diagonals: one array (*batch, length), or a sequence of them with a sequence of offsets; a length of 1 is repeated.
    Differentiable in the diagonals.

    >>> import ldiv, numpy as np
    >>> ldiv.diags_array([np.array([2.0]), np.array([-1.0, -3.0])], offsets=[0, 1], shape=(3, 3)).toarray()
    array([[ 2., -1.,  0.],
           [ 0.,  2., -3.],
           [ 0.,  0.,  2.]])
    """
    single = is_array(diagonals)
    arrays: Sequence[Array] = [diagonals] if single else list(diagonals)
    at = [int(k) for k in np.atleast_1d(offsets)]
    if len(arrays) != len(at) or len(set(at)) < len(at) or not arrays:
        raise ValueError(got("diags_array", "one array for each of the different offsets", f"{len(arrays)} and {at}", "Match them."))
    for d in arrays:
        if require_float("diagonals", d).ndim == 0:
            raise ValueError(got("diagonals", "arrays (..., length)", "a scalar", "Use an array of length 1."))
    if shape is None:
        n = max(d.shape[-1] + abs(k) for d, k in zip(arrays, at, strict=True))
        shape = n, n
    m, n = _shape(shape)
    rows, cols, values = [], [], []
    xp = namespace(arrays[0])
    batch = np.broadcast_shapes(*(tuple(d.shape[:-1]) for d in arrays))
    for d, k in zip(arrays, at, strict=True):
        length = max(min(m + min(k, 0), n - max(k, 0)), 0)
        if d.shape[-1] not in (1, length):
            raise ValueError(got(f"the diagonal at {k}", f"length {length} (or 1) for shape {(m, n)}", str(d.shape[-1]), "Cut or extend it."))
        rows.append(np.arange(length) + max(-k, 0))
        cols.append(np.arange(length) + max(k, 0))
        values.append(xp.broadcast_to(d, (*batch, length)))
    data = arrays[0] if len(arrays) == 1 and tuple(arrays[0].shape) == tuple(values[0].shape) else xp.concat(values, axis=-1)
    return _sparse(data, np.concatenate(rows), np.concatenate(cols), (m, n), "coo")


@public
def eye_array(m: int, n: int | None = None, *, k: int = 0, dtype: Any = np.float64, like: Array | None = None) -> SparseArray:
    """The identity, or ones on the k-th diagonal, as a sparse array; `like` an array of your framework, dtype and device.

    >>> import ldiv
    >>> ldiv.eye_array(2).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    m, n = _shape((m, m if n is None else n))
    length = max(min(m + min(k, 0), n - max(k, 0)), 0)
    ones = np.ones(length, dtype=dtype) if like is None else namespace(like).ones(length, **alike(like))
    return _sparse(ones, np.arange(length) + max(-k, 0), np.arange(length) + max(k, 0), (m, n), "coo")


@public
def asarray(x: Any) -> SparseArray:
    """A SparseArray from a SciPy sparse array or matrix, a PyTorch sparse COO, CSR or CSC tensor, a JAX BCOO or BCSR, or a dense array.

    A dense array keeps all its entries: the pattern never depends on values. Differentiable in the values. Under `jax.jit` the
    indices of a BCOO or BCSR must not be arguments; a SparseArray can be one. For PyTorch tensors there is a warning about
    PyTorch itself: in 2.13 the backward passes of `torch.sparse_csr_tensor(...)` and of `torch.mm` with a sparse operand
    allocate n x n numbers (12 GB at n = 40,000). ldiv never goes through them; make the array with
    `ldiv.csr_array((values, indices, indptr))` and their backward is not needed.

    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> ldiv.asarray(sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]])))
    <SparseArray (2, 2) float64, nnz=2, csr>
    """
    if isinstance(x, SparseArray):
        return x
    if scipy.sparse.issparse(x):
        return _from_scipy(x)
    if hasattr(x, "n_sparse"):
        return _from_jax(x)
    layout = str(getattr(x, "layout", "")).rpartition(".")[2]
    if layout == "sparse_coo":
        x = x.coalesce()
        rows, cols = asnumpy(x.indices())
        return _sparse(x.values(), rows, cols, tuple(x.shape), "coo")
    if layout == "sparse_csr":
        return csr_array((x.values(), x.col_indices(), x.crow_indices()), shape=tuple(x.shape))
    if layout == "sparse_csc":
        return csc_array((x.values(), x.row_indices(), x.ccol_indices()), shape=tuple(x.shape))
    if require_float("asarray", x).ndim < 2:
        raise ValueError(got("asarray", "a matrix (..., m, n)", f"shape {tuple(x.shape)}", "Add the missing axis."))
    m, n = x.shape[-2:]
    rows, cols = (i.ravel() for i in np.indices((m, n)))
    return _sparse(namespace(x).reshape(x, (*x.shape[:-2], m * n)), rows, cols, (m, n), "coo")


def _from_jax(x: Any) -> SparseArray:
    """BCOO pads with indices out of range, BCSR behind the last row; the padding is left out."""
    if x.n_batch or x.n_dense:
        raise ValueError(
            got("asarray", "a matrix of numbers", f"{x.n_batch} batch and {x.n_dense} dense axes", "Convert one matrix, under jax.vmap.")
        )
    if hasattr(x, "indptr"):
        indptr = asnumpy(x.indptr)
        return csr_array((x.data[: indptr[-1]], asnumpy(x.indices)[: indptr[-1]], indptr), shape=x.shape)
    indices = asnumpy(x.indices)
    inside = (indices < np.array(x.shape)).all(axis=1)
    values, indices = (x.data, indices) if inside.all() else (x.data[np.flatnonzero(inside)], indices[inside])
    return coo_array((values, (indices[:, 0], indices[:, 1])), shape=x.shape)


def _from_scipy(x: Any) -> SparseArray:
    if x.ndim != 2:
        raise ValueError(got("asarray", "a sparse matrix with two axes", f"{x.ndim}", "Reshape it first."))
    if x.format == "csr":
        return csr_array((x.data, x.indices, x.indptr), shape=x.shape)
    if x.format == "csc":
        return csc_array((x.data, x.indices, x.indptr), shape=x.shape)
    coo = x.tocoo()
    return coo_array((coo.data, (coo.row, coo.col)), shape=coo.shape)
