"""S = K_1 x K_2 x ... + s I, for Hermitian K_i and a real s.

cotangent    that of the Kronecker product, of which each K_i takes the Hermitian part;
             s_bar = Re tr(u v^H)
inverse      by the eigenvalues of the K_i: `ldiv.engines.direct.kronecker_eigenpairs`
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, factors
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.structure import Structure, nonzero, outer, plus, push
from ldiv.structures.composed import Composed
from ldiv.structures.dense import dense
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class ShiftedKronecker(Composed):
    """A Kronecker product plus a multiple of the identity. Parameters (K_1, K_2, ..., s (*batch,))."""

    parts: tuple[Structure, ...]  # Hermitian parts of dense matrices

    @property
    def shape(self) -> tuple[int, int]:
        n = math.prod(part.shape[0] for part in self.parts)
        return n, n

    @property
    def core(self) -> Tree:
        return (*(2 for _ in self.parts), 0)

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [*(part.shape for part in self.parts), ()]

    @property
    def has_square_parts(self) -> bool:
        return False  # its determinant is not one of the parts

    @property
    def unit_powers(self) -> Tree | None:
        return (2, *[0] * (len(self.parts) - 1), 2)

    def read(self, p: Tree) -> Tree:
        return p

    @property
    def _product(self) -> Structure:
        return reduce(lambda a, b: Kronecker((a, b)), self.parts)

    def matmul(self, p: Tree, x: Array) -> Array:
        return self._product.matmul(in_pairs(p[:-1]), x) + _real(p[-1]) * x

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        moved = push(self._product, in_pairs(p[:-1]), in_pairs(dp[:-1]), x)
        return nonzero(plus(moved, None if dp[-1] is None else _real(dp[-1]) * x))

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        found = outer(self._product, in_pairs(p[:-1]), u, v, in_pairs(need[:-1]))
        s_bar = None
        if need[-1]:
            traces = namespace(u).sum(u * conj(v), axis=(-2, -1))
            s_bar = (traces + conj(traces)) / 2
        return *_in_a_row(found, len(self.parts)), s_bar

    def todense(self, p: Tree) -> Array:
        whole = self._product.todense(in_pairs(p[:-1]))
        return whole + _real(p[-1]) * namespace(whole).eye(whole.shape[-1], dtype=whole.dtype)


def in_pairs(row: Tree) -> Tree:
    """((a, b), c) of (a, b, c)."""
    return reduce(lambda a, b: (a, b), row)


def _in_a_row(pairs: Any, count: int) -> tuple[Any, ...]:
    """(a, b, c) of ((a, b), c)."""
    return (pairs,) if count == 1 else (*_in_a_row(pairs[0], count - 1), pairs[1])


def _real(s: Array) -> Array:
    return factors((s + conj(s)) / 2)


@bounded_cache(256)
def shifted_kronecker(*sizes: int) -> ShiftedKronecker:
    """The same object for equal sizes, so that everything cached on it is found again."""
    return ShiftedKronecker(tuple(Symmetric(dense(n, n)) for n in sizes))


def cases(draw: Any) -> Iterator[tuple[ShiftedKronecker, Tree]]:
    def hermitian(*shape: int) -> Any:
        a = draw(*shape)
        return a + np.conj(a.mT) + 4 * np.eye(shape[-1])

    def known(a: Any) -> Any:
        return np.asarray(a, draw(0).dtype)

    yield shifted_kronecker(3, 2), (hermitian(3, 3), hermitian(2, 2, 2), known([0.7, 0.7]))
    twice, ones = known(np.diag([2.0, 2.0, 1.0])), known(np.ones((2, 2)))
    yield shifted_kronecker(3, 2, 2), (twice, ones, -hermitian(2, 2), known(0.5))
