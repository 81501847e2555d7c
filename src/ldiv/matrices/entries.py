"""The entries of a sparse matrix of any library, as (values, rows, columns).

Every index is checked here; code below relies on it.
Compressed rows: entries indptr[i] .. indptr[i + 1] - 1 are those of row i, at the columns
`indices`; 0 = indptr[0] <= ... <= indptr[-1] = nnz.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse

from ldiv.core.array_protocol import Array
from ldiv.core.dispatch import asnumpy, is_array, namespace, sparse_home
from ldiv.core.frontend import Parts
from ldiv.core.pattern import Index
from ldiv.core.validate import (
    LARGEST,
    require_memory,
    require_numbers,
    require_shape,
    require_unmasked,
)
from ldiv.errors import expected_got

COMPRESSED = {"csr": 0, "csc": 1}  # the major axis
Format = Literal["coo", "csr", "csc"]


class Entries(NamedTuple):
    values: Array
    rows: Index
    cols: Index
    shape: tuple[int, int]
    format: Format


def entries_of(name: str, x: Any) -> Entries | None:
    """The entries of a sparse matrix of SciPy, PyTorch or JAX; None for anything else."""
    if scipy.sparse.issparse(x):
        return _of_scipy(name, x)
    if (home := sparse_home(x)) is not None:
        return _of_framework(name, home.sparse_parts(name, x))
    return None


def coordinates(of: str, values: Array, at: Any, shape: Any = None) -> Entries:
    """Checked entries in coordinate format; without a shape the largest indices give it."""
    rows, cols = index_vector(f"rows{of}", at[0]), index_vector(f"columns{of}", at[1])
    if len(rows) != len(cols):
        raise ValueError(
            expected_got(
                f"indices{of}",
                "as many rows as columns",
                f"{len(rows)} and {len(cols)}",
                "Each entry has one of each.",
            )
        )
    if shape is None:
        if not len(rows):
            raise ValueError(
                expected_got(
                    "shape", "(rows, columns) where there are no entries", "None", "Pass it."
                )
            )
        shape = int(rows.max()) + 1, int(cols.max()) + 1
    m, n = require_shape("shape", shape)
    _require_range(f"rows{of}", rows, m)
    _require_range(f"columns{of}", cols, n)
    require_values(f"values{of}", values, len(rows))
    return Entries(values, rows, cols, (m, n), "coo")


def compressed(
    of: str, values: Array, indices: Any, indptr: Any, shape: Any, format: Any
) -> Entries:
    """Checked entries in compressed format; without a shape indptr and indices give it."""
    major = COMPRESSED[format]
    order = "The order is (data, indices, indptr), as SciPy has it."
    indices = index_vector(f"indices{of}", indices, order)
    indptr = index_vector(f"indptr{of}", indptr, order)
    if (
        not len(indptr)
        or indptr[0] != 0
        or indptr[-1] != len(indices)
        or (indptr[1:] < indptr[:-1]).any()
    ):
        advice = "It counts the indices."
        raise ValueError(
            expected_got(
                f"indptr{of}",
                f"0 = indptr[0] <= ... <= indptr[-1] = {len(indices)}",
                f"{indptr[:5].tolist()} ...",
                advice,
            )
        )
    if shape is None:
        minor = int(indices.max()) + 1 if len(indices) else 0
        shape = (len(indptr) - 1, minor) if major == 0 else (minor, len(indptr) - 1)
    shape = require_shape("shape", shape)
    if len(indptr) != shape[major] + 1:
        advice = "One more than rows (csr) or columns (csc)."
        raise ValueError(
            expected_got(
                f"indptr{of}",
                f"{shape[major] + 1} numbers for shape {shape}",
                str(len(indptr)),
                advice,
            )
        )
    _require_range(f"indices{of}", indices, shape[1 - major])
    require_values(f"values{of}", values, len(indices))
    outer = np.repeat(np.arange(shape[major]), np.diff(indptr.astype(np.int64)))
    rows, cols = (outer, indices) if major == 0 else (indices, outer)
    return Entries(values, rows, cols, shape, format)


def index_vector(name: str, i: Any, advice: str = "A dense mask M gives np.nonzero(M).") -> Index:
    """A vector of integers on the host, as int32 or int64.

    Differences of smaller or unsigned integers would wrap around.
    """
    require_unmasked(name, i)
    if is_array(i):
        i = asnumpy(require_numbers(name, i))
    try:
        host = np.asarray(i)
    except Exception:  # ragged lists, or objects of unknown classes
        host = np.empty((), object)
    if host.size == 0:
        host = host.astype(np.int64)
    if host.dtype.kind not in "iu" or host.ndim != 1:
        raise TypeError(
            expected_got(name, "a vector of integers", f"{host.ndim} axes of {host.dtype}", advice)
        )
    if len(host) and host.max() > LARGEST:
        raise ValueError(
            expected_got(
                name, f"indices up to {LARGEST}", str(host.max()), "Indices are int32 or int64."
            )
        )
    return host if host.dtype in (np.int32, np.int64) else host.astype(np.int64)


def _require_range(name: str, i: Index, size: int) -> None:
    if len(i) and (i.min() < 0 or i.max() >= size):
        raise ValueError(
            expected_got(
                name,
                f"indices in 0 .. {size - 1}",
                f"{i.min()} .. {i.max()}",
                "Negative indices do not count from the end here.",
            )
        )


def require_values(name: str, values: Array, nnz: int) -> None:
    if values.ndim == 0 or values.shape[-1] != nnz:
        expected = f"shape (..., {nnz}), one for each entry of the pattern"
        raise ValueError(
            expected_got(name, expected, str(tuple(values.shape)), "Keep the order of the pattern.")
        )


# -- matrices of other libraries, whose arrays may be inconsistent ------------


def _of_scipy(name: str, x: Any) -> Entries:
    of = f" of {name}"
    if x.ndim != 2:
        raise ValueError(
            expected_got(name, "a sparse matrix with two axes", f"{x.ndim}", "Reshape it first.")
        )
    if x.format in COMPRESSED:
        return compressed(of, x.data, x.indices, x.indptr, x.shape, x.format)
    if x.format == "coo":
        return coordinates(of, x.data, x.coords, x.shape)
    if x.format == "lil":  # a conversion by SciPy would not check the lists
        rows = np.repeat(np.arange(len(x.rows)), [len(row) for row in x.rows])
        return coordinates(
            of, np.array([*chain(*x.data)], x.dtype), (rows, [*chain(*x.rows)]), x.shape
        )
    if x.format == "bsr":
        return _of_blocks(of, x.data, x.indices, x.indptr, x.shape)
    try:
        coo = x.tocoo()
    except Exception as error:
        raise ValueError(
            expected_got(
                name,
                "a sparse matrix with consistent arrays",
                f"one that SciPy cannot convert: {error}",
                "Make it anew.",
            )
        ) from error
    return coordinates(of, coo.data, coo.coords, coo.shape)


def _of_blocks(of: str, data: Array, indices: Any, indptr: Any, shape: tuple[int, int]) -> Entries:
    """Block compressed rows, with blocks of r x c.

    Block (i, j) holds the rows i r .. i r + r - 1 and the columns j c .. j c + c - 1.
    """
    if data.ndim != 3 or 0 in data.shape[1:]:
        raise ValueError(
            expected_got(
                f"data{of}", "blocks (number, rows, columns)", str(data.shape), "Make it anew."
            )
        )
    r, c = data.shape[1:]
    blocks = compressed(of, data[:, 0, 0], indices, indptr, (shape[0] // r, shape[1] // c), "csr")
    inner_rows, inner_cols = np.indices((r, c))
    rows, cols = (
        i.astype(np.int64)[:, None, None] * size + inner
        for i, size, inner in ((blocks.rows, r, inner_rows), (blocks.cols, c, inner_cols))
    )
    return coordinates(
        of, namespace(data).reshape(data, (-1,)), (rows.ravel(), cols.ravel()), shape
    )


def _of_framework(name: str, x: Parts) -> Entries:
    of = f" of {name}"
    own = x.values.ndim - (3 if x.format == "bsr" else 1)
    if len(x.shape) != 2 or own:
        came = (
            f"{len(x.shape) - own} sparse and {own} dense axes" if own else f"{len(x.shape)} axes"
        )
        advice = "Make it with coo_array or csr_array: batch axes belong to the values."
        raise ValueError(expected_got(name, "a matrix of numbers", came, advice))
    require_memory(name, x.values)
    if x.format == "bsr":
        return _of_blocks(of, x.values, *x.at, x.shape)
    if x.format in COMPRESSED:
        return compressed(of, x.values, *x.at, x.shape, x.format)
    found = coordinates(of, x.values, x.at, x.shape)
    return found if x.merged is None else _of_framework(name, x.merged())
