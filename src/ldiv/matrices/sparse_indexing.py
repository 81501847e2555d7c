"""Index arithmetic for sums and products of sparse arrays, and for other formats; no values.

Positions are numbered row by row: key = row * columns + column; where that would overflow, among
the rows and columns in use. The structure that is returned carries its symbolic work: in a loop,
A + s B is ordered once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.structures.sparse import Sparse

Position = tuple[Index, Index]
_made: weakref.WeakValueDictionary[Pattern, Sparse] = weakref.WeakValueDictionary()
_full: weakref.WeakValueDictionary[tuple[int, int], Sparse] = weakref.WeakValueDictionary()


def structure_at(rows: Index, cols: Index, shape: tuple[int, int]) -> Sparse:
    """The structure of a pattern; equal patterns share one for as long as it lives.

    An array that is rebuilt in a loop keeps its symbolic work.
    """
    pattern = Pattern(rows, cols, shape)
    structure = _made.get(pattern)
    return _made.setdefault(pattern, Sparse(pattern)) if structure is None else structure


def all_of(shape: tuple[int, int]) -> Sparse:
    """The structure of all entries, row by row."""
    if (found := _full.get(shape)) is None:
        rows, cols = np.indices(shape).reshape(2, -1)
        found = _full[shape] = structure_at(rows, cols, shape)
    return found


def _numbered(
    shape: tuple[int, int], *positions: Position
) -> tuple[list[Index], Callable[[Index], Sparse]]:
    """The keys of each of the positions, and a function from keys to a structure."""
    columns = max(shape[1], 1)
    if shape[0] * columns <= np.iinfo(np.int64).max:
        return [
            row.astype(np.int64) * columns + col for row, col in positions
        ], lambda keys: Sparse(Pattern(*np.divmod(keys, columns), shape))
    rows, cols = (distinct(np.concatenate(i)) for i in zip(*positions, strict=True))
    keys = [
        np.searchsorted(rows, row) * len(cols) + np.searchsorted(cols, col)
        for row, col in positions
    ]
    return keys, lambda keys: Sparse(
        Pattern(rows[keys // len(cols)], cols[keys % len(cols)], shape)
    )


def canonical(
    at: Position, shape: tuple[int, int], axis: int = 0
) -> tuple[Sparse | None, Index | None]:
    """(structure, place): entry e goes to place[e], row by row (axis 0) or column by column (1).

    (None, None) where the positions are sorted and there are no duplicates.
    """
    lines, sizes = (at, shape) if axis == 0 else (at[::-1], shape[::-1])
    (keys,), structure = _numbered(sizes, lines)
    if (np.diff(keys) > 0).all():
        return None, None
    unique, place = np.unique(keys, return_inverse=True)
    once = structure(unique).pattern
    rows, cols = (once.rows, once.cols) if axis == 0 else (once.cols, once.rows)
    return structure_at(rows, cols, shape), place


def by_lines(at: Position, shape: tuple[int, int], axis: int) -> tuple[Sparse | None, Index | None]:
    """(structure, order): the entries in compressed rows (axis 0) or columns (axis 1).

    Those of one line keep their order. (None, None) where they have it already.
    """
    line = at[axis]
    if (line[1:] >= line[:-1]).all():
        return None, None
    order = np.argsort(line, kind="stable")
    return structure_at(at[0][order], at[1][order], shape), order


def starts(line: Index, count: int) -> Index:
    """The beginning of each line, (count + 1,), in entries that are sorted by line."""
    return np.concatenate([[0], np.cumsum(np.bincount(line, minlength=count))]).astype(line.dtype)


def along(index: Index, lines: range | Index) -> tuple[Index, Index]:
    """(entry, place): entry[t] is one with index[entry[t]] = lines[place[t]].

    An entry comes as often as its line does.
    """
    if isinstance(lines, range):
        first, last = sorted((lines.start, lines.start + lines.step * (len(lines) - 1)))
        entry = np.flatnonzero((index >= first) & (index <= last))
        place, rest = np.divmod(index[entry].astype(np.int64) - lines.start, lines.step)
        on = (rest == 0) & (place >= 0) & (place < len(lines))
        return entry[on], place[on]
    order = np.argsort(index, kind="stable")
    return _matches(order, index[order], lines)


def _matches(order: Index, ascending: Index, wanted: Index) -> tuple[Index, Index]:
    """(entry, place): order[e] and t for all e, t with ascending[e] = wanted[t]."""
    first = np.searchsorted(ascending, wanted, side="left")
    count = np.searchsorted(ascending, wanted, side="right") - first
    place = np.repeat(np.arange(len(wanted)), count)
    before = np.cumsum(count) - count
    return order[first[place] + np.arange(len(place)) - before[place]], place


def pairs(at: Position, wanted: Position, shape: tuple[int, int]) -> tuple[Index, Index]:
    """(entry, place): entry[t] is one at the position wanted[place[t]]."""
    (keys, others), _ = _numbered(shape, at, wanted)
    order = np.argsort(keys, kind="stable")
    return _matches(order, keys[order], others)


def union(a: Position, b: Position, shape: tuple[int, int]) -> tuple[Sparse, Index]:
    """(structure, place): entry e of a followed by b goes to place[e]."""
    keys, structure = _numbered(shape, a, b)
    unique, place = np.unique(np.concatenate(keys), return_inverse=True)
    return structure(unique), place


def intersection(a: Position, b: Position, shape: tuple[int, int]) -> tuple[Sparse, Index, Index]:
    """(structure, i, j): the common positions are those of entries i of a and j of b.

    Neither may have duplicates.
    """
    (one, other), structure = _numbered(shape, a, b)
    common, i, j = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return structure(common), i, j


def product(
    a: Position, b: Position, sizes: tuple[int, int, int]
) -> tuple[Sparse, Index, Index, Index]:
    """(structure, i, j, place): entry place[t] of A B is the sum of all a[i[t]] b[j[t]]."""
    m, k, n = sizes
    # The entries of B sorted by row; those of row r begin at start[r].
    by_row = np.argsort(b[0], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(b[0], minlength=k))])
    # An entry of A in column r meets every entry of B in row r: it is repeated as often.
    partners = (start[1:] - start[:-1])[a[1]]
    i = np.repeat(np.arange(len(partners)), partners)
    first = np.concatenate([[0], np.cumsum(partners)])[:-1]
    j = by_row[start[a[1]][i] + np.arange(len(i)) - first[i]]
    # Terms at the same position add up.
    (keys,), structure = _numbered((m, n), (a[0][i], b[1][j]))
    unique, place = np.unique(keys, return_inverse=True)
    return structure(unique), i, j, place
