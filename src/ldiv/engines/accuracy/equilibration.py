"""R A C with row and column maxima near 1; R and C are diagonal with powers of two (no rounding).

    r_i <- r_i / sqrt(max_j |a_ij|),   c_j <- c_j / sqrt(max_i |a_ij|),
both at once, until all maxima are within a ratio. A symmetric matrix stays symmetric. Such scalings
are not unique, and a bad one can make a regular matrix singular to working precision. The one with
equal row and column sums of absolute values is unique up to a factor; it costs more, and is used by
careful attempts.
Reference: Ruiz, RAL-TR-2001-034; Sinkhorn, Knopp, Pacific J. Math. 21 (1967).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern, Values, product_by
from ldiv.core.rules.units import balance
from ldiv.engines.accuracy.limits import BALANCED, MODERATE, SCALINGS, SETTLED, SUM_SCALINGS
from ldiv.engines.libraries import native as library

Scales = tuple[Values, Values] | None
Scaling = Callable[[Any, Values], tuple[Values, Scales]]


class Layout:
    """Row and column maxima, sums and products for the slots of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.rows, self.cols = pattern.indices, pattern.columns
        self.height = pattern.shape[0]
        self.by_column = pattern.indptr, pattern.indices
        in_rows = np.bincount(pattern.indices, minlength=self.height)
        self.has_empty = not (in_rows.all() and np.diff(pattern.indptr).all())
        on_diagonal = np.flatnonzero(self.rows == self.cols)
        self.diagonal = on_diagonal if len(on_diagonal) == pattern.shape[0] else None
        self._ones = np.ones((self.height, 1))

    @cached_property
    def compiled(self) -> Any:
        """The pattern for compiled loops, None if nothing is compiled."""
        native = library.native
        return None if native is None else native.Pattern(*self.by_column, self.diagonal)

    def balanced_sums(self, values: Values) -> tuple[Values, float, float] | None:
        """Return the column sums of |a_ij|, their minimum and their maximum, by a compiled loop, if
        the diagonal shows that the matrix is balanced; else None.
        """
        if self.compiled is None or self.diagonal is None:
            return None
        sums = np.empty(self.height, values.real.dtype)
        diagonal, entry, *ends = self.compiled.sizes(np.ascontiguousarray(values), sums)
        return (sums, ends[0], ends[1]) if are_alike(diagonal, entry) else None

    @cached_property
    def _by_row(self) -> tuple[Values, Values]:
        """The slots row by row, and where each row starts."""
        indptr, indices = self.by_column
        # the number of each slot is its value: conversion to CSR sorts the numbers by row
        number = np.arange(len(indices))
        numbered = sp.csc_array((number, indices, indptr), shape=(self.height,) * 2).tocsr()
        return numbered.data, numbered.indptr[:-1]

    def largest(self, size: Values) -> Values:
        """Return the row maxima, then the column maxima."""
        return self._combined(np.maximum, size)

    def sums(self, size: Values) -> Values:
        """Return the row sums, then the column sums."""
        return self._combined(np.add, size)

    def _combined(self, by: np.ufunc, size: Values) -> Values:
        # reduceat would return the next number for an empty row or column; there is none here
        slots, starts = self._by_row
        return np.concatenate(
            [by.reduceat(size.take(slots), starts), by.reduceat(size, self.by_column[0][:-1])]
        )

    def scaled(self, values: Values, r: Values, c: Values) -> Values:
        """The values of R A C."""
        scaled: Values = values * r.take(self.rows)  # r c itself may overflow
        scaled *= c.take(self.cols)
        return scaled

    def column_sums(self, size: Values) -> Values:
        """The column sums."""
        return self.product(size, self._ones.astype(size.dtype, copy=False), transposed=True)[:, 0]

    def product(self, values: Values, x: Values, transposed: bool) -> Values:
        """A x or A^T x for x (n, k)."""
        # compressed columns of A are compressed rows of A^T
        return product_by(transposed, (self.height,) * 2, *self.by_column, values, x)

    def is_balanced_by_diagonal(self, size: Values) -> bool:
        """Whether min |a_ii| and max |a_ij| are alike; all row and column maxima lie between them."""
        return self.diagonal is not None and bool(
            are_alike(size.take(self.diagonal).min(), size.max())
        )


class Scalable(Protocol):
    """A storage format of square matrices that can be scaled."""

    height: int

    def is_balanced_by_diagonal(self, size: Values) -> bool: ...

    def largest(self, size: Values) -> Values: ...

    def scaled(self, values: Values, r: Values, c: Values) -> Values: ...


def equilibrated(layout: Scalable, values: Values) -> tuple[Values, Scales]:
    """(values of R A C, (r, c)), or (values, None) if it is balanced; a zero row stays zero."""
    size = np.abs(values)
    if layout.is_balanced_by_diagonal(size):
        return values, None
    largest = layout.largest(size)
    if not largest.min() > 0 or are_alike(largest.min(), largest.max()):
        return values, None
    # near 1 first, by one power of two, so that no step depends on the units of A
    # the geometric mean of the extremes, as a product of roots, which does not overflow
    middle = balance(np.sqrt(largest.min()) * np.sqrt(largest.max()))
    scales = np.full(2 * layout.height, middle, size.dtype)
    for _ in range(SCALINGS + 1):
        r, c = scales[: layout.height], scales[layout.height :]
        scaled = layout.scaled(values, r, c)
        largest = layout.largest(np.abs(scaled))
        if are_alike(largest.min(), largest.max()):
            break
        # powers of two, so that scaling does not round
        # r_i <- r_i / sqrt(max_j |r_i a_ij c_j|), and c_j by the columns, both at once
        scales = scales * np.exp2(np.round(-0.5 * np.log2(largest))).astype(size.dtype)
    return scaled, (r, c)


def equilibrated_by_sums(layout: Layout, values: Values) -> tuple[Values, Scales]:
    """Equilibrate, then bring all absolute row and column sums near 1.

    Rows and columns are scaled in turn: symmetry is lost.
    """
    values, scales = equilibrated(layout, values)
    size, n = np.abs(values), layout.height
    if not layout.largest(size).min() > 0:
        return values, scales
    u = v = np.ones((n, 1), size.dtype)
    for _ in range(SUM_SCALINGS):
        # u_i = 1 / sum_j |a_ij| v_j, then v_j = 1 / sum_i |a_ij| u_i
        before, u = u, 1 / layout.product(size, v, transposed=False)
        v = 1 / layout.product(size, u, transposed=True)
        if (np.abs(u - before) <= SETTLED * u).all():
            break
    # powers of two, so that scaling does not round
    u, v = (np.exp2(np.round(np.log2(x[:, 0]))) for x in (u, v))
    r, c = scales or (1, 1)
    return layout.scaled(values, u, v), (r * u, c * v)


def are_alike(smallest: Any, largest: Any) -> Any:
    """True if row and column maxima with this minimum and maximum are within the ratio BALANCED."""
    return (
        (smallest >= BALANCED * largest)
        & (largest > 0)
        & (largest >= 1 / MODERATE)
        & (largest <= MODERATE)
    )
