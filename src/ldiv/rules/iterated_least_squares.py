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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldiv.core.arrays.shapes import alike
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves, rebuild
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Traits, Unit, bind
from ldiv.core.rules.structure import Structure, minus, nonzero, nothing, outer, plus, push
from ldiv.core.rules.units import of_rest
from ldiv.engines.iterative.bidiagonalization import Bidiagonalization


@dataclass(frozen=True)
class IteratedLeastSquares(Rescaled):
    """Arguments p, B (*batch, m, k), C (*batch, n, k), and X0 like C, where the iteration starts;
    outputs R, X like B and C. `auxiliary`: which of R and X the caller leaves to derivatives.
    """

    structure: Structure
    iteration: Bidiagonalization
    auxiliary: tuple[bool, ...] | None = None

    @cached_property
    def traits(self) -> Traits:
        return Traits(name=self.iteration.name, on_host=self.structure.on_host, sees_overflow=True)

    @property
    def core(self) -> Trees:
        return self.structure.core, 2, 2, 2

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        of_sides = of_rest(self.structure, (2, 2, 2), (2, 2))
        if not (powers := leaves(self.structure.unit_powers or ())):
            return (of_sides,)
        # t^2 A gives t^-2 X and R as it is, with t^2 C; no factor of a product knows its size
        by = tuple(range(len(powers))) if {*powers} == {2} else ()
        return Unit((*powers, 0, 2, -2), (0, -2), by=by), of_sides

    def measured(self, unit: Unit, flat: Sequence[Array]) -> list[tuple[Array, int]]:
        """Return the parameters that are read; the others do not count for the unit."""
        p = rebuild(self.structure.core, list(flat[: len(unit.by)]))
        return list(zip(leaves(self.structure.read(p)), leaves(self.structure.core), strict=True))

    def kernel(self, *args: Tree) -> Arrays:
        return self.iteration.solve(self.structure, *args)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, *_), (dp, db, dc, _), (r, x) = args, tangents, out
        if all(dx is None for dx in leaves((dp, db, dc))):
            return 0 * r, 0 * x  # neither depends on where the iteration starts
        # K (dR, dX) = (dB - dA X, dC - dA^H R)
        right = minus(db, push(self.structure, p, dp, x))
        # A^H of the tangent: (dA)^H R
        below = minus(dc, push(self.structure.H, p, dp, r))
        return self._bound(p, right, below)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, *_), (r_bar, x_bar), (r, x) = args, cotangents, out
        # K is Hermitian: K (B_bar, C_bar) = (R_bar, X_bar)
        unwanted = None if any(leaves(need[0])) else (not need[1], not (need[2] or need[3]))
        b_bar, c_bar = self._bound(p, r_bar, x_bar, unwanted)
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

    def _bound(
        self, p: Tree, b: Array | None, c: Array | None, auxiliary: tuple[bool, ...] | None = None
    ) -> Arrays:
        """(R, X) of the right-hand sides (b, c), where None is zero."""
        given = nonzero(c if b is None else b)
        b, c = (
            namespace(given).zeros((*given.shape[:-2], size, given.shape[-1]), **alike(given))
            if y is None
            else y
            for y, size in zip((b, c), self.structure.shape, strict=True)
        )
        return bind(replace(self, auxiliary=auxiliary), p, b, c, c * 0)


def _sum(a: Tree, b: Tree) -> Tree:
    return tuple(map(_sum, a, b)) if isinstance(a, tuple) and isinstance(b, tuple) else plus(a, b)


def cases(structures: Any, draw: Any) -> Cases:
    for structure, p in structures:
        m, n = structure.shape
        if m > n == structure.rank and structure.on_host:
            for name in ("lsqr", "lsmr"):
                yield (
                    IteratedLeastSquares(structure, Bidiagonalization(name, 1e-14, 1e-14)),
                    (p, draw(m, 1), draw(n, 1), draw(n, 1)),
                )
