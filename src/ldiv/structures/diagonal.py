"""S(p) = diag(p);  S^*(u v^H)_i = sum_q u_iq conj(v_iq)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import beside, conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import VIEWS


@dataclass(frozen=True)
class Diagonal(Linear):
    """A diagonal matrix. Parameters (*batch, n)."""

    n: int

    core = 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(self.n,)]

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        return (conj(p) if VIEWS[op][1] else p)[..., None] * x

    def project(self, u: Array, v: Array) -> Tree:
        return namespace(u).sum(u * conj(v), axis=-1)

    def determinant_diagonal(self, p: Tree) -> Array:
        return p

    def todense(self, p: Tree) -> Array:
        xp = namespace(p)
        return xp.where(xp.eye(self.n, **beside(p)) != 0, p[..., None], xp.zeros_like(p)[..., None])


def cases(draw: Any) -> Iterator[tuple[Diagonal, Tree]]:
    yield Diagonal(5), draw(5) + 3
    yield Diagonal(5), draw(2, 5) + 3
