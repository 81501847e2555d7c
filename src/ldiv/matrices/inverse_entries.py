"""(A^-1)[rows, cols] of a sparse array, by the rule `inverse_entries` on a pattern that has these places."""

from __future__ import annotations

import numpy as np

from ldiv.core.arrays.shapes import conj, take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.engines import entries
from ldiv.errors import EngineError, expected_got
from ldiv.matrices import sparse_indexing
from ldiv.matrices.assumptions import definiteness, promised
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.gather import add_up
from ldiv.rules.inverse_entries import inverse_entries
from ldiv.structures.sparse import Sparse

SYMMETRIC = ("sym", "her", "pos")


def plain(a: SparseArray) -> SparseArray:
    """The same array, not as a view, each position once."""
    if a.structure.unview()[1] != "N":
        turned = a.structure.cached(
            "turned", lambda: Sparse(Pattern(a.row, a.col, a.structure.shape))
        )
        a = SparseArray(turned, a.values)
    return a.sum_duplicates() if pattern_of(a).has_duplicates else a


def pattern_of(a: SparseArray) -> Pattern:
    """The pattern of an array that is not a view."""
    assert isinstance(a.structure, Sparse)
    return a.structure.pattern


def inverse_at(a: SparseArray, rows: Index, cols: Index, assume_a: str) -> Array:
    """(A^-1)[rows, cols] for an array that is `plain`."""
    if not a.structure.shape[0]:  # without entries, but with rows, it is singular
        return a.values[..., :0]
    # the rule gives conj((A^-1)_ji) for an entry (i, j)
    turned = assume_a not in SYMMETRIC
    wider, place = _with_entries(a, *((cols, rows) if turned else (rows, cols)))
    structure, p = promised(wider, assume_a)
    assumption = definiteness(structure, assume_a)
    if not entries.supports(structure, p, assumption):
        what, came = "values on the cpu, or assume_a='pos'", f"others on {a.device}"
        raise EngineError(expected_got("entries of an inverse", what, came, "Move them there."))
    g = inverse_entries(structure, p, assumption)
    g = g if place is None else take(g, place)
    return g if structure.H == structure else conj(g)


def _with_entries(a: SparseArray, rows: Index, cols: Index) -> tuple[SparseArray, Index | None]:
    """The array with entries at these places too, and which they are; None for all, in order."""
    if np.array_equal(a.row, rows) and np.array_equal(a.col, cols):
        return a, None
    structure, place = sparse_indexing.union((a.row, a.col), (rows, cols), a.structure.shape)
    own, asked = place[: a.nnz], place[a.nnz :]
    if structure.pattern.nnz == a.nnz:
        return a, np.argsort(own)[asked]
    return SparseArray(structure, add_up(a.values, own, structure.pattern.nnz)), asked
