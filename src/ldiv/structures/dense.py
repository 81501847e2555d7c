"""S(p) = p, an m x n array;  S^*(u v^H) = u v^H."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import view_dense


@dataclass(frozen=True)
class Dense(Linear):
    """A matrix of which nothing is known. Parameters (*batch, m, n)."""

    m: int
    n: int

    core = 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.m, self.n

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [self.shape]

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        a = view_dense(p, op)
        return a @ x if a.dtype == x.dtype else namespace(x).matmul(a, x)

    def project(self, u: Array, v: Array) -> Tree:
        # batches of single columns: a broadcast product is much faster than a batched matmul
        if u.shape[-1] == 1 and u.ndim > 2:
            return u * adjoint(v)
        if type(u) is np.ndarray and u.ndim == v.ndim == 2:
            return u.dot(adjoint(v))  # the same product, in less time where the numbers are few
        return u @ adjoint(v) if u.dtype == v.dtype else namespace(u).matmul(u, adjoint(v))

    def todense(self, p: Tree) -> Array:
        return p


@bounded_cache(256)
def dense(m: int, n: int) -> Dense:
    """Return the one structure for matrices of a shape, so that its cached work is found again."""
    return Dense(m, n)


def cases(draw: Any) -> Iterator[tuple[Dense, Tree]]:
    for batch in ((), (2,)):
        yield Dense(5, 5), draw(*batch, 5, 5) + 4 * np.eye(5)
    yield Dense(4, 3), draw(4, 3)
