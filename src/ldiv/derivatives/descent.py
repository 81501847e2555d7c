"""x near a minimum of f(x), by damped steps with its Hessian, which may be indefinite on the way.

g = grad f,    G = d^2 f / dx^2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ldiv.core.frameworks.array_protocol import Array
from ldiv.derivatives.curvature import Function, SparseCurvature
from ldiv.derivatives.damped_steps import Model, Search, State, Steps
from ldiv.errors import OF_MODES


@dataclass(frozen=True, kw_only=True)
class Descent(Search):
    """The steps down a function, whose derivative has the values of G, and g."""

    equations: SparseCurvature

    called: ClassVar[str] = "laplace"
    function: ClassVar[str] = "f"
    may_be_indefinite: ClassVar[bool] = True
    causes: ClassVar[str] = OF_MODES

    def steps(self, f: Function, derivative: Callable[[Array], Any], x: Array) -> Steps:
        return DescentSteps(self, f, derivative, x)


class DescentSteps(Steps):
    """The steps of one descent."""

    def value(self, r: Array) -> Array:
        return r

    def negligible(self, c: Array) -> Array:
        return 0 * c  # f is known up to a constant

    def model(self, state: State) -> Model:
        xp, (G, g) = self.xp, self.derivative(state.x)
        d = xp.abs(self.search.equations.diagonal(G))
        d2 = xp.maximum(state.d2, d)
        D2, d = xp.where(d2 > 0, d2, self.one), xp.where(d > 0, d, self.one)
        return Model(G, g, d2, D2, d, xp.all(g == 0))
