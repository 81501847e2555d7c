"""Where entries go when sparse arrays are added, multiplied elementwise, or multiplied: index
arithmetic, no values.

Positions are numbered row by row: key = row * columns + column; where that would overflow, among
the rows and columns in use. Whoever keeps the structure that is returned keeps its symbolic work
too: in a loop, A + s B is ordered once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.pattern import Pattern
from ldiv.structures.sparse import Sparse

Index = np.ndarray[Any, np.dtype[Any]]
Position = tuple[Index, Index]


def _numbered(
    shape: tuple[int, int], *positions: Position
) -> tuple[list[Index], Callable[[Index], Sparse]]:
    """The keys of each of the positions, and the structure that has given keys."""
    columns = max(shape[1], 1)
    if shape[0] * columns <= np.iinfo(np.int64).max:
        return [
            row.astype(np.int64) * columns + col for row, col in positions
        ], lambda keys: Sparse(Pattern(*np.divmod(keys, columns), shape))
    rows, cols = (np.unique(np.concatenate(i)) for i in zip(*positions, strict=True))
    keys = [
        np.searchsorted(rows, row) * len(cols) + np.searchsorted(cols, col)
        for row, col in positions
    ]
    return keys, lambda keys: Sparse(
        Pattern(rows[keys // len(cols)], cols[keys % len(cols)], shape)
    )


def canonical(row: Index, col: Index, shape: tuple[int, int]) -> tuple[Sparse | None, Index | None]:
    """(structure, place): entry e goes to place[e]; (None, None) where every position is there
    once, in order.
    """
    (keys,), structure = _numbered(shape, (row, col))
    if (np.diff(keys) > 0).all():
        return None, None
    unique, place = np.unique(keys, return_inverse=True)
    return structure(unique), place


def union(a: Position, b: Position, shape: tuple[int, int]) -> tuple[Sparse, Index]:
    """(structure, place): entry e of a followed by b goes to place[e]."""
    keys, structure = _numbered(shape, a, b)
    unique, place = np.unique(np.concatenate(keys), return_inverse=True)
    return structure(unique), place


def intersection(a: Position, b: Position, shape: tuple[int, int]) -> tuple[Sparse, Index, Index]:
    """(structure, i, j): the positions that both have are those of entries i of a and j of b; no
    duplicates in either.
    """
    (one, other), structure = _numbered(shape, a, b)
    common, i, j = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return structure(common), i, j


def product(
    a: Position, b: Position, sizes: tuple[int, int, int]
) -> tuple[Sparse, Index, Index, Index]:
    """(structure, i, j, place): (A B) at place[t] collects a[i[t]] b[j[t]]."""
    m, k, n = sizes
    by_row = np.argsort(b[0], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(b[0], minlength=k))])
    partners = (start[1:] - start[:-1])[a[1]]
    i = np.repeat(np.arange(len(partners)), partners)
    first = np.concatenate([[0], np.cumsum(partners)])[:-1]
    j = by_row[start[a[1]][i] + np.arange(len(i)) - first[i]]
    (keys,), structure = _numbered((m, n), (a[0][i], b[1][j]))
    unique, place = np.unique(keys, return_inverse=True)
    return structure(unique), i, j, place
