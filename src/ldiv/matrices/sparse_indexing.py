"""Index arithmetic for sums and products of sparse arrays; no values.

Positions are numbered row by row: key = row * columns + column; where that would overflow, among
the rows and columns in use. The structure that is returned carries its symbolic work: in a loop,
A + s B is ordered once.
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
    """The keys of each of the positions, and a function from keys to a structure."""
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
    """(structure, place): entry e goes to place[e].

    (None, None) where the positions are sorted and there are no duplicates.
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
