"""The test of promised symmetry, up to rounding and the steps of finite differences.

    |a_ij - a_ji| <= eps^(1/4) max(|a_ij|, |a_ji|, min(d_i, d_j)^2),
where D^-1 A D^-1 is equilibrated. Whatever the units of the unknowns, the difference of a pair is
compared with the scales of its row and its column. The smaller scale counts, since an entry that is
rounding in the larger row may be the largest in the smaller. From d_i = sqrt(max_j |a_ij|) on,
    d_i <- d_i sqrt(max_j |a_ij| / (d_i d_j)),
which halves the spread of the exponents and never falls below |a_ij| = |a_ji| = d_i d_j.
Reference: Ruiz, RAL-TR-2001-034.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, is_array, namespace, traced
from ldiv.core.frameworks.looks import assumed_true, is_pending, stays_on_device
from ldiv.core.frameworks.pattern import Pattern
from ldiv.errors import NotSymmetricError

DIGITS = 1 / 4  # the share of digits that mirror images must have in common
BALANCED = 1 / 16  # the smallest of the largest entries of rows that are alike
STEPS = 10  # at most: 2^10 is beyond the spread of the exponents of float64


def is_rounding(x: Any, y: Any) -> bool:
    """Whether each pair is symmetric relative to its own entries, so that no scale is needed."""
    return bool(are_near(x, y).all())


def are_near(x: Array, y: Array) -> Any:
    """Whether each pair is symmetric relative to its own entries."""
    xp = namespace(x)
    return xp.abs(x - y) <= _tolerance(numpy_dtype(x)) * xp.maximum(xp.abs(x), xp.abs(y))


def refuse_asymmetry(a: Array, mirror: Array, op: str) -> None:
    """Raise unless each a_ij is its mirror image in units of its row and column."""
    xp = namespace(a)
    size = xp.maximum(xp.abs(a), xp.abs(mirror))
    if 0 in size.shape:
        return
    # nearly every pair is symmetric by its own size: no scales need be read from a device
    if is_pending(a) and assumed_true(are_near(a, mirror).all()):
        return

    def largest(d: Array) -> Array:
        return xp.max(size / d[..., :, None] / d[..., None, :], axis=-1)

    d = _roots(largest, xp.max(size, axis=-1))
    scale = _scale(size, d[..., :, None], d[..., None, :])
    refuse_defect(xp.abs(a - mirror), scale, numpy_dtype(a), op)


def refuse_slot_asymmetry(pattern: Pattern, slots: Any, mirror: Any, op: str) -> None:
    """`refuse_asymmetry` for the entries of a sparse matrix, whose pattern is symmetric."""
    full = np.flatnonzero(np.diff(pattern.indptr))
    starts, rows, cols = pattern.indptr[full], pattern.indices, pattern.columns

    def of_columns(size: Any) -> Any:
        largest = np.zeros((*size.shape[:-1], pattern.shape[0]), size.dtype)
        largest[..., full] = np.maximum.reduceat(size, starts, axis=-1)
        return largest

    refuse_asymmetry_in(slots, mirror, op, of_columns, lambda d: (d[..., rows], d[..., cols]))


def refuse_asymmetry_in(
    slots: Array,
    mirror: Array,
    op: str,
    of_rows: Callable[[Array], Array],
    ends: Callable[[Array], tuple[Array, Array]],
) -> None:
    """`refuse_asymmetry` for slots anywhere: `of_rows` are the largest numbers of rows, `ends` the
    numbers of the row and the column of each slot.
    """
    xp = namespace(slots)
    size = xp.maximum(xp.abs(slots), xp.abs(mirror))

    def largest(d: Array) -> Array:
        u, v = ends(d)
        return of_rows(size / u / v)

    scale = _scale(size, *ends(_roots(largest, of_rows(size))))
    refuse_defect(xp.abs(slots - mirror), scale, numpy_dtype(slots), op)


def _scale(size: Array, d: Array, e: Array) -> Array:
    """The scale of the difference of a pair; d and e are those of its row and column."""
    xp = namespace(size)
    least = xp.minimum(d, e)
    return xp.maximum(size, least * least)


def _roots(largest: Callable[[Array], Array], of_rows: Array) -> Array:
    """d: `largest(d)` are the largest |a_ij| / (d_i d_j) of the rows, `of_rows` the largest |a_ij|."""
    xp = namespace(of_rows)
    d = xp.sqrt(_positive(of_rows))
    for _ in range(STEPS):
        ratio = _positive(largest(d))
        if not (traced(ratio) or stays_on_device(ratio)) and bool((ratio >= BALANCED).all()):
            break
        d = d * xp.sqrt(ratio)
    return d


def _positive(x: Array) -> Array:
    """x, and 1 for the rows without entries."""
    xp = namespace(x)
    return xp.where(x == 0, xp.ones_like(x), x)


def refuse_defect(defect: Any, scale: Any, dtype: Any, op: str) -> None:
    """Raise unless defect <= eps^(1/4) scale, for each pair of entries, or each matrix."""
    mirror = "conjugate transpose" if op == "H" else "transpose"
    check_or_raise(
        (defect <= _tolerance(dtype) * scale).all(),
        lambda *seen: NotSymmetricError(_worst(*seen), mirror),
        defect,
        scale,
    )


def _worst(defect: Any, scale: Any) -> float:
    xp = namespace(defect) if is_array(defect) else np  # a number of a device where it is
    return float(xp.max(defect / xp.where(scale == 0, xp.ones_like(scale), scale)))


def _tolerance(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) ** DIGITS
