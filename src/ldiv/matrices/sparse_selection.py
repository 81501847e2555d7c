"""A[rows, columns]: indexing as in NumPy and SciPy, by what is known when it is written.

    A[i, j]            a number                    A[[0, 2], [1, 1]], A[mask]    a vector
    A[i], A[:, j]      a vector                    A[1:3], A[free][:, free]      a sparse array

Indices select among the stored entries, so a result is a list of pairs (entry of the result, entry
of A), which the rule `Gather` applies and differentiates.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from ldiv.core.arrays.validate import require_int
from ldiv.core.calls.public import public
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import type_error
from ldiv.matrices import sparse_indexing
from ldiv.matrices.index_keys import Along, Pairs, index_key
from ldiv.matrices.sparse_indexing import Position
from ldiv.matrices.sparse_values import SparseValues
from ldiv.rules.gather import Gather, gather, gathering, selecting
from ldiv.structures.sparse import Sparse

KEPT = 8  # of the selections of one pattern those used last, with their patterns


class Selection(SparseValues):
    """Entries, rows, columns, blocks and diagonals."""

    @public
    def __getitem__(self, key: Any) -> Any:
        """Entries, rows and columns, as in NumPy; differentiable.

        Integers take a row or column away, and the result is an array of the framework: where SciPy
        has a sparse vector, a vector. Slices and one vector of indices, or a mask, keep it, and the
        result is a SparseArray. Indices are rows and columns also where there are batch axes. They
        must be known: under `jax.jit` they are NumPy arrays.
        """
        found, axis = index_key(key, self.structure.shape), int(self.format == "csc")
        scalar = not isinstance(found, Pairs) and found[0].scalar and found[1].scalar
        # single entries are not kept: there may be many
        rule, structure = (
            self._selections.__wrapped__(found, axis) if scalar else self._selections(found, axis)
        )
        values = gather(rule, self.values)
        if structure is not None:
            return self._on(structure, values, self.format)
        return values[..., 0] if scalar else values

    @property
    def _selections(self) -> Any:
        """`_selected` for this pattern, which remembers those asked for last."""
        return self.structure.cached(
            "selections",
            lambda: lru_cache(KEPT)(partial(_selected, self._at, self.structure.shape)),
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        """Refuse: a sparse array is a function of its values, which do not change."""
        advice = "New values: A.with_data(values). Its diagonal: ldiv.setdiag(A, values). Else add or multiply."
        raise type_error("A[...] = x", "an array that can be written to", "a SparseArray", advice)

    # -- diagonals ---------------------------------------------------------------------------------

    @public
    def diagonal(self, k: int = 0) -> Any:
        """The k-th diagonal (*batch, length), zero where nothing is stored; differentiable."""
        (m, n), k = self.structure.shape, require_int("k", k)
        length = max(min(m + min(k, 0), n - max(k, 0)), 0)
        return self._gathered(("diagonal", k), lambda: self._on_diagonal(k, length))

    @public
    def trace(self, offset: int = 0) -> Any:
        """The sum of the diagonal (*batch,); differentiable."""
        k = require_int("offset", offset)
        return self._gathered(("trace", k), lambda: self._on_diagonal(k, None))[..., 0]

    def _on_diagonal(self, k: int, length: int | None) -> Gather:
        """The entries of a diagonal of this length; without one their sum."""
        row, col = self._at
        on = np.flatnonzero(col.astype(np.int64) - row == k)
        if length is None:
            return gathering(on, np.zeros_like(on), (1, self.nnz))
        return gathering(on, row[on] + min(k, 0), (length, self.nnz))


def _selected(
    at: Position, shape: tuple[int, int], found: tuple[Along, Along] | Pairs, axis: int
) -> tuple[Gather, Sparse | None]:
    """The rule that makes the values of a selection, and its pattern unless it is a vector."""
    nnz = len(at[0])
    if isinstance(found, Pairs):
        rows, cols = found.rows.index, found.cols.index
        entry, place = sparse_indexing.pairs(at, (rows.ravel(), cols.ravel()), shape)
        if rows.ndim == 1:
            return gathering(entry, place, (rows.size, nnz)), None
        row, col = np.divmod(place, rows.shape[1])
        return _placed(entry, row, col, rows.shape, nnz, axis)
    down, across = found
    entry, row = sparse_indexing.along(at[0], down.content)
    inner, col = sparse_indexing.along(at[1][entry], across.content)
    entry, row = entry[inner], row[inner]
    if down.scalar or across.scalar:
        place, size = (col, len(across)) if down.scalar else (row, len(down))
        return gathering(entry, place, (size, nnz)), None
    return _placed(entry, row, col, (len(down), len(across)), nnz, axis)


def _placed(
    entry: Index, row: Index, col: Index, shape: tuple[int, int], nnz: int, axis: int
) -> tuple[Gather, Sparse]:
    """The rule and the pattern of these entries at (row, col), in the order of their lines."""
    order = np.lexsort((row, col) if axis else (col, row))
    structure = sparse_indexing.structure_at(row[order], col[order], shape)
    return selecting(entry[order], nnz), structure
