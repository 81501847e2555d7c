"""S(p) = the lower or upper triangle of a sparse matrix, possibly with a unit diagonal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, masked
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import Wrapper
from ldiv.structures.diagonal_part import DiagonalPart
from ldiv.structures.sparse import Sparse
from ldiv.structures.triangular import Diagonal, Triangular


@dataclass(frozen=True)
class SparseTriangular(Wrapper, Linear):
    """The triangle of a sparse matrix, whose other entries are not read.

    Parameters (*batch, nnz); entries outside of the triangle have the cotangent 0.
    """

    base: Sparse
    lower: bool
    diagonal: Diagonal = "own"

    @property
    def tangent(self) -> SparseTriangular:
        return SparseTriangular(self.base, self.lower, "zero") if self.diagonal == "unit" else self

    unit_powers = Linear.unit_powers

    @property
    def _inside(self) -> Any:
        rows, cols = self.base.pattern.rows, self.base.pattern.cols
        below = rows - cols if self.lower else cols - rows
        return self.cached("inside", lambda: below >= 0 if self.diagonal == "own" else below > 0)

    def _triangle(self, p: Array) -> Array:
        return p if self._inside.all() else masked(p, self._inside)

    @property
    def pattern(self) -> Pattern:
        """The pattern for engines, including a diagonal of ones."""
        return self.cached("pattern", self._make_pattern)

    def _make_pattern(self) -> Pattern:
        rows, cols = self.base.pattern.rows[self._inside], self.base.pattern.cols[self._inside]
        if self.diagonal == "unit":
            rows, cols = (np.concatenate([i, np.arange(self.shape[0])]) for i in (rows, cols))
        return Pattern(rows, cols, self.shape)

    def slot_values(self, p: Any) -> Any:
        p = p[..., self._inside]
        if self.diagonal == "unit":
            p = np.concatenate([p, np.ones((*p.shape[:-1], self.shape[0]), p.dtype)], axis=-1)
        return self.pattern.slot_values(p)

    def read(self, p: Tree) -> Tree:
        return self._triangle(p)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        y = self.base.apply(self._triangle(p), x, op)
        return y + x if self.diagonal == "unit" else y

    def project(self, u: Array, v: Array) -> Tree:
        return self._triangle(self.base.project(u, v))

    def determinant_diagonal(self, p: Tree) -> Array:
        if self.diagonal == "own":
            return DiagonalPart(self.base).determinant_diagonal(p)
        fill, shape = float(self.diagonal == "unit"), (*p.shape[:-1], self.shape[0])
        return namespace(p).full(shape, fill, **alike(p))

    def todense(self, p: Tree) -> Array:
        return Triangular(self.shape[0], self.lower, self.diagonal).todense(self.base.todense(p))


def cases(draw: Any) -> Iterator[tuple[SparseTriangular, Tree]]:
    rows, cols = np.array([3, 0, 1, 2, 3, 2, 0, 1, 3]), np.array([3, 0, 1, 2, 0, 1, 2, 3, 3])
    for lower in (True, False):
        for diagonal in ("own", "unit"):
            yield (
                SparseTriangular(Sparse(Pattern(rows, cols, (4, 4))), lower, diagonal),
                draw(9) + 3.0 * (rows == cols),
            )
