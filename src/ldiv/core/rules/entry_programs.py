"""Products with the entries of a sparse matrix, as calls of a compiled program.

    y_i = sum over the entries e of row i of p_e x_(col e),    g_e = sum_q u_(row e, q) conj v_(col e, q)

XLA would make an array of a number for each entry and each column, and add entry by entry. One column
it joins with what comes before and after.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.core.rules.compiled import CompiledCall, record_of
from ldiv.core.rules.structure import VIEWS, Structure

FEW = 16  # columns, up to which XLA joins a gather for each, and makes no array of them all
DTYPES = {np.dtype(kind) for kind in "fdFD"}


def product(structure: Structure, *flat: Any) -> CompiledCall | None:
    """Return the call of S(p) x, if p and x have one dtype, and one batch or none."""
    p, x = flat
    batches, k = (p.shape[:-1], x.shape[:-2]), x.shape[-1]
    if type(k) is not int or k == 1 or (places := _places(structure, flat, batches)) is None:
        return None
    rows, cols, conjugated = places
    # SciPy sorts the numbers of the entries by row; columns of their own keep those of duplicates apart
    numbers, m = np.arange(len(rows), dtype=np.int32), structure.shape[0]
    by_row = sp.coo_array((numbers, (rows, numbers)), shape=(m, len(rows))).tocsr()
    order, own = by_row.data, ((*max(batches, key=len), m, k), p.dtype)
    constants = by_row.indptr, cols[order], *([] if np.array_equal(order, numbers) else [order])
    return _call("product", conjugated, own, constants)


def sampled(structure: Structure, *flat: Any) -> CompiledCall | None:
    """Return the call of the entries of u v^H in S, if u and v have one dtype, and one batch or none."""
    u, v = flat
    batches, k = (u.shape[:-2], v.shape[:-2]), u.shape[-1]
    if type(k) is not int or k <= FEW or v.shape[-1] != k:
        return None
    if (places := _places(structure, flat, batches)) is None:
        return None
    # <u v^H, S(dp)^T> has the entries in the places of S^T; for S^H and conj S they are conjugated
    rows, cols, conjugated = places
    own = (*max(batches, key=len), len(rows)), u.dtype
    return _call("sampled", conjugated, own, (rows, cols))


def _places(structure: Structure, flat: Any, batches: Any) -> tuple[Any, Any, bool] | None:
    """The rows and columns of the entries of S, and whether these are conjugated; None without a call."""
    base, op = structure.unview()
    if (pattern := base.parameter_places) is None or pattern.rows.dtype != np.int32:
        return None
    if flat[0].dtype != flat[1].dtype or np.dtype(flat[0].dtype) not in DTYPES:
        return None
    if len({*batches} - {()}) > 1 or any(0 in x.shape for x in flat):
        return None
    transposed, conjugated = VIEWS[op]
    rows, cols = (pattern.cols, pattern.rows) if transposed else (pattern.rows, pattern.cols)
    return rows, cols, conjugated


def _call(what: str, conjugated: bool, own: Any, constants: Any) -> CompiledCall:
    record = record_of(what=what, conjugated=str(int(conjugated)))
    return CompiledCall("ldiv_entries_1", record, (own,), None, constants=constants)
