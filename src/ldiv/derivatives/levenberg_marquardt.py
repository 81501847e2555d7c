"""x near a minimum of 1/2 C^2 sum rho((r_i(x) / C)^2), by damped steps or those of Gauss and Newton.

g = J^T rho' r,    G = J^T W J
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ldiv.core.frameworks.array_protocol import Array
from ldiv.derivatives.curvature import Function
from ldiv.derivatives.damped_steps import Model, Search, State, Steps
from ldiv.derivatives.normal_equations import Equations
from ldiv.derivatives.robust_losses import Scaled
from ldiv.errors import OF_MINIMA


@dataclass(frozen=True, kw_only=True)
class FitSearch(Search):
    """The steps of a fit: f is the residual, its derivative has the values of J."""

    equations: Equations
    loss: Scaled

    called: ClassVar[str] = "least_squares"
    function: ClassVar[str] = "residual"
    may_be_indefinite: ClassVar[bool] = False
    causes: ClassVar[str] = OF_MINIMA

    def steps(self, f: Function, derivative: Callable[[Array], Any], x: Array) -> Steps:
        return FitSteps(self, f, derivative, x)


class FitSteps(Steps):
    """The steps of one fit."""

    def __init__(
        self, search: FitSearch, f: Function, derivative: Callable[[Array], Any], x: Array
    ) -> None:
        super().__init__(search, f, derivative, x)
        self.make, self.loss = search.equations, search.loss

    def value(self, r: Array) -> Array:
        return self.loss.cost(r)

    def negligible(self, c: Array) -> Array:
        return self.rounding**0.5 * c  # which is a sum of squares

    def model(self, state: State) -> Model:
        """G = J^T W J and g = J^T rho' r."""
        xp, make, J = self.xp, self.make, self.derivative(state.x)
        psi = self.loss.weighted(state.r)
        G, g = make.assembled(J, self.loss.curvature(state.r)), make.product(J, psi)
        d = make.diagonal(G)
        d2 = xp.maximum(state.d2, d)
        # |cos| of the angle between a column of J and the residual
        sizes = make.lengths(J) * xp.linalg.vector_norm(psi)
        seen = self.rounding * float(psi.shape[0]) ** 0.5 * sizes
        D2, d = xp.where(d2 > 0, d2, 0 * d2 + 1), xp.where(d > 0, d, 0 * d + 1)
        return Model(G, g, d2, D2, d, xp.all(xp.abs(g) <= seen))
