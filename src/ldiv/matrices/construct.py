"""Constructors of sparse arrays under SciPy's names; values are arrays of your framework,
indices may come from any.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ldiv.core.arrays import alike, batch_of, broadcast
from ldiv.core.dispatch import is_array, namespace
from ldiv.core.pattern import Pattern
from ldiv.core.public import public
from ldiv.core.trees import Array
from ldiv.core.validate import (
    DTYPES,
    require_array,
    require_batches,
    require_float,
    require_int,
    require_shape,
    together,
)
from ldiv.errors import got, shown
from ldiv.matrices.entries import compressed, coordinates, entries_of
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse

Index = np.ndarray[Any, np.dtype[Any]]
_made: weakref.WeakValueDictionary[Pattern, Sparse] = weakref.WeakValueDictionary()


def _sparse(
    values: Array, rows: Index, cols: Index, shape: tuple[int, int], format: str
) -> SparseArray:
    """Equal patterns share one structure, so that rebuilding an array in a loop keeps its
    symbolic work.
    """
    pattern = Pattern(rows, cols, shape)
    structure = _made.get(pattern)
    if structure is None:
        structure = _made.setdefault(pattern, Sparse(pattern))
    return SparseArray(structure, values, format)


def _parts(name: str, what: str, arg: Any, count: int) -> Any:
    if not isinstance(arg, tuple | list) or len(arg) != count:
        raise TypeError(got(name, what, shown(arg), "For another matrix use ldiv.asarray."))
    return arg


@public
def coo_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from (values, (rows, columns)): A[i, j] = sum of the values e with row_e = i,
    column_e = j.

    values: (*batch, nnz), float32, float64, complex64 or complex128; rows, columns: (nnz,) integers
    of any framework. Duplicates add up and each receives its cotangent (assembly); explicit zeros
    stay; any order. Without `shape` the largest indices say it. Differentiable in values in every
    mode, no cost. Raises ValueError for indices out of range or negative.

    >>> import ldiv, numpy as np
    >>> ldiv.coo_array((np.array([1.0, 2.0, 3.0]), ([0, 0, 1], [0, 0, 1])), shape=(2, 2)).toarray()
    array([[3., 0.],
           [0., 3.]])
    """
    what = "(values, (rows, columns))"
    values, at = _parts("coo_array", what, arg, 2)
    if not (
        len(at) == 2
        if isinstance(at, tuple | list)
        else isinstance(at, np.ndarray) and at.shape[:1] == (2,)
    ):
        raise TypeError(
            got(
                "coo_array",
                what,
                f"{shown(at)} for the second",
                "Rows and columns are two vectors.",
            )
        )
    return _sparse(*coordinates("", require_float("values", values), at, shape))


@public
def csr_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from (values, indices, indptr) by rows; otherwise like `coo_array`.

    >>> import ldiv, numpy as np
    >>> ldiv.csr_array((np.array([1.0, 2.0]), [1, 0], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 1.],
           [2., 0.]])
    """
    values, indices, indptr = _parts("csr_array", "(values, indices, indptr)", arg, 3)
    return _sparse(*compressed("", require_float("values", values), indices, indptr, shape, "csr"))


@public
def csc_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """A sparse array from (values, indices, indptr) by columns; otherwise like `coo_array`.

    >>> import ldiv, numpy as np
    >>> ldiv.csc_array((np.array([1.0, 2.0]), [1, 1], [0, 1, 2]), shape=(2, 2)).toarray()
    array([[0., 0.],
           [1., 2.]])
    """
    values, indices, indptr = _parts("csc_array", "(values, indices, indptr)", arg, 3)
    return _sparse(*compressed("", require_float("values", values), indices, indptr, shape, "csc"))


@public
def diags_array(
    diagonals: Any, *, offsets: Any = 0, shape: tuple[int, int] | None = None
) -> SparseArray:
    """A sparse array from its diagonals: A[i, i + offset] = diagonal[i - max(-offset, 0)], as in
    SciPy.

    diagonals: one array (*batch, length), or a sequence of them with a sequence of offsets; a
    length of 1 is repeated.
    Differentiable in the diagonals.

    >>> import ldiv, numpy as np
    >>> ldiv.diags_array([np.array([2.0]), np.array([-1.0, -3.0])], offsets=[0, 1], shape=(3, 3)).toarray()
    array([[ 2., -1.,  0.],
           [ 0.,  2., -3.],
           [ 0.,  0.,  2.]])
    """
    single = is_array(diagonals)
    if not (single or isinstance(diagonals, tuple | list)):
        raise TypeError(
            got(
                "diagonals",
                "an array or a sequence of arrays",
                shown(diagonals),
                "Each has the offset of the same place.",
            )
        )
    arrays: Sequence[Array] = [diagonals] if single else list(diagonals)
    at = _offsets(offsets)
    if len(arrays) != len(at) or len(set(at)) < len(at) or not arrays:
        raise ValueError(
            got(
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
                got("diagonals", "arrays (..., length)", "a scalar", "Use an array of length 1.")
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
                got(
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
    return _sparse(data, np.concatenate(rows), np.concatenate(cols), (m, n), "coo")


@public
def eye_array(
    m: int, n: int | None = None, *, k: int = 0, dtype: Any = np.float64, like: Array | None = None
) -> SparseArray:
    """The identity, or ones on the k-th diagonal, as a sparse array; `like` an array of your
    framework, dtype and device.

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
            got(
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
    return _sparse(
        ones, np.arange(length) + max(-k, 0), np.arange(length) + max(k, 0), (m, n), "coo"
    )


@public
def asarray(x: Any) -> SparseArray:
    """A SparseArray from a SciPy sparse array or matrix, a PyTorch sparse COO, CSR or CSC tensor, a
    JAX BCOO or BCSR, or a dense array.

    A dense array keeps all its entries: the pattern never depends on values. Differentiable in the
    values. Under `jax.jit` the indices of a BCOO or BCSR must not be arguments; a SparseArray can
    be one. For PyTorch tensors there is a warning about PyTorch itself: in 2.13 the backward passes
    of `torch.sparse_csr_tensor(...)` and of `torch.mm` with a sparse operand allocate n x n numbers
    (12 GB at n = 40,000). ldiv never goes through them; make the array with
    `ldiv.csr_array((values, indices, indptr))` and their backward is not needed.

    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> ldiv.asarray(sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]])))
    <SparseArray (2, 2) float64, nnz=2, csr>
    """
    if isinstance(x, SparseArray):
        return x
    if (found := entries_of("asarray", x)) is not None:
        require_float("values", found.values)
        return _sparse(*found)
    if isinstance(x, Matrix):
        raise TypeError(
            got(
                "asarray",
                "a sparse matrix or an array",
                repr(x),
                "Its entries are not at hand: it is a matrix as it is.",
            )
        )
    if require_float("asarray", x).ndim < 2:
        raise ValueError(
            got(
                "asarray",
                "a matrix (..., m, n)",
                f"shape {tuple(x.shape)}",
                "Add the missing axis.",
            )
        )
    m, n = x.shape[-2:]
    rows, cols = (i.ravel() for i in np.indices((m, n)))
    return _sparse(namespace(x).reshape(x, (*x.shape[:-2], m * n)), rows, cols, (m, n), "coo")


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
