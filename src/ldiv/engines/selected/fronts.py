"""The fronts of a factorization: all that depends on the pattern alone.

Supernode s has the columns starts[s] .. starts[s + 1] and the rows below them; both together are
its front, a dense matrix of which the leading columns are eliminated. The rest is added to the
front of its parent, `above[s]`, at the positions `relative`: every row of a front is a row of the
parent's front, or one of the parent's columns.
Reference: Liu, The multifrontal method, SIAM Review 34 (1992).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.holder import PHYSICAL
from ldiv.core.pattern import Index, Pattern
from ldiv.engines.accuracy.sparse_matrix import Arrangement
from ldiv.engines.libraries import metis
from ldiv.engines.selected.supernodes import RELAXED, front_rows, fundamental, merged
from ldiv.engines.selected.tree import column_counts, elimination_tree, postorder
from ldiv.errors import EngineError

BYTES = 64  # for each number of a factor: L and U, Z and its tangent, and room for others


class Fronts(Arrangement):
    """The supernodes of A[rows][:, cols], whose pattern is made symmetric.

    Without `rows` and `cols` both are the same fill-reducing ordering. Elimination may reorder them
    again, both in the same way, without changing the fill or the pivots.
    """

    def __init__(self, pattern: Pattern, rows: Any = None, cols: Any = None) -> None:
        n = pattern.shape[0]
        if rows is None:
            rows = cols = metis.of_sum_or_band(pattern)
        number = np.empty((2, n), np.int64)
        number[0][rows] = number[1][cols] = np.arange(n)
        # i, j: the entries of A and their mirror images, in the given order
        i, j = number[0][pattern.indices], number[1][pattern.columns]
        both = Pattern(np.concatenate([i, j]), np.concatenate([j, i]), pattern.shape)
        graph = both.indptr.astype(np.int64), both.indices.astype(np.int64)
        order, self.starts, self.above, self.below = _supernodes(*graph, np.arange(n))
        if BYTES * self.entries > PHYSICAL:
            raise EngineError(
                f"the selected inverse would take {BYTES * self.entries / 2**30:.0f} GiB: too much "
                "fill. Solves with n columns need less memory, and more time."
            )
        self.rows_below = front_rows(*graph, order, self.starts, self.above, self.below)
        super().__init__(pattern, np.asarray(rows)[order], np.asarray(cols)[order])

    @property
    def nbytes(self) -> int:
        """The memory of all index arrays, as many as there are by now."""
        held = [x for owner in (self, self.pattern, self.layout) for x in vars(owner).values()]
        arrays = [y for x in held for y in (x if isinstance(x, tuple) else (x,))]
        return sum({id(x): x.nbytes for x in arrays if isinstance(x, np.ndarray)}.values())

    @cached_property
    def count(self) -> int:
        """The number of supernodes."""
        return len(self.above)

    @cached_property
    def width(self) -> Index:
        """The columns of each supernode."""
        return np.diff(self.starts)

    @cached_property
    def row_starts(self) -> Index:
        """Where in `rows_below` the rows of each supernode begin."""
        return np.concatenate([[0], np.cumsum(self.below)])

    @cached_property
    def panel_starts(self) -> Index:
        """Where the panel of each supernode begins, (width + below) x width numbers by columns."""
        return np.concatenate([[0], np.cumsum(self.width * (self.width + self.below))])

    def filled(self) -> tuple[Index, Index]:
        """Rows and columns of all entries of L and L^T, in the numbering of A if A is symmetric."""
        below = np.split(self.rows_below, self.row_starts[1:-1])
        rows, columns = [], []
        for start, end, rest in zip(self.starts[:-1], self.starts[1:], below, strict=True):
            own = np.arange(start, end)
            front = np.concatenate([own, rest])
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

    def _position(self, s: Index, i: Index) -> Index:
        """The position of row i in the front of supernode s."""
        own = i < self.starts[s + 1]
        found = np.searchsorted(self._row_keys, s * self.n + i) - self.row_starts[s] + self.width[s]
        return np.where(own, i - self.starts[s], found)

    @cached_property
    def relative(self) -> Index:
        """The position of each row below a supernode in the front of its parent."""
        parents = np.repeat(self.above, self.below)
        return self._position(parents, self.rows_below)

    @cached_property
    def places(self) -> tuple[Index, Index]:
        """For each slot of the arranged A its position in the panels, and whether it is mirrored.

        An entry right of its diagonal block is found, mirrored, in the panel of its row.
        """
        i, j = self._entries
        mirrored = self.owner[i] < self.owner[j]
        return self._places(np.where(mirrored, j, i), np.where(mirrored, i, j)), mirrored

    @cached_property
    def lower_places(self) -> tuple[Index, Index]:
        """For each slot the position of (max(i, j), min(i, j)), and whether i >= j."""
        i, j = self._entries
        return self._places(np.maximum(i, j), np.minimum(i, j)), i >= j

    @cached_property
    def lower_entries(self) -> tuple[Index, Index]:
        """The slots on and below the diagonal, and their positions."""
        place, lower = self.lower_places
        return np.flatnonzero(lower), place[lower]

    @property
    def _entries(self) -> tuple[Index, Index]:
        """Row and column of each slot, wide enough to count all entries of panels."""
        return self.pattern.indices.astype(np.int64), self.pattern.columns.astype(np.int64)

    def _places(self, row: Index, column: Index) -> Index:
        s = self.owner[column]
        height = self.width[s] + self.below[s]
        begin = self.panel_starts[s] + (column - self.starts[s]) * height
        return begin + self._position(s, row)

    @cached_property
    def factor_entries(self) -> tuple[Index, Index, Index]:
        """The entries of L: positions in the panels, rows and columns, by columns."""
        height = self.width + self.below
        s = np.repeat(np.arange(self.count), self.width * height)
        position = np.arange(self.entries)
        column, row = np.divmod(position - self.panel_starts[s], height[s])
        position = position[kept := row >= column]
        s, row, column = s[kept], row[kept], column[kept]
        rows = self.starts[s] + row
        below = row >= self.width[s]
        rows[below] = self.rows_below[(self.row_starts[s] + row - self.width[s])[below]]
        return position, rows, self.starts[s] + column

    @cached_property
    def diagonal(self) -> Index:
        """The positions of the diagonal of A in the panels."""
        j = np.arange(self.n) - self.starts[self.owner]
        return self.panel_starts[self.owner] + j * (self.width + self.below + 1)[self.owner]


def fill(pattern: Pattern) -> int:
    """The entries of the factor L of a matrix with this pattern, made symmetric."""
    i, j = pattern.indices, pattern.columns
    both = Pattern(np.concatenate([i, j]), np.concatenate([j, i]), pattern.shape)
    graph = both.indptr.astype(np.int64), both.indices.astype(np.int64)
    order = metis.of_sum_or_band(pattern).astype(np.int64)
    parent = elimination_tree(*graph, order)
    post = postorder(parent)
    parent = np.where(parent[post] < 0, -1, np.argsort(post)[parent[post]])
    return int(column_counts(*graph, order[post], parent).sum())


def _supernodes(indptr: Index, indices: Index, order: Index) -> tuple[Index, Index, Index, Index]:
    """(order, starts, above, below): the supernodes in postorder, and the order of the columns."""
    parent = elimination_tree(indptr, indices, order)
    post = postorder(parent)
    place = np.argsort(post)
    order, parent = order[post], np.where(parent[post] < 0, -1, place[parent[post]])
    count = column_counts(indptr, indices, order, parent)
    starts = fundamental(parent, count)
    into, above = merged(parent, count, starts, *RELAXED)
    # the supernodes that stay, in postorder, each with the columns of those merged into it
    kept = np.flatnonzero(into == np.arange(len(into)))
    number = np.full(len(into) + 1, -1)  # the last one: the parent of a root, which is -1
    number[kept] = np.arange(len(kept))
    parents = number[above[kept]]
    rank = np.empty(len(kept), np.int64)
    post = postorder(parents)
    rank[post] = np.arange(len(kept))
    columns = np.argsort(np.repeat(rank[number[into]], np.diff(starts)), kind="stable")
    width = np.bincount(rank[number[into]], np.diff(starts), len(kept)).astype(np.int64)
    tops = starts[1:][kept][post] - 1  # the last column of a supernode is its own
    return (
        order[columns],
        np.concatenate([[0], np.cumsum(width)]),
        np.where(parents[post] < 0, -1, rank[parents[post]]),
        count[tops] - 1,
    )
