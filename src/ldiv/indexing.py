"""Where entries go when sparse arrays are added, multiplied elementwise, or multiplied: index arithmetic, no values.

Positions are numbered row by row: key = row * columns + column. Whoever keeps the structure that is returned keeps its
symbolic work too: in a loop, A + s B is ordered once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.pattern import Pattern
from ldiv.structures.sparse import Sparse

Index = np.ndarray[Any, np.dtype[Any]]
Position = tuple[Index, Index]


def _keys(at: Position, columns: int) -> Index:
    return at[0].astype(np.int64) * columns + at[1]


def _structure(keys: Index, shape: tuple[int, int]) -> Sparse:
    return Sparse(Pattern(*np.divmod(keys, max(shape[1], 1)), shape))


def canonical(row: Index, col: Index, shape: tuple[int, int]) -> tuple[Sparse | None, Index | None]:
    """(structure, place): entry e goes to place[e]; (None, None) where every position is there once, in order."""
    keys = _keys((row, col), shape[1])
    if (np.diff(keys) > 0).all():
        return None, None
    unique, place = np.unique(keys, return_inverse=True)
    return _structure(unique, shape), place


def union(a: Position, b: Position, shape: tuple[int, int]) -> tuple[Sparse, Index]:
    """(structure, place): entry e of a followed by b goes to place[e]."""
    unique, place = np.unique(np.concatenate([_keys(a, shape[1]), _keys(b, shape[1])]), return_inverse=True)
    return _structure(unique, shape), place


def intersection(a: Position, b: Position, shape: tuple[int, int]) -> tuple[Sparse, Index, Index]:
    """(structure, i, j): the positions that both have are those of entries i of a and j of b; no duplicates in either."""
    keys, i, j = np.intersect1d(_keys(a, shape[1]), _keys(b, shape[1]), assume_unique=True, return_indices=True)
    return _structure(keys, shape), i, j


def product(a: Position, b: Position, sizes: tuple[int, int, int]) -> tuple[Sparse, Index, Index, Index]:
    """(structure, i, j, place): (A B) at place[t] collects a[i[t]] b[j[t]]."""
    m, k, n = sizes
    by_row = np.argsort(b[0], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(b[0], minlength=k))])
    partners = (start[1:] - start[:-1])[a[1]]
    i = np.repeat(np.arange(len(partners)), partners)
    first = np.concatenate([[0], np.cumsum(partners)])[:-1]
    j = by_row[start[a[1]][i] + np.arange(len(i)) - first[i]]
    unique, place = np.unique(_keys((a[0][i], b[1][j]), n), return_inverse=True)
    return _structure(unique, (m, n)), i, j, place
