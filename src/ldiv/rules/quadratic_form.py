"""q = Re tr(X^H Y), Y = S(p)^-1 X, for a Hermitian S.

tangent      dq = 2 Re tr(Y^H dX) - Re tr(Y^H dS Y);   dY = S^-1 (dX - dS Y)
cotangent    of q: X_bar = 2 q_bar Y,  p_bar = -q_bar dS^*[Y Y^H];   of Y: that of a solve
cost         1 factorization and 1 solve, for value and gradient together
reference    Giles (2008), section 2.3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import dots, real
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import Structure, minus, nonzero, plus
from ldiv.core.rules.units import of_matrix, of_rest
from ldiv.engines import solver
from ldiv.rules.solve import Solve
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class QuadraticForm(Rule):
    """Arguments p and X (*batch, n, k); outputs q (*batch, k), one for each column, and Y."""

    structure: Structure
    assume_a: str = "gen"
    method: str = "auto"

    @cached_property
    def traits(self) -> Traits:
        return Traits(on_host=self.structure.on_host, only_refuses=True)

    @cached_property
    def solve(self) -> Solve:
        """X -> Y."""
        return Solve(self.structure, self.assume_a, self.method, policy=self.policy)

    @property
    def core(self) -> Trees:
        return (self.structure.core, 2)

    @property
    def units(self) -> tuple[Unit, ...]:
        # X t^2 has the forms t^4 q and t^2 Y; t^2 S divides both by t^2
        return (*of_matrix(self.structure, (-2, -2), 1), of_rest(self.structure, (2,), (4, 2)))

    def kernel(self, p: Tree, x: Array) -> Arrays:
        y = solver.solve(self.structure, p, x, self.assume_a, self.method)
        return real(dots(x, y)), y

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, x), (dp, dx), (_, y) = args, tangents, out
        # dq = 2 Re y^H dx - Re y^H dS y, column by column
        along = self.solve.matrix_tangent(p, dp, y, y, x, x)
        dq = minus(None if dx is None else 2 * dots(y, dx), along)
        return None if dq is None else real(dq), *self.solve.jvp((dp, dx), (y,), p, x)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, x), (q_bar, y_bar), (_, y) = args, cotangents, out
        w = None if q_bar is None else q_bar[..., None, :]
        scaled, right = (None, None) if w is None else (w * y, w * x)
        lam = None if y_bar is None else bind(self.solve, p, y_bar)[0]
        # left = q_bar Y + S^-1 Y_bar,  S left = right;  p_bar = -dS^*[left Y^H]
        left, right = nonzero(plus(scaled, lam)), nonzero(plus(right, y_bar))
        p_bar = self.solve.matrix_cotangent(p, need[0], left, y, right, x)
        # X_bar = 2 q_bar Y + S^-1 Y_bar
        return p_bar, plus(left, scaled) if need[1] else None


def cases(structures: Any, draw: Any) -> Cases:
    for structure, p in structures:
        if isinstance(structure, Symmetric) and structure.op == "H":
            yield QuadraticForm(structure), (p, draw(4, 2))
