"""(R, X) with R + A X = B, A^H R = C for A = S(p), by products with A and A^H.

K = [[I, A], [A^H, 0]], which is regular if A has full column rank
C = 0: X minimizes |A X - B|, and R is the residual.
B = 0: R is the shortest of all R with A^H R = C.
tangent      K (dR, dX) = (dB - dA X, dC - dA^H R)
cotangent    K (B_bar, C_bar) = (R_bar, X_bar);   A_bar = -B_bar X^H - R C_bar^H
cost         1 iteration for the value, 2 for each direction, none of which is differentiated through
reference    Bjorck, Numerical Methods for Least Squares Problems (1996), section 1.1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import alike
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.structure import Structure, minus, nothing, outer, plus, push
from ldiv.core.rules.traits import Traits
from ldiv.engines.iterative.bidiagonalization import Bidiagonalization


@dataclass(frozen=True)
class IteratedLeastSquares(Rule):
    """Arguments p, B (*batch, m, k), C (*batch, n, k), and X0 like C, where the iteration starts;
    outputs R, X like B and C.
    """

    structure: Structure
    iteration: Bidiagonalization

    @cached_property
    def traits(self) -> Traits:
        return Traits(name=self.iteration.name, on_host=self.structure.on_host, sees_overflow=True)

    @property
    def core(self) -> Trees:
        return self.structure.core, 2, 2, 2

    def kernel(self, *args: Tree) -> Arrays:
        return self.iteration.solve(self.structure, *args)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, *_), (dp, db, dc, start), (r, x) = args, tangents, out
        # K (dR, dX) = (dB - dA X, dC - dA^H R)
        right = minus(db, push(self.structure, p, dp, x))
        # A^H of the tangent: (dA)^H R
        below = minus(dc, push(self.structure.H, p, dp, r))
        if start is not None and all(x is None for x in leaves((dp, db, dc))):
            return 0 * r, 0 * x  # neither depends on where the iteration starts
        return self._bound(p, right, below)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, *_), (r_bar, x_bar), (r, x) = args, cotangents, out
        # K is Hermitian: K (B_bar, C_bar) = (R_bar, X_bar)
        b_bar, c_bar = self._bound(p, r_bar, x_bar)
        if b_bar is None or c_bar is None:
            return tuple(map(nothing, need))
        p_bar = nothing(need[0])
        if any(leaves(need[0])):  # a transposed rule has no outputs R and X
            # p_bar = -dS^*[B_bar X^H + R C_bar^H]
            p_bar = _sum(
                outer(self.structure, p, -b_bar, x, need[0]),
                outer(self.structure, p, -r, c_bar, need[0]),
            )
        return (
            p_bar,
            b_bar if need[1] else None,
            c_bar if need[2] else None,
            0 * c_bar if need[3] else None,
        )

    def _bound(self, p: Tree, b: Array | None, c: Array | None) -> Tangents:
        """(R, X) of the right-hand sides (b, c), where None is zero."""
        if (given := c if b is None else b) is None:
            return None, None
        b, c = (
            namespace(given).zeros((*given.shape[:-2], size, given.shape[-1]), **alike(given))
            if y is None
            else y
            for y, size in zip((b, c), self.structure.shape, strict=True)
        )
        return bind(self, p, b, c, c * 0)


def _sum(a: Tree, b: Tree) -> Tree:
    return tuple(map(_sum, a, b)) if isinstance(a, tuple) and isinstance(b, tuple) else plus(a, b)


def cases(
    structures: Iterator[tuple[Structure, Tree]], draw: Any
) -> Iterator[tuple[IteratedLeastSquares, Trees]]:
    for structure, p in structures:
        m, n = structure.shape
        if m > n == structure.rank and structure.on_host:
            for name in ("lsqr", "lsmr"):
                yield (
                    IteratedLeastSquares(structure, Bidiagonalization(name, 1e-14, 1e-14)),
                    (p, draw(m, 1), draw(n, 1), draw(n, 1)),
                )
