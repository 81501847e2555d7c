"""The entries of sparse matrices, as (values, rows, columns).

Every index is checked here; code below relies on it.
Compressed rows: entries indptr[i] .. indptr[i + 1] - 1 are those of row i, at the columns
`indices`; 0 = indptr[0] <= ... <= indptr[-1] = nnz.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ldiv.core.arrays.validate import LARGEST, require_numbers, require_shape, require_unmasked
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, is_array
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import type_error, value_error

COMPRESSED = {"csr": 0, "csc": 1}  # the major axis
Format = Literal["coo", "csr", "csc"]


class Entries(NamedTuple):
    values: Array
    rows: Index
    cols: Index
    shape: tuple[int, int]
    format: Format


def coordinates(of: str, values: Array, at: Any, shape: Any = None) -> Entries:
    """Checked entries in coordinate format; without a shape the largest indices give it."""
    rows, cols = index_vector(f"rows{of}", at[0]), index_vector(f"columns{of}", at[1])
    if len(rows) != len(cols):
        what, advice = "as many rows as columns", "Each entry has one of each."
        raise value_error(f"indices{of}", what, f"{len(rows)} and {len(cols)}", advice)
    if shape is None:
        if not len(rows):
            raise value_error(
                "shape", "(rows, columns) where there are no entries", "None", "Pass it."
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
    if not _counts(indptr, indices):
        swapped = f"indices{of} and indptr{of} are swapped. {order}"
        raise value_error(
            f"indptr{of}",
            f"0 = indptr[0] <= ... <= indptr[-1] = {len(indices)}",
            f"{indptr[:5].tolist()} ...",
            swapped if _counts(indices, indptr) else "It counts the indices.",
        )
    if shape is None:
        minor = int(indices.max()) + 1 if len(indices) else 0
        shape = (len(indptr) - 1, minor) if major == 0 else (minor, len(indptr) - 1)
    shape = require_shape("shape", shape)
    if len(indptr) != shape[major] + 1:
        advice = "One more than rows (csr) or columns (csc)."
        raise value_error(
            f"indptr{of}", f"{shape[major] + 1} numbers for shape {shape}", len(indptr), advice
        )
    _require_range(f"indices{of}", indices, shape[1 - major])
    require_values(f"values{of}", values, len(indices))
    outer = np.repeat(np.arange(shape[major]), np.diff(indptr.astype(np.int64)))
    rows, cols = (outer, indices) if major == 0 else (indices, outer)
    return Entries(values, rows, cols, shape, format)


def _counts(indptr: Index, indices: Index) -> bool:
    """Whether indptr can be the places in `indices` where rows, or columns, begin."""
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(indices):
        return False
    return not (indptr[1:] < indptr[:-1]).any()


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
        raise type_error(name, "a vector of integers", f"{host.ndim} axes of {host.dtype}", advice)
    if len(host) and host.max() > LARGEST:
        raise value_error(
            name, f"indices up to {LARGEST}", host.max(), "Indices are int32 or int64."
        )
    return host if host.dtype in (np.int32, np.int64) else host.astype(np.int64)


def _require_range(name: str, i: Index, size: int) -> None:
    if len(i) and (i.min() < 0 or i.max() >= size):
        advice = "Negative indices do not count from the end here."
        raise value_error(name, f"indices in 0 .. {size - 1}", f"{i.min()} .. {i.max()}", advice)


def require_values(name: str, values: Array, nnz: int) -> None:
    if values.ndim == 0 or values.shape[-1] != nnz:
        expected = f"shape (..., {nnz}), one for each entry of the pattern"
        raise value_error(name, expected, tuple(values.shape), "Keep the order of the pattern.")
