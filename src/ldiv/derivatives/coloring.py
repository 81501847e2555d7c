"""Columns of one color have no row in common, so that one product with their sum tells all their
entries apart.

forward      J S, S[j, color[j]] = 1: an entry (i, j) is (J S)[i, color[j]];   reverse the same of J^T
both         rows that are long are taken in reverse, the others forward: an arrowhead takes a few colors, not n
symmetric    star coloring, every path of four vertices has three colors: (i, j) is read at (i, color[j]) or at (j, color[i])

Greedy. Reference: Gebremedhin, Manne and Pothen, SIAM Review 47 (2005), algorithms 3.1 and
4.1; Curtis, Powell and Reid (1974); Coleman and Verma, SIAM J. Sci. Comput. 19 (1998).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import astype, beside, numpy_dtype, take
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.errors import value_error
from ldiv.structures.sparse import Sparse

X = TypeVar("X")  # arrays of one type
TRIES = 8  # splits into long rows and others


@dataclass(frozen=True, eq=False)
class Compression:
    """A coloring of a pattern: values = concat((J S)^T, R J)[index], with both products read row by
    row. Rows and columns of color -1 are in no product.
    """

    by_column: Index  # the color of each column, 0 .. p - 1
    by_row: Index  # of each row, 0 .. q - 1
    index: Index  # of each entry

    @cached_property
    def p(self) -> int:
        return _count(self.by_column)

    @cached_property
    def q(self) -> int:
        return _count(self.by_row)

    @property
    def forward(self) -> Index:
        """S (n, p)."""
        return self.seeds(self.by_column, self.p, self.by_column + 0.0).T

    @property
    def reverse(self) -> Index:
        """R (q, m)."""
        return self.seeds(self.by_row, self.q, self.by_row + 0.0)

    @staticmethod
    def seeds(color: Index, count: int, like: X) -> X:
        """S[color, j] = 1 where j is of this color, of the kind and dtype of `like`."""
        xp = namespace(like)
        mine = xp.asarray(_small(color), **beside(like))
        every = xp.asarray(_small(np.arange(count)), **beside(like))
        return astype(mine[None, :] == every[:, None], numpy_dtype(like))

    def entries(self, *products: Array) -> Array:
        """The entries of J, from (J S)^T, and from R J where there is an R."""
        xp = namespace(products[0])
        flat = [xp.reshape(y, (-1,)) for y in products]
        return take(flat[0] if len(flat) == 1 else xp.concat(flat), self.index)

    @property
    def cost(self) -> float:
        return _cost(self.p, self.q)


def compression(structure: Sparse, mode: str) -> Compression:
    """Return the products of a mode: forward, reverse, both, symmetric, or "auto", the one of the
    first three that takes fewest.
    """
    return structure.cached(("compression", mode), lambda: _compression(structure.pattern, mode))


def _compression(pattern: Pattern, mode: str) -> Compression:
    if mode == "symmetric":
        return _symmetric(pattern)
    lengths = np.bincount(pattern.places[0], minlength=pattern.shape[0])
    none, every = lengths < 0, lengths >= 0
    some = [lengths >= bound for bound in distinct(lengths[lengths > 1])]
    return _fewest(
        pattern,
        {
            "forward": [none],
            "reverse": [every],
            "both": some or [none],
            "auto": [none, every, *some],
        }[mode],
    )


def _fewest(pattern: Pattern, splits: list[Index]) -> Compression:
    """Color the best split into rows that are taken in reverse and others. A split that cannot take
    fewer products than another is not colored.
    """
    bounds = [_at_least(pattern, long) for long in splits]
    best: Compression | None = None
    for i in np.argsort(bounds, kind="stable")[:TRIES]:
        if best is not None and best.cost <= bounds[i]:
            break
        made = _split(pattern, splits[i], best.cost if best else np.inf)
        best = made if made and (best is None or made.cost < best.cost) else best
    assert best is not None
    return best


def _at_least(pattern: Pattern, long: Index) -> float:
    """The cost of a split is no less than that of its fullest row forward and its fullest column
    in reverse.
    """
    rows, cols = pattern.places
    back = long[rows]
    return _cost(*(int(np.bincount(i).max(initial=0)) for i in (rows[~back], cols[back])))


def _cost(forward: int, reverse: int) -> float:
    """Count the products, plus 1/2 if both directions are used, so that one direction wins a tie."""
    return forward + reverse + (0.5 if forward and reverse else 0)


def _split(pattern: Pattern, long: Index, limit: float) -> Compression | None:
    """Color `long` rows in reverse and the others forward; None if that costs `limit` or more."""
    (m, n), (rows, cols) = pattern.shape, pattern.places
    back = long[rows]
    by_column = _column_coloring(rows[~back], cols[~back], (m, n), limit)
    if by_column is None:
        return None
    left = limit - _count(by_column) * (~back).any() if back.any() else np.inf
    by_row = _column_coloring(cols[back], rows[back], (n, m), left)
    if by_row is None:
        return None
    by_column[
        np.bincount(cols[~back], minlength=n) == 0
    ] = -1  # columns without entries need no product
    by_row[~long] = -1
    p = _count(by_column)
    return Compression(
        by_column,
        by_row,
        _small(np.where(back, m * p + by_row[rows] * n + cols, by_column[cols] * m + rows)),
    )


def _symmetric(pattern: Pattern) -> Compression:
    (m, n), (rows, cols) = pattern.shape, pattern.places
    if m != n or pattern.mirror is None:
        raise value_error(
            "pattern",
            "a symmetric one",
            f"an entry without its mirror image, or {m} x {n}",
            "Add the transposed entries.",
        )
    color = _star(rows, cols, n)
    count = _count(color)
    once = distinct(rows * n + cols)  # duplicates are one entry
    owner, occurrences = np.unique(once // n * count + color[once % n], return_counts=True)
    alone = np.isin(rows * count + color[cols], owner[occurrences == 1])
    return Compression(
        color,
        np.full(m, -1),
        _small(np.where(alone, color[cols] * n + rows, color[rows] * n + cols)),
    )


def _small(index: Index) -> Index:
    """Return 32-bit indices if they suffice; compiled gathers are faster with them."""
    return index.astype(np.int32) if index.max(initial=0) < 2**31 else index


def _count(color: Index) -> int:
    return int(color.max(initial=-1)) + 1


# -- greedy, a color being a bit: sets of colors are integers -----------------


def _flat(of: Index, what: Index, count: int) -> tuple[list[int], list[int]]:
    """Return the columns of each of `count` rows, row after row, and the end of each row."""
    sorted_already = len(of) < 2 or bool((of[1:] >= of[:-1]).all())
    flat = what if sorted_already else what[np.argsort(of, kind="stable")]
    return flat.tolist(), [0, *np.bincount(of, minlength=count).cumsum().tolist()]


def _lists(of: Index, what: Index, count: int) -> list[list[int]]:
    flat, ends = _flat(of, what, count)
    return [flat[start:end] for start, end in pairwise(ends)]


def _column_coloring(
    rows: Index, cols: Index, shape: tuple[int, int], limit: float
) -> Index | None:
    """Color columns, differently if they share a row; None if that takes `limit` colors or more."""
    m, n = shape
    if not len(rows):
        return np.full(n, -1, np.intp)
    lengths = np.bincount(rows, minlength=m)
    weight = np.bincount(cols, lengths[rows], n)
    flat, ends = _flat(cols, rows, n)
    colors = partial(_greedy_columns, flat, ends, m)
    return _in_either_order(weight, colors, int(lengths.max()), limit)


def _star(rows: Index, cols: Index, n: int) -> Index:
    """Colors of the vertices of a graph, no path of four vertices in two colors."""
    off = distinct((rows * n + cols)[rows != cols])
    near = _lists(off // n, off % n, n)
    color = _in_either_order(np.bincount(off // n, minlength=n), partial(_greedy_star, near))
    assert color is not None
    return color


def _in_either_order(
    weight: Index,
    colors: Callable[[list[int], int], list[int] | None],
    fewest: int = 0,
    limit: float = np.inf,
) -> Index | None:
    """Color in the given order, which is often better on a numbered mesh, then largest first,
    unless no order can take fewer colors.

    An order is abandoned once it takes as many colors as another, or `limit`.
    """
    first_too_many = 1 << max(int(np.ceil(limit)) - 1, 0) if limit < np.inf else 0
    bits = colors(list(range(len(weight))), first_too_many)
    most = max(bits, default=0) if bits else first_too_many
    if bits is None or most.bit_length() > fewest:
        bits = colors(np.argsort(-weight, kind="stable").tolist(), most) or bits
    return None if bits is None else np.array([bit.bit_length() for bit in bits], dtype=np.intp) - 1


def _greedy_columns(
    flat: list[int], ends: list[int], m: int, order: list[int], limit: int
) -> list[int] | None:
    """Color columns that share a row differently; None once a color is `limit`, unless that is 0."""
    used, mine = [0] * m, [0] * (len(ends) - 1)
    for j in order:
        taken, near = 0, flat[ends[j] : ends[j + 1]]
        for i in near:
            taken |= used[i]
        bit = mine[j] = ~taken & (taken + 1)  # the first that is free
        if bit == limit:
            return None
        for i in near:
            used[i] |= bit
    return mine


def _greedy_star(near: list[list[int]], order: list[int], limit: int) -> list[int] | None:
    """Find a star coloring greedily; None once a color is `limit`, unless that is 0."""
    # the colors of the neighbors of a vertex, those that occur twice there, and its own
    once, twice, mine = ([0] * len(near) for _ in range(3))
    # the colors of neighbors that have two neighbors of the color of this vertex
    closed = [0] * len(near)
    for v in order:
        taken = once[v]
        # if the color of w occurs once around v, a path v w x y must not have two colors
        for w in near[v]:
            taken |= closed[w] if mine[w] & ~twice[v] else once[w]
        bit = mine[v] = ~taken & (taken + 1)
        if bit == limit:
            return None
        for w in near[v]:
            if mine[w] & twice[v]:
                closed[w] |= bit
            if once[w] & bit:
                for u in [v] if twice[w] & bit else near[w]:
                    closed[u] |= mine[w] if mine[u] == bit else 0
                twice[w] |= bit
            once[w] |= bit
    return mine
