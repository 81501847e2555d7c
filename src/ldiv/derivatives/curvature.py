"""The Hessian H of a cost on a sparsity pattern: its entries, and H + diag(d)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.derivatives.jacobian_values import cotangents, sparse_values
from ldiv.structures.sparse import Sparse

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class SparseCurvature:
    """Hessians on a symmetric pattern that has the diagonal."""

    structure: Sparse

    @property
    def base(self) -> Sparse:
        """The structure of the Hessian."""
        return self.structure

    @property
    def nnz(self) -> tuple[int, ...]:
        return (self.base.pattern.nnz,)

    def hessian(self, g: Function, x: Array, pull: Any = None, is_right: bool = False) -> Array:
        """Return the values of dg/dx by reverse products; PyTorch's checks of g are made once.

        `pull`: the pullback of g at x, if there is one. `is_right`: the caller checks the pattern.
        """
        multiply = cotangents if pull is None else partial(cotangents, pull=pull)
        return sparse_values(self.base, "symmetric", g, x, multiply=multiply, is_right=is_right)

    def diagonal(self, H: Array) -> Array:
        return take(H, self.base.cached("diagonal", self._diagonal))

    def shifted(self, H: Array, d: Array) -> Array:
        """H + diag(d)."""
        columns = self.base.cached("columns of the diagonal", self._columns)
        return H + take(namespace(d).concat([d, 0 * d[:1]]), columns)

    def _diagonal(self) -> Index:
        rows, cols = self.base.pattern.places
        found = np.flatnonzero(rows == cols)
        return found[np.argsort(rows[found])]

    def _columns(self) -> Index:
        """Return the column of each entry on the diagonal, and n for the others."""
        rows, cols = self.base.pattern.places
        return np.where(rows == cols, cols, self.base.shape[1])


def with_diagonal(base: Sparse) -> Sparse:
    """The structure of a square matrix on this pattern and its diagonal."""
    found: Sparse = base.cached("with the diagonal", partial(_with_diagonal, base.pattern))
    return found


def _with_diagonal(pattern: Pattern) -> Sparse:
    (rows, cols), n = pattern.places, pattern.shape[0]
    at = distinct(np.concatenate([cols.astype(np.int64) * n + rows, np.arange(n) * (n + 1)]))
    return Sparse(Pattern(at % max(n, 1), at // max(n, 1), (n, n)))
