"""R = B - S(p) X, subtracted in twice the digits, so that refinement sees what rounding left of X.

tangent      dR = dB - dS X - S dX
cotangent    B_bar = R_bar,   X_bar = -S^H R_bar,   p_bar = -S^*[R_bar X^H]
cost         1 product, and 1 for each direction
reference    Bjorck, Iterative refinement of linear least squares solutions, BIT 7 (1967)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ldiv.core.arrays.shapes import batch_of, broadcast, numpy_dtype, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.core.rules.structure import Structure, matmul, minus, nonzero, outer, plus, push
from ldiv.core.rules.units import of_matrix, of_rest
from ldiv.engines.factors import doubled
from ldiv.engines.factors.factorize import batch_axes
from ldiv.structures.block import Block
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Residual(Rule):
    """Arguments p, X (*batch, n, k), B (*batch, m, k), for an S with entries; output R (*batch, m, k)."""

    structure: Structure

    traits = Traits(name="lstsq", on_host=True, may_overflow=True)

    @property
    def core(self) -> Trees:
        return self.structure.core, 2, 2

    @property
    def units(self) -> tuple[Unit, ...]:
        of_S = (Unit((*u.of[:-1], 2), u.gives) for u in of_matrix(self.structure, (2,), 2))
        return *of_S, of_rest(self.structure, (2, 2), (2,))

    def kernel(self, p: Tree, x: Array, b: Array) -> Arrays:
        batch = broadcast(batch_axes(self.structure, p), batch_of(x, 2), batch_of(b, 2))
        spec = ((*batch, *b.shape[-2:]), numpy_dtype(b))
        return tuple(on_host(partial(_residual, self.structure), (spec,), *leaves(p), x, b))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, x, _), (dp, dx, db) = args, tangents
        # dR = dB - dS X - S dX
        moved = plus(
            None if dp is None else push(self.structure, p, dp, x),
            None if dx is None else matmul(self.structure, p, dx),
        )
        dr = minus(db, moved)
        return (spread(nonzero(dr), batch_of(out[0], 2)),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, x, _), (r_bar,) = args, cotangents
        # p_bar = -S^*[R_bar X^H],  X_bar = -S^H R_bar,  B_bar = R_bar
        return (
            outer(self.structure, p, -r_bar, x, need[0]),
            -matmul(self.structure.H, p, r_bar) if need[1] else None,
            r_bar if need[2] else None,
        )


def _residual(structure: Structure, *flat: Any) -> tuple[Any, ...]:
    return (doubled.residual(structure, *flat),)


def cases(structures: Any, draw: Any) -> Cases:
    for structure, p in structures:
        if isinstance(structure, Sparse | Block):  # the augmented matrices of least squares
            n = structure.shape[1]
            yield Residual(structure), (p, draw(n, 2), draw(structure.shape[0], 2))
