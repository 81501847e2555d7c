"""S = A x B, with the blocks a_ij B: for x = vec of X[j, l], j over A, l over B, S x = A X B^T.

cotangent    A^*(u y^H) with y = (I x B) v, rows of u and y indexed by A;
             B^*(w v^H) with w = (A^H x I) u, rows of w and v indexed by B
inverse      A^-1 x B^-1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Pair, Structure, matmul, nonzero, nothing, outer, plus
from ldiv.structures.composed import (
    LARGEST,
    Composed,
    Places,
    active,
    all_entries,
    entry_values,
    powers_of_first,
)
from ldiv.structures.dense import Dense
from ldiv.structures.gram import Gram
from ldiv.structures.identity import Identity
from ldiv.structures.product import Product
from ldiv.structures.sparse import Sparse

Part = tuple[Structure, Tree]


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

    @property
    def unit_powers(self) -> Tree | None:
        return powers_of_first(*self.parts)

    def matmul(self, p: Tree, x: Array) -> Array:
        return self._each(matmul, p, x)

    def _each(self, f: Callable[..., Array], p: Tree, x: Array) -> Array:
        """(f(A) x f(B)) x, f a product or a solve."""
        (a, b), (pa, pb) = self.parts, p
        # (A x B) = (A x I)(I x B)
        n, (m, l), k = a.shape[1], b.shape, x.shape[-1]
        y = from_second(f(b, pb, second(x, n, l)), n, k)
        return from_first(f(a, pa, first(y, n, m)), m, k)

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        (a, b), (pa, pb), (da, db) = self.parts, p, dp
        n, (m, l), k = a.shape[1], b.shape, x.shape[-1]
        moved = None
        # d(A x B) = (dA x I)(I x B) + (A x I)(I x dB)
        if active(da):
            y = from_second(b.matmul(pb, second(x, n, l)), n, k)
            moved = a.push(pa, da, first(y, n, m))
        if active(db):
            dy = from_second(b.push(pb, db, second(x, n, l)), n, k)
            moved = plus(moved, a.matmul(pa, first(dy, n, m)))
        return from_first(nonzero(moved), m, k)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        (a, b), (pa, pb), (to_a, to_b) = self.parts, p, map(nothing, need)
        (h, n), (m, l), k = a.shape, b.shape, v.shape[-1]
        if active(need[0]):
            y = from_second(b.matmul(pb, second(v, n, l)), n, k)
            to_a = outer(a, pa, first(u, h, m), first(y, n, m), need[0])
        if active(need[1]):
            w = from_first(a.H.matmul(pa, first(u, h, m)), m, k)
            to_b = outer(b, pb, second(w, n, m), second(v, n, l), need[1])
        return to_a, to_b

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

    # -- for low-rank updates, if both parts are square: `_halves` of each ----------

    @property
    def rank(self) -> int:
        """The full one if the halves would be too large to be written out."""
        least, rank = min(self.shape), math.prod(map(_width, self.parts))
        return rank if self.has_square_parts and least * rank <= LARGEST else least

    def halves(self, p: Tree) -> tuple[Part, Part]:
        ((a, pa), (c, pc)), ((b, pb), (d, pd)) = map(_halves, self.parts, p)
        return (Kronecker((a, b)), (pa, pb)), (Kronecker((c, d)), (pc, pd))

    def outer_between(self, p: Tree, u: Array, v: Array, inner: Pair, need: Tree) -> Tree:
        (n, m), (r, s) = (part.shape[0] for part in self.parts), map(_width, self.parts)
        (a, b), (pa, pb), (to_a, to_b) = self.parts, p, map(nothing, need)
        if active(need[0]):
            to_a = _to_first((a, b), (pa, pb), (u, v), inner, need[0])
        if active(need[1]):
            outside, inside = (
                [_swap(x, i, j) for x in xs] for xs, i, j in (((u, v), n, m), (inner, r, s))
            )
            to_b = _to_first((b, a), (pb, pa), outside, inside, need[1])
        return to_a, to_b

    def between(self, p: Tree, y: Array) -> Array:
        (a, b), (pa, pb), (r, s), k = self.parts, p, map(_width, self.parts), y.shape[-1]
        y = from_second(_middle(b, pb, second(y, r, s)), r, k)
        return from_first(_middle(a, pa, first(y, r, s)), s, k)

    # -- for the engine of composed matrices, if both parts are square ------------

    def inverse(self, p: Tree, b: Array, solve: Callable[..., Array]) -> Array:
        """(A^-1 x B^-1) b."""
        return self._each(solve, p, b)

    def slogdet(self, p: Tree, of: Callable[..., tuple[Array, Array]]) -> tuple[Array, Array]:
        """det (A x B) = (det A)^n_B (det B)^n_A."""
        n, m = (part.shape[0] for part in self.parts)
        (s, l), (t, k) = map(of, self.parts, p)
        return s**m * t**n, m * l + n * k


def _is_low(part: Structure) -> bool:
    return part.rank < min(part.shape)


def _width(part: Structure) -> int:
    """The number of columns of the left half."""
    return part.rank if _is_low(part) else part.shape[1]


def _halves(part: Structure, p: Tree) -> tuple[Part, Part]:
    """U and V with A = U V; a part of full rank is A I."""
    return part.halves(p) if _is_low(part) else ((part, p), (Identity(part.shape[1]), ()))


def _right(part: Structure, p: Tree, x: Array) -> Array:
    """V x."""
    (_, _), (v, q) = _halves(part, p)
    return v.matmul(q, x)


def _middle(part: Structure, p: Tree, y: Array) -> Array:
    """K y, for A = W^H K V with the W of A^H."""
    return part.between(p, y) if _is_low(part) else part.matmul(p, y)


def _to_first(
    parts: tuple[Structure, Structure], p: Tree, outside: Any, inside: Any, need: Tree
) -> Tree:
    """The cotangent of A: that of (I x W_B) u and (I x K_B V_B) v."""
    (a, b), (pa, pb), (u, v), (left, right) = parts, p, outside, inside
    (n, m), (r, s), k = (part.shape[0] for part in parts), map(_width, parts), v.shape[-1]
    small = from_second(_middle(b, pb, second(right, r, s)), r, k)
    inner = first(left, r, s), first(small, r, s)
    if not _is_low(a):  # W_A = V_A = I
        return outer(a, pa, *inner, need)
    x = from_second(_right(b.H, pb, second(u, n, m)), n, k)
    y = from_second(_middle(b, pb, _right(b, pb, second(v, n, m))), n, k)
    return a.outer_between(pa, first(x, n, s), first(y, n, s), inner, need)


def _swap(x: Array, n: int, m: int) -> Array:
    """The rows of x in the order of B x A."""
    return from_first(second(x, n, m), n, x.shape[-1])


def outer_sum(i: Index, j: Index, size: int) -> Index:
    """size * i + j for all pairs (i, j)."""
    return np.add.outer(i.astype(np.int64) * size, j).ravel()


# -- x (*batch, n m, k) as (*batch, n, m k) or (*batch, m, n k), and back; sizes may be 0 -------


def first(x: Array, n: int, m: int) -> Array:
    return namespace(x).reshape(x, (*x.shape[:-2], n, m * x.shape[-1]))


def from_first(y: Array, m: int, k: int) -> Array:
    return namespace(y).reshape(y, (*y.shape[:-2], y.shape[-2] * m, k))


def second(x: Array, n: int, m: int) -> Array:
    xp, (*batch, _, k) = namespace(x), x.shape
    return xp.reshape(swapped(xp.reshape(x, (*batch, n, m, k))), (*batch, m, n * k))


def from_second(y: Array, n: int, k: int) -> Array:
    xp, (*batch, m, _) = namespace(y), y.shape
    return xp.reshape(swapped(xp.reshape(y, (*batch, m, n, k))), (*batch, n * m, k))


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
    low = Product((Dense(3, 1), Dense(3, 1).H)), (draw(3, 1), draw(2, 3, 1))
    gram = Gram((Dense(3, 2),)), (draw(3, 2),)
    full = Dense(2, 2), draw(2, 2)
    for one, two in ((low, full), (full, gram), (gram, low)):
        yield Kronecker((one[0], two[0])), (one[1], two[1])
    yield Kronecker((Dense(3, 2), Dense(1, 2))), (draw(3, 2), draw(1, 2))
