"""S = A B;  S^*(u v^H) = (A^*(u (B v)^H), B^*(A^H u v^H)).

Transposing exchanges the factors, but not the order of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Pair, Structure, nonzero, nothing, outer, plus
from ldiv.structures.composed import Composed, active, powers_of_first
from ldiv.structures.dense import Dense
from ldiv.structures.triangular import Triangular


@dataclass(frozen=True)
class Product(Composed):
    """The product of two matrices. Parameters: the pair of theirs.

    `backwards`: the second part is the left factor.
    """

    parts: tuple[Structure, Structure]
    backwards: bool = False

    def _sides(self, of_parts: Any) -> Any:
        """A pair in the order of the parts as (of the left factor, of the right factor)."""
        return of_parts[::-1] if self.backwards else of_parts

    def halves(self, p: Tree) -> tuple[tuple[Structure, Tree], tuple[Structure, Tree]]:
        """The left and the right factor with their parameters."""
        (u, v), (pu, pv) = self._sides(self.parts), self._sides(p)
        return (u, pu), (v, pv)

    @property
    def arrangement(self) -> tuple[Any, ...]:
        return (self.backwards,)

    @property
    def shape(self) -> tuple[int, int]:
        left, right = self._sides(self.parts)
        return left.shape[0], right.shape[1]

    @property
    def unit_powers(self) -> Tree | None:
        return powers_of_first(*self.parts)

    def matmul(self, p: Tree, x: Array) -> Array:
        (a, pa), (b, pb) = self.halves(p)
        return a.matmul(pa, b.matmul(pb, x))

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        ((a, pa), (b, pb)), (da, db) = self.halves(p), self._sides(dp)
        return nonzero(
            plus(
                a.push(pa, da, b.matmul(pb, x)) if active(da) else None,
                a.matmul(pa, b.push(pb, db, x)) if active(db) else None,
            )
        )

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        ((a, pa), (b, pb)), (na, nb) = self.halves(p), self._sides(need)
        to_a = outer(a, pa, u, b.matmul(pb, v), na) if active(na) else nothing(na)
        return self._sides(
            (to_a, outer(b, pb, a.H.matmul(pa, u), v, nb) if active(nb) else nothing(nb))
        )

    def viewed(self, op: str) -> Structure:
        first, second = (part.view(op) for part in self.parts)
        return Product((first, second), self.backwards != VIEWS[op][0])

    def todense(self, p: Tree) -> Array:
        a, b = self._sides(tuple(part.todense(q) for part, q in zip(self.parts, p, strict=True)))
        return namespace(a).matmul(a, b)

    # -- for the engine of composed matrices, if both factors are square ----------

    def inverse(self, p: Tree, b: Array, solve: Callable[..., Array]) -> Array:
        """B^-1 A^-1 b."""
        (left, pl), (right, pr) = self.halves(p)
        return solve(right, pr, solve(left, pl, b))

    def slogdet(self, p: Tree, of: Callable[..., tuple[Array, Array]]) -> tuple[Array, Array]:
        """det (A B) = det A det B."""
        (s, l), (t, m) = map(of, self.parts, p)
        return s * t, l + m

    # -- for low-rank updates: S = U V^H with few columns -------------------------

    def outer_between(self, p: Tree, u: Array, v: Array, inner: Pair, need: Tree) -> Tree:
        ((a, pa), (b, pb)), (na, nb), (left, right) = self.halves(p), self._sides(need), inner
        return self._sides((outer(a, pa, u, right, na), outer(b, pb, left, v, nb)))

    @property
    def rank(self) -> int:
        left: Structure = self._sides(self.parts)[0]
        return left.shape[1]


def cases(draw: Any) -> Iterator[tuple[Product, Tree]]:
    triangle = Triangular(4, True)
    yield (
        Product((Dense(4, 4), triangle)),
        (draw(4, 4) + 4 * np.eye(4), draw(2, 4, 4) + 4 * np.eye(4)),
    )
    yield (
        Product((triangle.H, triangle.T), True),
        (draw(4, 4) + 4 * np.eye(4), draw(4, 4) + 4 * np.eye(4)),
    )
    yield Product((Dense(4, 2), Dense(3, 2).H)), (draw(4, 2), draw(3, 2))
