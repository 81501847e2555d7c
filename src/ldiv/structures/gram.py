"""S = L L^H, Hermitian by structure;  S^*(u v^H) = L^*(u (L^H v)^H + v (L^H u)^H).

For a square L, mostly triangular, S^-1 = L^-H L^-1: two triangular solves, nothing to factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Pair, Structure, outer, plus
from ldiv.structures.composed import Composed
from ldiv.structures.dense import Dense
from ldiv.structures.triangular import Triangular


@dataclass(frozen=True)
class Gram(Composed):
    """L L^H for any L. Parameters (those of L,)."""

    parts: tuple[Structure]

    @property
    def base(self) -> Structure:
        return self.parts[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape[0], self.base.shape[0]

    @property
    def definite(self) -> bool:
        """L L^H is semidefinite, singular for a tall L; a singular square L raises when solved."""
        return self.base.shape[0] <= self.base.shape[1]

    @property
    def unit_powers(self) -> Tree | None:
        own = self.base.unit_powers
        if own is None or any(power % 2 for power in leaves(own)):
            return None
        return (rebuild(own, [power // 2 for power in leaves(own)]),)

    def matmul(self, p: Tree, x: Array) -> Array:
        return self.base.matmul(p[0], self.base.H.matmul(p[0], x))

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        (q,), (dq,), l = p, dp, self.base
        return l.push(q, dq, l.H.matmul(q, x)) + l.matmul(q, l.H.push(q, dq, x))

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        (q,), l = p, self.base
        g, h = (
            outer(l, q, u, l.H.matmul(q, v), need[0]),
            outer(l, q, v, l.H.matmul(q, u), need[0]),
        )
        return self._summed(g, h)

    def viewed(self, op: str) -> Structure:
        return self if op == "H" else Gram((self.base.C,))

    def todense(self, p: Tree) -> Array:
        a = self.base.todense(p[0])
        return namespace(a).matmul(a, conj(transpose(a)))

    # -- for the engine of composed matrices, if L is square ----------------------

    def inverse(self, p: Tree, b: Array, solve: Callable[..., Array]) -> Array:
        """L^-H L^-1 b."""
        return solve(self.base.H, p[0], solve(self.base, p[0], b))

    def slogdet(self, p: Tree, of: Callable[..., tuple[Array, Array]]) -> tuple[Array, Array]:
        """det (L L^H) = |det L|^2."""
        sign, size = of(self.base, p[0])
        return 0 * sign + 1, 2 * size

    # -- for low-rank updates, if L has few columns -------------------------------

    @property
    def rank(self) -> int:
        return self.base.shape[1]

    def halves(self, p: Tree) -> tuple[tuple[Structure, Tree], tuple[Structure, Tree]]:
        """L and L^H."""
        return (self.base, p[0]), (self.base.H, p[0])

    def outer_between(self, p: Tree, u: Array, v: Array, inner: Pair, need: Tree) -> Tree:
        (q,), (n,), l, (left, right) = p, need, self.base, inner
        return self._summed(outer(l, q, u, right, n), outer(l.H, q, left, v, n))

    def _summed(self, left: Tree, right: Tree) -> Tree:
        """The cotangent of p by those of L and of L^H."""
        pairs = zip(leaves(left), leaves(right), strict=True)
        return (rebuild(self.base.core, [plus(x, y) for x, y in pairs]),)


def cases(draw: Any) -> Iterator[tuple[Gram, Tree]]:
    yield Gram((Triangular(4, True),)), (draw(4, 4) + 3 * np.eye(4),)
    yield Gram((Dense(2, 3),)), (draw(2, 2, 3),)
