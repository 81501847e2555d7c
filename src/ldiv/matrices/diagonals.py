"""Sparse arrays from their diagonals, under SciPy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ldiv.core.arrays.shapes import alike, batch_of, broadcast
from ldiv.core.arrays.typing import AnyArray, IndexLike
from ldiv.core.arrays.validate import (
    DTYPES,
    LARGEST,
    as_float,
    require_array,
    require_batches,
    require_float,
    require_int,
    require_shape,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, namespace, own
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.entries import Format
from ldiv.matrices.sparse_array import SparseArray, sparse_at

MOST = LARGEST // 16  # numbers of which no address is too large


@public
def diags_array(
    diagonals: AnyArray | Sequence[AnyArray],
    *,
    offsets: int | IndexLike = 0,
    shape: tuple[int, int] | None = None,
    format: Format | None = None,
    dtype: DTypeLike | None = None,
) -> SparseArray:
    """A sparse array from its diagonals, as in SciPy.

        A[i, i + offset] = diagonal[i - max(-offset, 0)]

    Parameters
    ----------
    diagonals : array (*batch, length), or a sequence of such arrays
        A diagonal of length 1, or a number, is repeated; lists of numbers are arrays of NumPy.
    offsets : int, or a sequence of ints, default 0
        One for each diagonal, all different: 0 is the main diagonal, positive ones lie above it.
    shape : tuple of two ints, optional
        A square matrix that holds the longest diagonal where it is absent.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.
    dtype : dtype, optional
        That of the values; by default the widest of the diagonals.

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
    >>> ldiv.diags_array([2.0, np.array([-1.0, -3.0])], offsets=[0, 1], shape=(3, 3)).toarray()
    array([[ 2., -1.,  0.],
           [ 0.,  2., -3.],
           [ 0.,  0.,  2.]])
    """
    at = offsets_of("offsets", offsets)
    arrays = _arrays(diagonals, at)
    if len(arrays) != len(at) or len(set(at)) < len(at) or not arrays:
        what = "one for each of the diagonals, all different"
        raise value_error("offsets", what, f"{at} for {len(arrays)}", "Match them.")
    batch: tuple[int, ...] = ()
    for d in arrays:
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
            came, advice = d.shape[-1], "Cut or extend it."
            raise value_error(
                f"the diagonal at {k}", f"length {length} (or 1) for shape {(m, n)}", came, advice
            )
        rows.append(np.arange(length) + max(-k, 0))
        cols.append(np.arange(length) + max(k, 0))
        values.append(xp.broadcast_to(d, (*batch, length)))
    data = (
        own(arrays[0])
        if len(arrays) == 1 and tuple(arrays[0].shape) == tuple(values[0].shape)
        else xp.concat(values, axis=-1)
    )
    found = sparse_at(data, np.concatenate(rows), np.concatenate(cols), (m, n), "coo")
    found = found.asformat(format)
    return found if dtype is None else found.astype(dtype)


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
    elif (dtype := dtype_name(dtype)) not in DTYPES:
        advice = "For arrays of another framework give one as `like`."
        raise type_error("dtype", "one of " + ", ".join(DTYPES), dtype, advice)
    length = max(min(m + min(k, 0), n - max(k, 0)), 0)
    if length > MOST:
        raise value_error("m and n", f"at most {MOST} ones", length, "They are stored.")
    ones = (
        np.ones(length, dtype=dtype)
        if like is None
        else namespace(like).ones(length, **alike(like))
    )
    rows = np.arange(length)
    return sparse_at(ones, rows + max(-k, 0), rows + max(k, 0), (m, n), "coo").asformat(format)


def _arrays(diagonals: Any, at: list[int]) -> list[Array]:
    """The diagonals (*batch, length), numbers and lists as constants of the others' framework.

    As in SciPy the numbers of a list are one diagonal where there is one offset.
    """
    if not (isinstance(diagonals, tuple | list) or is_array(diagonals)):
        advice = "Each has the offset of the same place."
        raise type_error("diagonals", "an array or a sequence of arrays", shown(diagonals), advice)
    if is_array(diagonals) or (len(at) == 1 and len(diagonals) > 1 and _is_number(diagonals[0])):
        diagonals = [diagonals]
    others = [d for d in diagonals if is_array(d) and not isinstance(d, np.ndarray)][:1]
    arrays = [as_float("diagonals", d, *others) for d in diagonals]
    return [d[None] if d.ndim == 0 else d for d in arrays]


def _is_number(x: Any) -> bool:
    return not isinstance(x, tuple | list) and np.ndim(x) == 0


def offsets_of(name: str, offsets: Any) -> list[int]:
    """Return the offsets as a list, from one integer, a sequence or an array."""
    if isinstance(offsets, tuple | list) or (
        is_array(offsets) and require_array(name, offsets).ndim == 1
    ):
        return [require_int(name, k) for k in offsets]
    return [require_int(name, offsets)]


def dtype_name(dtype: Any) -> str:
    """The name of a dtype, or of what came instead."""
    try:
        return str(np.dtype(dtype))
    except Exception:
        return shown(dtype)
