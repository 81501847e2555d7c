"""The numbers of programs (*batch, .), and the sizes by which slack and multipliers are measured.

The slack of a row is in units of its terms, and its multiplier in units of the forces that it is among.
Rows are those of A, G, ub and lb in turn; the slack of an equality is -|b - A x|.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import eps
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.limits import CANCELLED, PLAIN_UNITS
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.structures.dense import dense
from ldiv.structures.sparse import Sparse

SMALL = 64  # unknowns of a system that is factored as a dense one


class Numbers:
    """Quantities of the numbers of programs that do not depend on the active rows.

    C: the entries of [A; G]; sides (*batch, rows): b, h, ub and lb.
    """

    def __init__(self, system: Optimality, data: Data) -> None:
        self.system, self.data = system, data
        self.C: Values = np.concatenate([data.A, data.G], -1)
        self.sides: Values = np.concatenate([data.b, data.h, data.ub, data.lb], -1)
        self.size_of_P, self.size_of_q = largest(data.P), largest(data.q)

    def member(self, i: Sequence[int]) -> Numbers:
        """Return one program of a batch."""
        return Numbers(self.system, Data(*(x[i] for x in self.data)))

    def flat(self, count: int) -> Numbers:
        """The same programs with one batch axis, as far as solvers ask for them."""
        found = object.__new__(Numbers)
        found.system = self.system
        found.data = Data(*[x.reshape(count, x.shape[-1]) for x in self.data])
        for name in ("C", "limits", "heights", "terms", "without_rows", "size_of_P", "size_of_q"):
            setattr(found, name, (x := getattr(self, name)).reshape(count, x.shape[-1]))
        return found

    @cached_property
    def limits(self) -> Values:
        """The sides of rows that are written with <=: b, h, ub and -lb."""
        found, w = self.sides.copy(), self.system.sizes[3]
        if w:
            # -x <= -lb
            found[..., -w:] *= -1
        return found

    @cached_property
    def heights(self) -> Values:
        """The largest entry of each row."""
        found = np.ones(self.sides.shape, self.C.dtype)
        self.system.of_matrices(found)[...] = largest_of_rows(self.system.C.entries, abs(self.C))
        return found

    @cached_property
    def terms(self) -> Values:
        """The size of x that each row implies: its side over its largest entry; 0 if it implies none."""
        with np.errstate(all="ignore"):
            found = abs(self.sides) / self.heights
        return np.where(np.isfinite(found), found, 0)

    @cached_property
    def without_rows(self) -> Values:
        """The size of x (*batch, 1) that q over P gives it; infinite where they do not."""
        P, q = self.size_of_P, self.size_of_q
        with np.errstate(all="ignore"):
            return np.where((P > 0) & (q > 0), q / P, np.inf)

    def unit_of_x(self, active: Values) -> Values:
        """The size of x (*batch, 1) as the terms of its system have it: of the active rows, or q over P."""
        # the active rows limit x to their largest term, q and P to |q| / |P|
        most = np.where(active > 0, self.terms, 0).max(-1, initial=0, keepdims=True)
        unit = np.minimum(self.without_rows, np.where(most > 0, most, np.inf))
        # neither rows nor q limit x
        return np.where(np.isfinite(unit), unit, 0)

    @cached_property
    def _says(self) -> Values:
        """A mask of the rows with a slack: finite sides, without bounds that meet, which are one row."""
        found, (*_, upper, lower) = np.isfinite(self.sides), self.system.of_rows(self.sides)
        # views of `found`
        *_, of_upper, of_lower = self.system.of_rows(found)
        of_upper &= upper != lower
        of_lower &= upper != lower
        return found

    @cached_property
    def matrices(self) -> tuple[tuple[Structure, Values], ...]:
        """P, C and |C|, with their zeros if they are small."""
        P, C = dense_if_full(self.system.P, self.data.P), dense_if_full(self.system.C, self.C)
        return P, C, (C[0], abs(C[1]))

    def along(self, x: Values) -> Values:
        """[C x, x, -x]: what rows that are written with <= say of x."""
        parts = [product(self.matrices[1], x)]
        return np.concatenate([*parts, x, -x] if self.system.bounds else parts, -1)

    def slacks(self, x: Values, unit: Values) -> Values:
        """The slack of each row, in units of its terms; infinite where it says nothing."""
        *_, sizes_of_C = self.matrices
        k = self.system.sizes[1]
        # rounding of x is that of its largest entries, and of what cancelled where x itself is 0
        around = abs(x) + eps(x) ** 0.25 * largest(x) + CANCELLED * eps(x) ** 0.5 * unit
        # |C| |x| + |d|, the size of the terms of C x <= d
        sizes = [product(sizes_of_C, around)]
        if self.system.bounds:
            sizes += around, around
        size = np.concatenate(sizes, -1) + np.where(self._says, abs(self.sides), 0)
        # (d - C x) / size
        found = np.where(self._says, self.limits - self.along(x), np.inf) / or_one(size)
        found[..., :k] = -abs(found[..., :k])
        return found

    def force(self, x: Values) -> Values:
        """The largest term of the gradient (*batch, 1)."""
        return largest(product(self.matrices[0], x)) + self.size_of_q


def dense_if_full(structure: Structure, p: Values) -> tuple[Structure, Values]:
    """A small or nearly full matrix with its zeros: LAPACK needs no ordering, and takes a batch at once."""
    m, n = structure.shape
    if not 0 < m * n <= max(SMALL**2, 4 * p.shape[-1]):
        return structure, p
    return dense(m, n), whole(structure, p)


def whole(structure: Structure, p: Values) -> Values:
    """The matrix with its zeros: a view of p where it has none."""
    if isinstance(structure, Sparse) and structure.entries.is_full:
        return p.reshape(*p.shape[:-1], *structure.shape)
    found: Any = structure.todense(p)
    return found


def product(matrix: tuple[Structure, Values], x: Values) -> Values:
    """A x, below all rules."""
    structure, p = matrix
    assert isinstance(structure, Linear)
    found: Any = structure.apply(p, x[..., None], "N")[..., 0]
    return found


def largest_of_rows(pattern: Pattern, sizes: Values) -> Values:
    """(*batch, rows)"""
    if pattern.is_full:
        return sizes.reshape(*sizes.shape[:-1], *pattern.shape).max(-1, initial=0)
    # the largest of each run of entries; a row without entries has 0
    order, starts, rows = pattern.row_by_row
    found = np.zeros((*sizes.shape[:-1], pattern.shape[0]), sizes.dtype)
    found[..., rows] = np.maximum.reduceat(sizes.take(order, -1), starts, -1)
    return found


def largest(x: Values) -> Values:
    """The largest absolute value (*batch, 1)."""
    return abs(x).max(-1, initial=0, keepdims=True)


def or_one(x: Values) -> Values:
    """x, with 1 in place of 0."""
    return np.where(x > 0, x, 1)


def exponents(size: Values, more: Values | int = 0) -> Values:
    """The exponent of size 2^more; 0 where it is near 1, or size is 0."""
    e = np.frexp(size)[1] + more
    return np.where((size > 0) & (abs(e) > PLAIN_UNITS), e, 0)
