"""G = J^T W J + diag(d), assembled from the entries of J on a pattern that is made once.

    G_jk = sum_i w_i J_ij J_ik       a pair of entries of row i for each term, j >= k

W is diagonal. The pattern is that of J^T J with its diagonal, on which the Hessian of a sum of
functions of the residuals has its entries, too: they share the symbolic analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import alike, take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, namespace, scatter
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.rules.structure import Structure
from ldiv.derivatives.curvature import Function, SparseCurvature
from ldiv.derivatives.jacobian_values import dense_values, sparse_values
from ldiv.errors import shown, value_error
from ldiv.matrices.construct import asarray
from ldiv.structures.dense import dense
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class DenseEquations:
    """The normal equations of a dense J (m, n)."""

    m: int
    n: int

    @property
    def base(self) -> Structure:
        """The structure of G and of the Hessian."""
        return dense(self.n, self.n)

    @property
    def nnz(self) -> tuple[int, ...]:
        return self.n, self.n

    def jacobian(self, f: Function, x: Array) -> Array:
        """The values of J at x."""
        return dense_values(f, x, self.m, "reverse" if self.m < self.n else "auto")

    def values(self, J: Any) -> Array:
        """The values of a J that was given."""
        if not is_array(J) or tuple(J.shape) != (self.m, self.n):
            advice = "Rows are residuals, columns unknowns; a sparse one needs its pattern=."
            raise value_error("jac", f"an array {(self.m, self.n)}", shown(J), advice)
        found: Array = J
        return found

    def hessian(self, g: Function, x: Array) -> Array:
        """The values of dg/dx, for the gradient g of a cost."""
        return dense_values(g, x, self.n, "auto")

    def product(self, J: Array, r: Array) -> Array:
        """J^T r."""
        return namespace(J).matmul(J.mT, r)

    def assembled(self, J: Array, w: Array) -> Array:
        """The values of J^T W J."""
        return namespace(J).matmul(J.mT, w[:, None] * J)

    def diagonal(self, G: Array) -> Array:
        return namespace(G).reshape(G, (-1,))[:: self.n + 1]

    def shifted(self, G: Array, d: Array) -> Array:
        """G + diag(d)."""
        xp = namespace(G)
        return G + d[:, None] * xp.asarray(np.eye(self.n), **alike(G))

    def lengths(self, J: Array) -> Array:
        """|J e_j|."""
        return namespace(J).linalg.vector_norm(J, axis=0)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of entries of J that are multiplied, and the slots to which products are added."""

    first: Index
    second: Index
    row: Index  # of J
    slot: Index  # of the lower triangle of G, column by column
    slots: int
    pattern: Pattern  # of G
    expand: Index  # the slot of each entry of it


@dataclass(frozen=True)
class SparseEquations(SparseCurvature):
    """The normal equations of a sparse J, on a pattern without duplicates."""

    @property
    def m(self) -> int:
        return self.structure.shape[0]

    @property
    def pairs(self) -> Pairs:
        return self.structure.cached("pairs", lambda: _pairs(self.structure.pattern))

    @property
    def base(self) -> Sparse:
        return self.structure.cached("normal equations", lambda: Sparse(self.pairs.pattern))

    def jacobian(self, f: Function, x: Array) -> Array:
        """The values of J at x."""
        return sparse_values(self.structure, "auto", f, x)

    def values(self, J: Any) -> Array:
        """The values of a J that was given, in the places of the pattern."""
        matrix, wanted = asarray(J), self.structure.shape
        if tuple(matrix.shape) != wanted:
            advice = "Rows are residuals, columns unknowns."
            raise value_error("jac", f"a matrix {wanted}", shown(J), advice)
        found: Array = matrix[self.structure.pattern.rows, self.structure.pattern.cols]
        return found

    def product(self, J: Array, r: Array) -> Array:
        """J^T r."""
        return self.structure.T.matmul(J, r[:, None])[:, 0]

    def assembled(self, J: Array, w: Array) -> Array:
        """The values of J^T W J."""
        pairs = self.pairs
        terms = take(J, pairs.first) * take(J, pairs.second) * take(w, pairs.row)
        return take(_summed(terms, pairs.slot, pairs.slots), pairs.expand)

    def lengths(self, J: Array) -> Array:
        """|J e_j|."""
        cols, n = self.structure.pattern.places[1], self.structure.shape[1]
        return namespace(J).sqrt(_summed(J * J, cols, n))


Equations = DenseEquations | SparseEquations


def _summed(x: Array, index: Index, size: int) -> Array:
    """y_i = sum of x_e over the e with index[e] = i."""
    if isinstance(x, np.ndarray):
        return np.bincount(index, x, size).astype(x.dtype)
    return scatter(x[:, None], index, size)[:, 0]


def _pairs(pattern: Pattern) -> Pairs:
    rows, cols = pattern.places
    n = pattern.shape[1]
    order = np.lexsort((cols, rows))
    counts = np.bincount(rows, minlength=pattern.shape[0])
    starts = np.cumsum(counts) - counts
    found = []
    for length in distinct(counts[counts > 0]):  # all rows of one length at once
        entries = order[starts[counts == length][:, None] + np.arange(length)]
        a, b = np.triu_indices(length)
        found.append((entries[:, a].ravel(), entries[:, b].ravel()))
    none = np.zeros(0, np.intp)
    first, second = (np.concatenate(side) for side in zip((none, none), *found, strict=True))
    # in a row columns are sorted: the first one of a pair is the column of the lower triangle
    own = np.arange(n, dtype=np.int64)
    places = np.concatenate([cols[first].astype(np.int64) * n + cols[second], own * n + own])
    kept, slot = np.unique(places, return_inverse=True)
    col, row = kept // max(n, 1), kept % max(n, 1)
    below = np.flatnonzero(row > col)
    all_rows, all_cols = np.concatenate([row, col[below]]), np.concatenate([col, row[below]])
    slots = np.concatenate([np.arange(len(kept)), below])
    sorting = np.lexsort((all_rows, all_cols))
    of_G = Pattern(all_rows[sorting], all_cols[sorting], (n, n))
    return Pairs(first, second, rows[first], slot[: len(first)], len(kept), of_G, slots[sorting])
