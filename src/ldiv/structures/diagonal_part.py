"""S(p) = the diagonal of a dense or sparse matrix, whose other entries are not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, masked, take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, scatter
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import Wrapper
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class DiagonalPart(Wrapper, Linear):
    """The diagonal of a matrix, on its parameters; off-diagonal entries have the cotangent 0."""

    base: Dense | Sparse

    @property
    def _alone(self) -> Diagonal:
        return Diagonal(self.shape[0])

    @property
    def _inside(self) -> Any:
        """A mask of the parameters on the diagonal."""
        return self.cached(
            "inside",
            lambda: (
                np.eye(self.shape[0]) > 0
                if isinstance(self.base, Dense)
                else self._rows == self.base.pattern.cols
            ),
        )

    @property
    def _rows(self) -> Any:
        assert isinstance(self.base, Sparse)
        return self.base.pattern.rows

    def diagonal(self, p: Array) -> Array:
        """The diagonal entries, duplicates summed."""
        if isinstance(self.base, Dense):
            return namespace(p).linalg.diagonal(p)
        on = np.flatnonzero(self._inside)
        return scatter(take(p, on)[..., None], self._rows[on], self.shape[0])[..., 0]

    def read(self, p: Tree) -> Tree:
        return masked(p, self._inside)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        return self._alone.apply(self.diagonal(p), x, op)

    def project(self, u: Array, v: Array) -> Tree:
        d = self._alone.project(u, v)
        return (
            self._alone.todense(d)
            if isinstance(self.base, Dense)
            else self.read(take(d, self._rows))
        )

    def determinant_diagonal(self, p: Tree) -> Array:
        if isinstance(self.base, Dense):
            return self.diagonal(p)
        ones = namespace(p).ones((self.shape[0], 1), **alike(p))
        return self.matmul(p, ones)[..., 0]  # S 1, by a rule

    def todense(self, p: Tree) -> Array:
        return self._alone.todense(self.diagonal(p))


def cases(draw: Any) -> Iterator[tuple[DiagonalPart, Tree]]:
    yield DiagonalPart(Dense(4, 4)), draw(4, 4) - 6
    rows, cols = np.array([3, 0, 1, 2, 3, 2, 3]), np.array([3, 0, 1, 2, 0, 1, 3])
    yield DiagonalPart(Sparse(Pattern(rows, cols, (4, 4)))), draw(2, 7) + 6
