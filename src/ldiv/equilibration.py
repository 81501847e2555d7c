"""R A C with the largest entry of every row and column near 1, R and C diagonal, their entries powers of two (no rounding).

    r_i <- r_i / sqrt(max_j |a_ij|),   c_j <- c_j / sqrt(max_i |a_ij|), both at once, until all maxima are within a ratio.
A symmetric matrix stays symmetric. Reference: Ruiz, RAL-TR-2001-034.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ldiv.pattern import Pattern

Values = np.ndarray[Any, Any]
BALANCED = 1 / 16  # rows and columns whose largest entries lie within this ratio are not scaled
MODERATE = 2.0**40  # engines square entries, which must not overflow
SCALINGS = 10  # at the most; each halves the spread of the exponents


class Layout:
    """Where rows and columns begin among the slots of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        numbered = sp.csc_array((np.arange(pattern.slots), pattern.indices, pattern.indptr), shape=pattern.shape).tocsr()
        self.rows, self.cols = pattern.indices, pattern.columns
        self.height = pattern.shape[0]
        self.by_row, self.row_starts, self.col_starts = numbered.data, numbered.indptr[:-1], pattern.indptr[:-1]
        self.has_empty = bool((np.diff(numbered.indptr) == 0).any() or (np.diff(pattern.indptr) == 0).any())
        on_diagonal = np.flatnonzero(self.rows == self.cols)
        self.diagonal = on_diagonal if len(on_diagonal) == pattern.shape[0] else None
        self._transposed, self._ones = pattern.csc(np.ones(pattern.slots)).T, np.ones(pattern.shape[0])

    def largest(self, size: Values) -> Values:
        """The largest entries of all rows, then of all columns."""
        by_row = np.maximum.reduceat(size[self.by_row], self.row_starts)
        return np.concatenate([by_row, np.maximum.reduceat(size, self.col_starts)])

    def scaled(self, values: Values, r: Values, c: Values) -> Values:
        """The values of R A C."""
        scaled: Values = values * r[self.rows] * c[self.cols]  # r c itself may overflow
        return scaled

    def column_sums(self, values: Values) -> Values:
        """The absolute sums of all columns."""
        sizes = self.transposed(np.abs(values))
        sums: Values = sizes @ self._ones
        return sums

    def transposed(self, values: Values) -> Any:
        """The transpose of the matrix with these values, sharing the checked index arrays."""
        matrix = copy.copy(self._transposed)
        matrix.data = values
        return matrix

    def is_balanced_by_diagonal(self, size: Values) -> bool:
        """Each row and column has its largest entry between that on the diagonal and the largest of all."""
        return self.diagonal is not None and bool(are_alike(size[self.diagonal].min(), size.max()))


class Scalable(Protocol):
    """How the values of a square matrix are laid out."""

    height: int

    def is_balanced_by_diagonal(self, size: Values) -> bool: ...

    def largest(self, size: Values) -> Values: ...

    def scaled(self, values: Values, r: Values, c: Values) -> Values: ...


def equilibrated(layout: Scalable, values: Values) -> tuple[Values, tuple[Values, Values] | None]:
    """(values of R A C, (r, c)), or (values, None) where nothing needs scaling; a zero row stays zero."""
    scaled, size = values, np.abs(values)
    if layout.is_balanced_by_diagonal(size):
        return values, None
    scales = np.ones(2 * layout.height, size.dtype)
    for _ in range(SCALINGS):
        largest = layout.largest(size)
        if not largest.min() > 0 or are_alike(largest.min(), largest.max()):
            break
        scales = scales * np.exp2(np.round(-0.5 * np.log2(largest))).astype(size.dtype)
        scaled = layout.scaled(values, scales[: layout.height], scales[layout.height :])
        size = np.abs(scaled)
    return (values, None) if scaled is values else (scaled, (scales[: layout.height], scales[layout.height :]))


def are_alike(smallest: Any, largest: Any) -> Any:
    """Is there no need to scale rows and columns with these largest entries?"""
    return (smallest >= BALANCED * largest) & (largest > 0) & (largest >= 1 / MODERATE) & (largest <= MODERATE)
