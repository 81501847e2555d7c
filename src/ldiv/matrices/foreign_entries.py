"""The entries of a sparse matrix of any library, or of a batch of them.

    A[k] has its entries at (i, j) of its own;    all have theirs at the union, zero where they have none

The arrays may be inconsistent: every index is checked (`entries`).
"""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any

import numpy as np
import scipy.sparse

from ldiv.core.arrays.validate import require_memory, require_numbers
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, is_array, namespace, scatter, sparse_home
from ldiv.core.frameworks.frontend import Parts
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import value_error
from ldiv.matrices.entries import COMPRESSED, Entries, Format, compressed, coordinates

BLOCKS: dict[str, Format] = {"bsr": "csr", "bsc": "csc"}


def entries_of(name: str, x: Any) -> Entries | None:
    """The entries of a sparse matrix of SciPy, PyTorch or JAX; None for anything else."""
    if scipy.sparse.issparse(x):
        return _of_scipy(name, x)
    if (home := sparse_home(x)) is not None:
        return _of_framework(name, home.sparse_parts(name, x))
    return None


def _of_scipy(name: str, x: Any) -> Entries:
    of = f" of {name}"
    if x.ndim > 2 and x.format == "coo":
        return _of_coordinates(name, x.data, x.coords, x.shape)
    if x.ndim != 2:
        raise value_error(name, "a sparse matrix with two axes", x.ndim, "Reshape it first.")
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
        return _of_blocks(of, x.data, x.indices, x.indptr, x.shape, "csr")
    try:
        coo = x.tocoo()
    except Exception as error:
        what, advice = "a sparse matrix with consistent arrays", "Make it anew."
        raise value_error(name, what, f"one that SciPy cannot convert: {error}", advice) from error
    return coordinates(of, coo.data, coo.coords, coo.shape)


def _of_blocks(
    of: str, data: Array, indices: Any, indptr: Any, shape: tuple[int, int], format: Format
) -> Entries:
    """Compressed rows, or columns, of blocks of r x c.

    Block (i, j) holds the rows i r .. i r + r - 1 and the columns j c .. j c + c - 1.
    """
    if data.ndim != 3 or 0 in data.shape[1:]:
        raise value_error(
            f"data{of}", "blocks (number, rows, columns)", data.shape, "Make it anew."
        )
    r, c = data.shape[1:]
    blocks = compressed(of, data[:, 0, 0], indices, indptr, (shape[0] // r, shape[1] // c), format)
    inner_rows, inner_cols = np.indices((r, c))
    rows, cols = (
        i.astype(np.int64)[:, None, None] * size + inner
        for i, size, inner in ((blocks.rows, r, inner_rows), (blocks.cols, c, inner_cols))
    )
    return coordinates(
        of, namespace(data).reshape(data, (-1,)), (rows.ravel(), cols.ravel()), shape
    )


def _of_framework(name: str, x: Parts) -> Entries:
    if x.unknown is not None:
        raise x.unknown
    own = len(x.shape) - x.batch - 2 if x.format != "coo" else 0
    own = max(own, x.values.ndim - x.batch - (3 if x.format in BLOCKS else 1))
    if own or len(x.shape) < 2:
        came = (
            f"{len(x.shape) - own} sparse and {own} dense axes" if own else f"{len(x.shape)} axes"
        )
        advice = "Make it with coo_array or csr_array: batch axes belong to the values."
        raise value_error(name, "a matrix of numbers", came, advice)
    require_memory(name, x.values)
    if x.batch:
        return _of_batch(name, x)
    if x.format == "coo" and len(x.shape) > 2:
        found = _of_coordinates(name, x.values, x.at, x.shape)
    else:
        found = _of_one(name, x)
    return found if x.merged is None else _of_framework(name, x.merged())


def _of_one(name: str, x: Parts) -> Entries:
    of, (m, n), (one, two) = f" of {name}", x.shape, x.at
    if x.format in BLOCKS:
        return _of_blocks(of, x.values, one, two, (m, n), BLOCKS[x.format])
    if x.format in COMPRESSED:
        return compressed(of, x.values, one, two, (m, n), x.format)
    return coordinates(of, x.values, x.at, (m, n))


# -- batches: one pattern for all -------------------------------------------------


def _of_batch(name: str, x: Parts) -> Entries:
    """Each matrix of a batch has indices of its own, and as many as the others."""
    sizes, own = x.shape[: x.batch], x.shape[x.batch :]
    count: int = prod(sizes)
    values = namespace(x.values).reshape(x.values, (count, *x.values.shape[x.batch :]))
    indices = (_numbers(name, i) for i in x.at)
    at = [np.reshape(i, (count, *i.shape[x.batch :])) for i in indices]
    if all((i == i[:1]).all() for i in at) and count and x.format not in BLOCKS:
        first = _of_one(name, Parts(x.format, values[0], (at[0][0], at[1][0]), own))
        return first._replace(values=namespace(values).reshape(values, (*sizes, -1)))
    each = [
        _of_one(name, Parts(x.format, values[k], (at[0][k], at[1][k]), own)) for k in range(count)
    ]
    member = np.repeat(np.arange(len(each)), [len(found.rows) for found in each])
    none = np.zeros(0, np.int64)
    rows, cols = (np.concatenate([none, *(found[axis] for found in each)]) for axis in (1, 2))
    return _united(namespace(values).reshape(values, (-1,)), member, rows, cols, x.shape)


def _of_coordinates(name: str, values: Array, at: Any, shape: tuple[int, ...]) -> Entries:
    """Return the entries from one index array for each axis: (*batch, rows, columns)."""
    of, member = f" of {name}", np.zeros(int(values.shape[0]), np.int64)
    found = coordinates(of, values, at[-2:], shape[-2:])
    for i, size in zip(at[:-2], shape[:-2], strict=True):
        # a member of the batch is checked as a row is
        i = coordinates(f" in the batch{of}", values, (i, found.cols), (size, shape[-1])).rows
        member = member * size + i
    return _united(values, member, found.rows, found.cols, shape)


def _united(
    values: Array, member: Index, rows: Index, cols: Index, shape: tuple[int, ...]
) -> Entries:
    """Values (*batch, nnz) on the union of all patterns; duplicates are added up."""
    (*sizes, m, n), at = shape, rows.astype(np.int64) * max(shape[-1], 1) + cols
    kept, slot = np.unique(at, return_inverse=True)
    total = prod(sizes) * len(kept)
    summed = scatter(values[:, None], member * len(kept) + slot, total)[:, 0]
    return Entries(
        namespace(values).reshape(summed, (*sizes, len(kept))),
        kept // max(n, 1),
        kept % max(n, 1),
        (m, n),
        "coo",
    )


def _numbers(name: str, i: Any) -> Any:
    return asnumpy(require_numbers(f"indices of {name}", i)) if is_array(i) else np.asarray(i)
