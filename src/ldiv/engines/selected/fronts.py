"""The fronts of a factorization: all that depends on the pattern alone.

Supernode s has the columns starts[s] .. starts[s + 1] and the rows below them; both together are
its front, a dense matrix of which the leading columns are eliminated. The rest is added to the
front of its parent, `parent[s]`, at the positions `relative`: every row of a front is a row of the
parent's front, or one of the parent's columns.
Reference: Liu, The multifrontal method, SIAM Review 34 (1992).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.owners.forking import lock
from ldiv.core.owners.holder import PHYSICAL
from ldiv.engines.accuracy.sparse_matrix import Arrangement
from ldiv.engines.libraries import native, ordering, threads
from ldiv.engines.libraries.work import counted, in_order, required, warn_if_long
from ldiv.errors import EngineUnavailableError

HARD = 2e4  # operations a row from which a factorization takes as long as an ordering
UNEVEN = 0.7  # of the vertices in one half, at most: smaller separators, of halves that differ
COMPILED_BYTES = 24  # L in double precision, and what waits for a parent
_locating = lock()  # one for all fronts: each is located once


class Fronts(Arrangement):
    """The supernodes of A[rows][:, cols], whose pattern is made symmetric.

    Without `rows` and `cols` both are the same fill-reducing ordering. Elimination may reorder them
    again, both in the same way, without changing the fill or the pivots. Where nothing is compiled
    all columns are one front, of few rows at most.
    """

    starts: Index
    parent: Index
    row_starts: Index  # where in `rows_below` the rows of each supernode begin
    rows_below: Index
    _made: Any = None
    _is_located = _both_located = False

    def __init__(self, pattern: Pattern, rows: Any = None, cols: Any = None) -> None:
        if native.native is None:
            super().__init__(pattern, *self._whole(pattern.shape[0]))
            return
        if rows is None:
            rows = cols = _ordering(pattern)
        try:
            order = self._compile(*in_order(pattern, rows, cols))
        except MemoryError:
            raise _too_large("more memory than there is") from None
        # elimination has reordered rows and columns alike
        same = rows is cols
        super().__init__(pattern, *((order, order) if same else (rows[order], cols[order])))

    def _compile(self, indptr: Index, indices: Index, order: Index) -> Index:
        assert native.native is not None
        made = native.native.Fronts(indptr, indices, order)
        order = np.empty_like(order)
        self.require_memory(made.entries, COMPILED_BYTES)
        self.rows_below = np.empty(made.rows, np.int64)
        self.starts, self.parent, self.row_starts = (
            np.empty(made.count + more, np.int64) for more in (1, 0, 1)
        )
        made.write(order, self.starts, self.parent, self.rows_below, self.row_starts)
        self._made = made
        return order

    def _whole(self, n: int) -> tuple[Index, Index]:
        native.require(f"entries of the factor L of a sparse matrix of {n:,} rows", n)
        # one front with all columns, which is a root
        self.starts, self.parent = np.array([0, n]), np.array([-1])
        self.row_starts, self.rows_below = np.zeros(2, np.int64), np.empty(0, np.int64)
        return (order := np.arange(n)), order

    def require_memory(self, entries: int, each: int) -> None:
        """Raise where so many numbers of a factor, of so many bytes each, are more than there is."""
        if each * entries > PHYSICAL:
            raise _too_large(f"{each * entries / 2**30:.0f} GiB")

    @cached_property
    def compiled(self) -> Any:
        """The fronts for compiled factors, which know where each slot is."""
        with _locating:  # threads with a matrix each may ask at once
            if not self._is_located:
                self._made.locate(self.pattern.indptr, self.pattern.indices)
                self._is_located = True
        return self._made

    @cached_property
    def compiled_both(self) -> Any:
        """The fronts for compiled factors of matrices without symmetry."""
        with _locating:
            if not self._both_located:
                place, mirrored = self.places
                # a negative number, ~place, marks a mirrored entry
                self._made.locate_both(np.where(mirrored, ~place, place))
                self._both_located = True
        return self._made

    @property
    def heap_bytes(self) -> int:
        """The bytes of the analysis in compiled code."""
        return 0 if self._made is None else int(self._made.nbytes)

    @cached_property
    def count(self) -> int:
        """The number of supernodes."""
        return len(self.parent)

    @cached_property
    def width(self) -> Index:
        """The columns of each supernode."""
        return np.diff(self.starts)

    @cached_property
    def below(self) -> Index:
        """The number of rows below each supernode."""
        return np.diff(self.row_starts)

    @cached_property
    def panel_starts(self) -> Index:
        """The start of the panel of each supernode, (width + below) x width numbers by columns."""
        return np.concatenate([[0], np.cumsum(self.width * (self.width + self.below))])

    def filled(self) -> tuple[Index, Index]:
        """Rows and columns of all entries of L and L^T, in the numbering of A if A is symmetric."""
        below = np.split(self.rows_below, self.row_starts[1:-1])
        rows, columns = [], []
        for start, end, rest in zip(self.starts[:-1], self.starts[1:], below, strict=True):
            own = np.arange(start, end)
            front = np.concatenate([own, rest])
            # all pairs of a row of the front and an own column
            rows.append(np.repeat(front, len(own)))
            columns.append(np.tile(own, len(front)))
        assert not isinstance(self.rows, slice) and not isinstance(self.cols, slice)
        i, j = self.rows[np.concatenate(rows)], self.cols[np.concatenate(columns)]
        return np.concatenate([i, j]), np.concatenate([j, i])

    @property
    def entries(self) -> int:
        """The numbers in all panels."""
        return int(self.panel_starts[-1])

    @cached_property
    def owner(self) -> Index:
        """The supernode of each column."""
        return np.repeat(np.arange(self.count), self.width)

    @cached_property
    def _row_keys(self) -> Index:
        """n s + i for all rows i below supernode s: increasing, so that rows are found in it."""
        return np.repeat(np.arange(self.count), self.below) * self.n + self.rows_below

    def position(self, s: Index, i: Index) -> Index:
        """The position of row i in the front of supernode s."""
        # own columns come first in a front, then the rows below, found by bisection
        own = i < self.starts[s + 1]
        found = np.searchsorted(self._row_keys, s * self.n + i) - self.row_starts[s] + self.width[s]
        return np.where(own, i - self.starts[s], found)

    @cached_property
    def relative(self) -> Index:
        """The position of each row below a supernode in the front of its parent."""
        parents = np.repeat(self.parent, self.below)
        return self.position(parents, self.rows_below)

    @cached_property
    def places(self) -> tuple[Index, Index]:
        """The position in the panels of each slot of the arranged A, and whether it is mirrored.

        An entry right of its diagonal block is found, mirrored, in the panel of its row.
        """
        i, j = self._entries
        mirrored = self.owner[i] < self.owner[j]
        return self._places(np.where(mirrored, j, i), np.where(mirrored, i, j)), mirrored

    @property
    def _entries(self) -> tuple[Index, Index]:
        """Row and column of each slot, wide enough to count all entries of panels."""
        return self.pattern.indices.astype(np.int64), self.pattern.columns.astype(np.int64)

    def _places(self, row: Index, column: Index) -> Index:
        s = self.owner[column]
        height = self.width[s] + self.below[s]
        # column-major panels: begin + column height + row
        begin = self.panel_starts[s] + (column - self.starts[s]) * height
        return begin + self.position(s, row)

    @cached_property
    def factor_entries(self) -> tuple[Index, Index, Index]:
        """The entries of L: positions in the panels, rows and columns, by columns."""
        height = self.width + self.below
        s = np.repeat(np.arange(self.count), self.width * height)
        position = np.arange(self.entries)
        column, row = np.divmod(position - self.panel_starts[s], height[s])
        # the upper triangle of a diagonal block is no part of L
        position = position[kept := row >= column]
        s, row, column = s[kept], row[kept], column[kept]
        rows = self.starts[s] + row
        below = row >= self.width[s]
        rows[below] = self.rows_below[(self.row_starts[s] + row - self.width[s])[below]]
        return position, rows, self.starts[s] + column


def _ordering(pattern: Pattern) -> Index:
    """An ordering for little fill; the better one of two if the factorization is expensive."""
    order = required(ordering.of_sum(pattern))
    if (found := counted(pattern, order)).operations < HARD * len(order):
        return order
    # it takes long, so that another ordering is worth its time: smaller, uneven separators
    other = required(ordering.of_sum(pattern, UNEVEN))
    if (second := counted(pattern, other)).operations <= found.operations:
        order, found = other, second
    warn_if_long(len(order), found, threads.threads())
    return order


def _too_large(much: str) -> EngineUnavailableError:
    return EngineUnavailableError(
        "a factorization by fronts",
        f"would take {much}: too much fill. Solves with n columns need less memory than a selected "
        "inverse, and more time",
    )
