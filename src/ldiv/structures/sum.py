"""S = A_1 + A_2 + ...;  S^*(u v^H) = (A_1^*(u v^H), A_2^*(u v^H) ...)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure, nonzero, outer, plus, push
from ldiv.structures.composed import (
    Composed,
    Places,
    all_entries,
    concatenated,
    entry_values,
    joined,
    powers_of,
)
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.product import Product
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Sum(Composed):
    """The sum of matrices of one shape. Parameters: the tuple of theirs."""

    parts: tuple[Structure, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape

    @property
    def definite(self) -> bool:
        return all(part.definite for part in self.parts)

    @property
    def unit_powers(self) -> Tree | None:
        return powers_of(self.parts)

    @property
    def updated(self) -> int | None:
        """The index of the part that the other part, of low rank, updates; None in other sums."""
        low = [part.rank < self.shape[0] for part in self.parts]
        return low.index(False) if sorted(low) == [False, True] else None

    def update(self, p: Tree) -> Any:
        """Return the updated part and the update, each with its parameters; None in other sums."""
        if (at := self.updated) is None:
            return None
        return (self.parts[at], p[at]), (self.parts[1 - at], p[1 - at])

    def of_parts(self, updated: Tree, low: Tree) -> Tree:
        """The cotangent of p by those of the part that is updated and of the update."""
        return (updated, low) if self.updated == 0 else (low, updated)

    def matmul(self, p: Tree, x: Array) -> Array:
        return reduce(add, (part.matmul(q, x) for part, q in zip(self.parts, p, strict=True)))

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        moved: Array | None = None
        for part, q, dq in zip(self.parts, p, dp, strict=True):
            moved = plus(moved, push(part, q, dq, x))
        return nonzero(moved)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        return tuple(
            outer(part, q, u, v, n) for part, q, n in zip(self.parts, p, need, strict=True)
        )

    def todense(self, p: Tree) -> Array:
        return reduce(add, (part.todense(q) for part, q in zip(self.parts, p, strict=True)))

    def entries(self) -> Places | None:
        return None if (places := all_entries(self.parts)) is None else concatenated(places)

    def entry_values(self, p: Tree) -> Any:
        return joined(entry_values(part, q) for part, q in zip(self.parts, p, strict=True))


def cases(draw: Any) -> Iterator[tuple[Sum, Tree]]:
    rows, cols = np.array([0, 1, 2, 3, 1, 0]), np.array([0, 1, 2, 3, 0, 3])
    sparse = Sparse(Pattern(rows, cols, (4, 4)))
    low = Product((Dense(4, 2), Dense(4, 2).H)), (draw(4, 2), draw(4, 2))
    yield Sum((sparse.T, low[0])), (draw(6) + 4.0 * (rows == cols), low[1])
    yield Sum((sparse, Diagonal(4), sparse.H)), (draw(6), draw(4) + 6, draw(6))
    yield Sum((Dense(4, 4), Diagonal(4))), (draw(2, 4, 4), draw(4) + 6)
    lower = Product((Dense(3, 1), Dense(3, 1).H)), (draw(3, 1), draw(3, 1))
    blocks = Kronecker((lower[0], Dense(2, 2))), (lower[1], draw(2, 2))
    yield Sum((Diagonal(6), blocks[0])), (draw(2, 6) + 6, blocks[1])
