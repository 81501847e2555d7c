"""S(p) = tril(p) or triu(p), or with a unit diagonal I + tril(p, -1);  S^*(u v^H) = tril(u v^H)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ldiv.core.arrays.shapes import alike, conj, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import view_dense

Diagonal = Literal["own", "unit", "zero"]


@dataclass(frozen=True)
class Triangular(Linear):
    """The triangle of a dense array, whose other triangle is not read. Parameters (*batch, n, n).

    `diagonal`: "own" reads it, "unit" replaces it by ones (affine in p), "zero" is the tangent of
    "unit".
    """

    n: int
    lower: bool
    diagonal: Diagonal = "own"

    core = 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [self.shape]

    @property
    def tangent(self) -> Triangular:
        return triangular(self.n, self.lower, "zero") if self.diagonal == "unit" else self

    def _triangle(self, a: Array) -> Array:
        xp, inset = namespace(a), self.diagonal != "own"
        return xp.tril(a, k=-inset) if self.lower else xp.triu(a, k=+inset)

    def read(self, p: Tree) -> Tree:
        return self._triangle(p)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        y = namespace(x).matmul(view_dense(self._triangle(p), op), x)
        return y + x if self.diagonal == "unit" else y

    def project(self, u: Array, v: Array) -> Tree:
        return self._triangle(namespace(u).matmul(u, conj(transpose(v))))

    def todense(self, p: Tree) -> Array:
        a = self._triangle(p)
        if self.diagonal != "unit":
            return a
        return a + namespace(a).eye(self.n, **alike(a))

    def determinant_diagonal(self, p: Tree) -> Array:
        xp = namespace(p)
        if self.diagonal == "own":
            return xp.linalg.diagonal(p)
        return xp.full(p.shape[:-1], float(self.diagonal == "unit"), **alike(p))


@bounded_cache(256)
def triangular(n: int, lower: bool, diagonal: Diagonal = "own") -> Triangular:
    """Return the one structure for all triangles of a size, as `dense` does."""
    return Triangular(n, lower, diagonal)


def cases(draw: Any) -> Iterator[tuple[Triangular, Tree]]:
    for lower in (True, False):
        for diagonal in ("own", "unit"):
            yield Triangular(5, lower, diagonal), draw(5, 5) + 3 * (diagonal == "own")
    yield Triangular(4, True), draw(2, 4, 4) + 3
