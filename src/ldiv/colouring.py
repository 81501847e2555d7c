"""Columns of one colour have no row in common, so that one product with their sum tells all their entries apart.

forward      J S, S[j, colour[j]] = 1: an entry (i, j) is (J S)[i, colour[j]];   reverse the same of J^T
both         rows that are long are taken in reverse, the others forward: an arrowhead takes a few colours, not n
symmetric    star colouring, every path of four vertices has three colours: (i, j) is read at (i, colour[j]) or at (j, colour[i])

Greedy, the vertex with the most neighbours first. Reference: Gebremedhin, Manne and Pothen, SIAM Review 47 (2005), algorithms 3.1 and
4.1; Curtis, Powell and Reid (1974); Coleman and Verma, SIAM J. Sci. Comput. 19 (1998).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.errors import got
from ldiv.pattern import Pattern

Index = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Compression:
    """How the entries of a pattern come from products: values = concat(J S, R J)[index], both read row by row."""

    forward: Index  # S (n, p)
    reverse: Index  # R (q, m)
    index: Index  # of each entry


def compression(pattern: Pattern, mode: str) -> Compression:
    """The products that a mode takes: forward, reverse, both, symmetric, or of the first three the one that takes fewest, "auto"."""
    made = {"forward": _forward, "reverse": _reverse, "both": _both, "symmetric": _symmetric}
    if mode != "auto":
        return made[mode](pattern)
    return min((made[name](pattern) for name in ("forward", "reverse", "both")), key=lambda c: c.forward.shape[1] + c.reverse.shape[0])


def _forward(pattern: Pattern) -> Compression:
    (m, n), (rows, cols) = pattern.shape, pattern.places
    colour = _apart(rows, cols, (m, n))
    count = _count(colour)
    return Compression(_seeds(colour, count), np.zeros((0, m)), rows * count + colour[cols])


def _reverse(pattern: Pattern) -> Compression:
    (m, n), (rows, cols) = pattern.shape, pattern.places
    colour = _apart(cols, rows, (n, m))
    return Compression(np.zeros((n, 0)), _seeds(colour, _count(colour)).T, colour[rows] * n + cols)


def _both(pattern: Pattern) -> Compression:
    """Rows longer than a bound in reverse, the rest forward; the bound that takes the fewest products."""
    lengths = np.bincount(pattern.places[0], minlength=pattern.shape[0])
    bounds = np.unique(lengths)[::-1]
    tried = bounds[: np.searchsorted(-bounds, -1)][: 8 if len(bounds) > 8 else None]
    made = [_split(pattern, lengths >= bound) for bound in tried]
    return min(made or [_forward(pattern)], key=lambda c: c.forward.shape[1] + c.reverse.shape[0])


def _split(pattern: Pattern, long: Index) -> Compression:
    (m, n), (rows, cols) = pattern.shape, pattern.places
    back = long[rows]
    by_column, by_row = _apart(rows[~back], cols[~back], (m, n)), _apart(cols[back], rows[back], (n, m))
    by_column[np.bincount(cols[~back], minlength=n) == 0] = -1  # nothing is asked of them
    by_row[~long] = -1
    p, q = _count(by_column), _count(by_row)
    return Compression(_seeds(by_column, p), _seeds(by_row, q).T, np.where(back, m * p + by_row[rows] * n + cols, rows * p + by_column[cols]))


def _symmetric(pattern: Pattern) -> Compression:
    (m, n), (rows, cols) = pattern.shape, pattern.places
    if m != n or pattern.mirror is None:
        raise ValueError(got("pattern", "a symmetric one", f"an entry without its mirror image, or {m} x {n}", "Add the transposed entries."))
    colour = _star(rows, cols, n)
    count = _count(colour)
    once = np.unique(rows * n + cols)  # duplicates are one entry
    owner, occurrences = np.unique(once // n * count + colour[once % n], return_counts=True)
    alone = np.isin(rows * count + colour[cols], owner[occurrences == 1])
    return Compression(_seeds(colour, count), np.zeros((0, n)), np.where(alone, rows * count + colour[cols], cols * count + colour[rows]))


def _count(colour: Index) -> int:
    return int(colour.max(initial=-1)) + 1


def _seeds(colour: Index, count: int) -> Index:
    """S[j, colour[j]] = 1, nothing for a colour of -1."""
    seeds = np.zeros((len(colour), count))
    given = np.flatnonzero(colour >= 0)
    seeds[given, colour[given]] = 1
    return seeds


# -- greedy ----------------------------------------------------------------------------------------------------------------------------


def _lists(rows: Index, cols: Index, shape: tuple[int, int]) -> tuple[Index, Index]:
    """(starts, columns): the columns of each row, each once."""
    compressed = sp.csr_array((np.ones(len(rows), np.int8), (rows, cols)), shape=shape)
    compressed.sum_duplicates()
    return compressed.indptr, compressed.indices


def _greedy(order: Index, forbidden: Callable[[int, Index], Index], n: int) -> Index:
    colour = np.full(n, -1)
    for v in order:
        taken = np.unique(forbidden(int(v), colour))
        taken = taken[taken >= 0]
        gaps = np.flatnonzero(taken != np.arange(len(taken)))
        colour[v] = gaps[0] if len(gaps) else len(taken)
    return colour


def _apart(rows: Index, cols: Index, shape: tuple[int, int]) -> Index:
    """Colours of columns, different where they meet in a row."""
    (row_starts, of_row), (col_starts, of_col) = _lists(rows, cols, shape), _lists(cols, rows, shape[::-1])
    lengths = np.diff(row_starts)

    def met(j: int, colour: Index) -> Index:
        meeting = of_col[col_starts[j] : col_starts[j + 1]]
        return colour[np.concatenate([of_row[row_starts[i] : row_starts[i + 1]] for i in meeting])] if len(meeting) else meeting[:0]

    weight = np.bincount(cols, lengths[rows], shape[1])
    return _greedy(np.argsort(-weight, kind="stable"), met, shape[1])


def _star(rows: Index, cols: Index, n: int) -> Index:
    """Colours of the vertices of a graph, no path of four vertices in two colours."""
    off = rows != cols
    starts, near = _lists(rows[off], cols[off], (n, n))

    def around(v: int) -> Index:
        return near[starts[v] : starts[v + 1]]

    def forbidden(v: int, colour: Index) -> Index:
        mine = around(v)
        found = [colour[mine]]
        for w in mine:
            beyond = around(w)
            beyond = beyond[(beyond != v) & (colour[beyond] >= 0)]
            if colour[w] < 0:
                found.append(colour[beyond])
                continue
            for x in beyond:
                further = around(x)
                if (colour[further[further != w]] == colour[w]).any():
                    found.append(colour[x : x + 1])
        # a neighbour's colour that comes twice around v: their other neighbours may not have the colour of v
        twice, counts = np.unique(colour[mine], return_counts=True)
        for c in twice[(counts > 1) & (twice >= 0)]:
            for w in mine[colour[mine] == c]:
                beyond = around(w)
                found.append(colour[beyond[beyond != v]])
        return np.concatenate(found)

    return _greedy(np.argsort(-np.diff(starts), kind="stable"), forbidden, n)
