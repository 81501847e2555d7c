"""S = A x I + I x B: for x = vec of X[j, l], j over A, l over B, S x = A X + X B^T.

cotangent    A^*(u v^H), rows of u and v indexed by A;   B^*(u v^H), rows of u and v indexed by B
inverse      by the Schur forms of A and B: `ldiv.engines.direct.bartels_stewart`
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
from ldiv.core.rules.structure import Structure, nonzero, nothing, outer, plus
from ldiv.structures.composed import Composed, active, powers_of
from ldiv.structures.dense import Dense
from ldiv.structures.kronecker import first, from_first, from_second, second


@dataclass(frozen=True)
class KroneckerSum(Composed):
    """The Kronecker sum of two square matrices. Parameters: the pair of theirs."""

    parts: tuple[Structure, Structure]

    @property
    def shape(self) -> tuple[int, int]:
        n, m = (part.shape[0] for part in self.parts)
        return n * m, n * m

    @property
    def definite(self) -> bool:
        return all(part.definite for part in self.parts)

    @property
    def unit_powers(self) -> Tree | None:
        return powers_of(self.parts)

    def matmul(self, p: Tree, x: Array) -> Array:
        (a, b), (pa, pb), k = self.parts, p, x.shape[-1]
        n, m = a.shape[0], b.shape[0]
        left = from_first(a.matmul(pa, first(x, n, m)), m, k)
        return left + from_second(b.matmul(pb, second(x, n, m)), n, k)

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        (a, b), (pa, pb), (da, db), k = self.parts, p, dp, x.shape[-1]
        n, m = a.shape[0], b.shape[0]
        left = right = None
        if active(da):
            left = from_first(a.push(pa, da, first(x, n, m)), m, k)
        if active(db):
            right = from_second(b.push(pb, db, second(x, n, m)), n, k)
        return nonzero(plus(left, right))

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        (a, b), (pa, pb), (to_a, to_b) = self.parts, p, map(nothing, need)
        n, m = a.shape[0], b.shape[0]
        if active(need[0]):
            to_a = outer(a, pa, first(u, n, m), first(v, n, m), need[0])
        if active(need[1]):
            to_b = outer(b, pb, second(u, n, m), second(v, n, m), need[1])
        return to_a, to_b

    def todense(self, p: Tree) -> Array:
        a, b = (part.todense(q) for part, q in zip(self.parts, p, strict=True))
        xp = namespace(a)
        one, two = (xp.eye(x.shape[-1], dtype=x.dtype) for x in (a, b))
        blocks = a[..., :, None, :, None] * two[:, None, :]
        blocks = blocks + one[:, None, :, None] * b[..., None, :, None, :]
        return xp.reshape(blocks, (*blocks.shape[:-4], *self.shape))


@bounded_cache(256)
def kronecker_sum(one: Structure, two: Structure) -> KroneckerSum:
    """The same object for equal parts, so that everything cached on it is found again."""
    return KroneckerSum((one, two))


def cases(draw: Any) -> Iterator[tuple[KroneckerSum, Tree]]:
    strong = 4 * np.eye(3)
    yield KroneckerSum((Dense(3, 3), Dense(2, 2).T)), (draw(3, 3) + strong, draw(2, 2, 2))
    yield KroneckerSum((Dense(3, 3).H, Dense(3, 3))), (draw(3, 3) + strong, draw(3, 3))
