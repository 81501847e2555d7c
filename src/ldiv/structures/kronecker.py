"""S = A x B, with the blocks a_ij B: for x = vec of X[j, l], j over A, l over B, S x = A X B^T.

cotangent    A^*(u y^H) with y = (I x B) v, rows of u and y indexed by A;
             B^*(w v^H) with w = (A^H x I) u, rows of w and v indexed by B
inverse      A^-1 x B^-1;    log |det S| = n_B log |det A| + n_A log |det B|
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.dispatch import namespace
from ldiv.core.pattern import Index, Pattern
from ldiv.core.structure import Structure, matmul, nothing, outer, plus, push
from ldiv.core.trees import Array, Tree
from ldiv.structures.composed import LARGEST, Composed, Places, active, all_entries, entry_values
from ldiv.structures.dense import Dense
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Kronecker(Composed):
    """The Kronecker product of two matrices. Parameters: the pair of theirs."""

    parts: tuple[Structure, Structure]

    @property
    def shape(self) -> tuple[int, int]:
        (m, n), (k, l) = (part.shape for part in self.parts)
        return m * k, n * l

    @property
    def definite(self) -> bool:
        return all(part.definite for part in self.parts)

    def matmul(self, p: Tree, x: Array) -> Array:
        return self._each(matmul, p, x)

    def _each(self, f: Callable[..., Array], p: Tree, x: Array) -> Array:
        """(f(A) x f(B)) x, f a product or a solve."""
        (a, b), (pa, pb) = self.parts, p
        # (A x B) = (A x I)(I x B)
        y = from_second(f(b, pb, second(x, a.shape[1])), a.shape[1])
        return from_first(f(a, pa, first(y, b.shape[0])), b.shape[0])

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        (a, b), (pa, pb), (da, db) = self.parts, p, dp
        n, k = a.shape[1], b.shape[0]
        moved = None
        # d(A x B) = (dA x I)(I x B) + (A x I)(I x dB)
        if active(da):
            moved = push(a, pa, da, first(from_second(b.matmul(pb, second(x, n)), n), k))
        if active(db):
            moved = plus(
                moved, a.matmul(pa, first(from_second(push(b, pb, db, second(x, n)), n), k))
            )
        return from_first(moved, k)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        (a, b), (pa, pb), (to_a, to_b) = self.parts, p, map(nothing, need)
        n, k = a.shape[1], b.shape[0]
        if active(need[0]):
            y = from_second(b.matmul(pb, second(v, n)), n)
            to_a = outer(a, pa, first(u, k), first(y, k), need[0])
        if active(need[1]):
            w = from_first(a.H.matmul(pa, first(u, k)), k)
            to_b = outer(b, pb, second(w, n), second(v, n), need[1])
        return to_a, to_b

    def viewed(self, op: str) -> Structure:
        one, two = (part.view(op) for part in self.parts)
        return Kronecker((one, two))

    def todense(self, p: Tree) -> Array:
        a, b = (part.todense(q) for part, q in zip(self.parts, p, strict=True))
        blocks = a[..., :, None, :, None] * b[..., None, :, None, :]
        return namespace(blocks).reshape(blocks, (*blocks.shape[:-4], *self.shape))

    def entries(self) -> Places | None:
        if (places := all_entries(self.parts)) is None:
            return None
        (i, j), (k, l) = places
        if len(i) * len(k) > LARGEST:  # too many for a sparse engine
            return None
        return outer_sum(i, k, self.parts[1].shape[0]), outer_sum(j, l, self.parts[1].shape[1])

    def entry_values(self, p: Tree) -> Any:
        a, b = (entry_values(part, q) for part, q in zip(self.parts, p, strict=True))
        both = a[..., :, None] * b[..., None, :]
        return both.reshape(*both.shape[:-2], -1)

    # -- for the engine of composed matrices, if both parts are square ------------

    def inverse(self, p: Tree, b: Array, solve: Callable[..., Array]) -> Array:
        """(A^-1 x B^-1) b."""
        return self._each(solve, p, b)

    def log_abs_det(self, p: Tree, logabsdet: Callable[..., Array]) -> Array:
        (a, b), (pa, pb) = self.parts, p
        return b.shape[0] * logabsdet(a, pa) + a.shape[0] * logabsdet(b, pb)


def outer_sum(i: Index, j: Index, size: int) -> Index:
    """size * i + j for all pairs (i, j)."""
    return np.add.outer(i.astype(np.int64) * size, j).ravel()


# -- x (*batch, n_A n_B, k) as (*batch, n_A, n_B k) or (*batch, n_B, n_A k), and back ---


def first(x: Array, count: int) -> Array:
    *batch, rows, k = x.shape
    return namespace(x).reshape(x, (*batch, rows // count, count * k))


def from_first(y: Array, count: int) -> Array:
    *batch, n, columns = y.shape
    return namespace(y).reshape(y, (*batch, n * count, columns // count))


def second(x: Array, count: int) -> Array:
    xp, (*batch, rows, k) = namespace(x), x.shape
    grid = swapped(xp.reshape(x, (*batch, count, rows // count, k)))
    return xp.reshape(grid, (*batch, rows // count, count * k))


def from_second(y: Array, count: int) -> Array:
    xp, (*batch, n, columns) = namespace(y), y.shape
    grid = swapped(xp.reshape(y, (*batch, n, count, columns // count)))
    return xp.reshape(grid, (*batch, count * n, columns // count))


def swapped(x: Array) -> Array:
    """(*batch, m, n, k) -> (*batch, n, m, k)."""
    before = range(x.ndim - 3)
    # not moveaxis, which some implementations of vmap do not support
    return namespace(x).permute_dims(x, (*before, x.ndim - 2, x.ndim - 3, x.ndim - 1))


def cases(draw: Any) -> Iterator[tuple[Kronecker, Tree]]:
    sparse = Sparse(Pattern(np.array([0, 1, 1]), np.array([0, 1, 0]), (2, 2)))
    strong = np.array([3.0, 3.0, 0.0])
    yield Kronecker((sparse, Dense(3, 3).H)), (draw(3) + strong, draw(2, 3, 3) + 3 * np.eye(3))
    yield Kronecker((sparse.T, sparse)), (draw(3) + strong, draw(3) + strong)
    yield Kronecker((Dense(3, 2), Dense(1, 2))), (draw(3, 2), draw(1, 2))
