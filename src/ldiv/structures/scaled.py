"""S = alpha A;  S^*(u v^H) = (A^*(conj(alpha) u v^H), sum of u o conj(A v)).

A real alpha is declared by the structure, not by its dtype: so alpha A is Hermitian by structure if
A is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ldiv.core.arrays.shapes import conj, factors
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import VIEWS, Pair, Structure, nonzero, nothing, outer, plus, push
from ldiv.errors import SingularMatrixError
from ldiv.structures.composed import Composed, Places, entries, entry_values
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import Symmetric

Scalar = Literal["real", "own", "conjugate"]
_READ: dict[str, Callable[[Array], Array]] = {
    "real": lambda alpha: (alpha + conj(alpha)) / 2,
    "own": lambda alpha: alpha,
    "conjugate": conj,
}
_CONJUGATE: dict[Scalar, Scalar] = {"real": "real", "own": "conjugate", "conjugate": "own"}


@dataclass(frozen=True)
class Scaled(Composed):
    """A scalar times a matrix. Parameters (those of the matrix, alpha (*batch,)).

    `scalar`: how alpha is read: its real part, itself, or its conjugate.
    """

    parts: tuple[Structure]
    scalar: Scalar = "own"

    @property
    def base(self) -> Structure:
        return self.parts[0]

    @property
    def arrangement(self) -> tuple[Any, ...]:
        return (self.scalar,)

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape

    @property
    def core(self) -> Tree:
        return self.base.core, 0

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        sizes = self.base.sizes
        return None if sizes is None else [*sizes, ()]

    @property
    def unit_powers(self) -> Tree | None:
        return None if (own := self.base.unit_powers) is None else (own, 0)

    def read(self, p: Tree) -> Tree:
        return self.base.unview()[0].read(p[0]), p[1]

    def _scale(self, alpha: Array, x: Array) -> Array:
        return factors(_READ[self.scalar](alpha)) * x

    def matmul(self, p: Tree, x: Array) -> Array:
        return self._scale(p[1], self.base.matmul(p[0], x))

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        moved = push(self.base, p[0], dp[0], x)
        change = plus(
            moved if moved is None else self._scale(p[1], moved),
            None if dp[1] is None else self._scale(dp[1], self.base.matmul(p[0], x)),
        )
        return nonzero(change)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        read = _READ[self.scalar]
        slope = read(_inner(u, self.base.matmul(p[0], v))) if need[1] else None
        return outer(self.base, p[0], factors(conj(read(p[1]))) * u, v, need[0]), slope

    def viewed(self, op: str) -> Scaled:
        return Scaled(
            (self.base.view(op),), _CONJUGATE[self.scalar] if VIEWS[op][1] else self.scalar
        )

    def todense(self, p: Tree) -> Array:
        return self._scale(p[1], self.base.todense(p[0]))

    def entries(self) -> Places | None:
        return entries(self.base)

    def entry_values(self, p: Tree) -> Any:
        return factors(_READ[self.scalar](p[1]), 1) * entry_values(self.base, p[0])

    # -- for the engine of composed matrices --------------------------------------

    def inverse(self, p: Tree, b: Array, solve: Callable[..., Array]) -> Array:
        """A^-1 b / alpha."""
        alpha = _READ[self.scalar](p[1])
        check_or_raise(
            (alpha != 0).all(), lambda: SingularMatrixError("scaling", "a factor of zero")
        )
        return solve(self.base, p[0], b) / factors(alpha)

    def slogdet(self, p: Tree, of: Callable[..., tuple[Array, Array]]) -> tuple[Array, Array]:
        """det (alpha A) = alpha^n det A."""
        (sign, size), n = of(self.base, p[0]), self.shape[0]
        turn, scale = of(Diagonal(1), _READ[self.scalar](p[1])[..., None])
        return sign * turn**n, size + n * scale

    # -- for low-rank updates -----------------------------------------------------

    @property
    def rank(self) -> int:
        return self.base.rank

    def halves(self, p: Tree) -> tuple[tuple[Structure, Tree], tuple[Structure, Tree]]:
        """alpha U and V^H."""
        (u, pu), right = self.base.halves(p[0])
        return (Scaled((u,), self.scalar), (pu, p[1])), right

    def outer_between(self, p: Tree, u: Array, v: Array, inner: Pair, need: Tree) -> Tree:
        (q, alpha), (n, slope), (left, right), read = p, need, inner, _READ[self.scalar]
        to_alpha = read(_inner(left, self.base.between(q, right))) if slope else None
        c = factors(conj(read(alpha)))
        to_base = nothing(n)
        if any(leaves(n)):
            to_base = self.base.outer_between(q, c * u, v, (c * left, right), n)
        return to_base, to_alpha

    def between(self, p: Tree, y: Array) -> Array:
        return self._scale(p[1], self.base.between(p[0], y))


def _inner(u: Array, v: Array) -> Array:
    """The sum of u o conj(v)."""
    return namespace(u).sum(u * conj(v), axis=(-2, -1))


def read(structure: Scaled, alpha: Array) -> Array:
    """The scalar that the matrix is multiplied with."""
    return _READ[structure.scalar](alpha)


def cases(draw: Any) -> Iterator[tuple[Scaled, Tree]]:
    yield Scaled((Dense(4, 4),)), (draw(4, 4) + 4 * np.eye(4), draw())
    yield Scaled((Diagonal(4),), "conjugate"), (draw(2, 4) + 6, draw(2) + 6)
    a = draw(4, 4)
    yield Scaled((Symmetric(Dense(4, 4)),), "real"), (a + a.conj().T + 8 * np.eye(4), draw() + 6)
