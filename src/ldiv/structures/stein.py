"""S = I - A x B: for x = vec of X[j, l], j over A, l over B, S x = X - A X B^T.

cotangent    that of A x B, with the other sign
inverse      by the Schur forms of A and B: `ldiv.engines.direct.stein`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.structure import Structure
from ldiv.structures.composed import Composed
from ldiv.structures.dense import Dense
from ldiv.structures.kronecker import Kronecker


@dataclass(frozen=True)
class Stein(Composed):
    """The Stein operator of two square matrices. Parameters: the pair of theirs."""

    parts: tuple[Structure, Structure]

    @property
    def _product(self) -> Kronecker:
        return Kronecker(self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        return self._product.shape

    def matmul(self, p: Tree, x: Array) -> Array:
        return x - self._product.matmul(p, x)

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return -self._product.push(p, dp, x)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        return self._product.outer(p, -u, v, need)

    def todense(self, p: Tree) -> Array:
        dense = self._product.todense(p)
        return namespace(dense).eye(dense.shape[-1], dtype=dense.dtype) - dense


@bounded_cache(256)
def stein(one: Structure, two: Structure) -> Stein:
    """The same object for equal parts, so that everything cached on it is found again."""
    return Stein((one, two))


def cases(draw: Any) -> Iterator[tuple[Stein, Tree]]:
    strong = 4 * np.eye(3)
    yield Stein((Dense(3, 3), Dense(2, 2).T)), (draw(3, 3) + strong, draw(2, 2, 2))
    yield Stein((Dense(3, 3).H, Dense(3, 3))), (draw(3, 3) + strong, draw(3, 3))
