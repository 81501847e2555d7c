"""The report of a fit: `least_squares(..., info=True)` returns it beside x, and `verbose` prints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldiv.core.frameworks.array_protocol import Array
from ldiv.derivatives.root_info import RootInfo

COLUMNS = "{:>9} {:>15} {:>15} {:>15}"


@dataclass(frozen=True)
class LeastSquaresInfo:
    """The steps of a fit, and how well its minimum is determined.

    Attributes
    ----------
    steps : int
        The number of Levenberg-Marquardt or Gauss-Newton steps.
    costs : NumPy array (steps + 1,)
        The cost at the start, and after each step.
    optimality : NumPy array (steps,)
        The largest |g_j| of the gradient g of the cost before each step, as SciPy calls it.
    newton : RootInfo
        The steps of Newton's method on g, which follow; `newton.condition` is that of the Hessian
        of the cost at the minimum.
    """

    steps: int
    costs: NDArray[Any]
    optimality: NDArray[Any]
    newton: RootInfo


@dataclass(eq=False)
class FitPath:
    """An observer that collects the steps, and prints them if `verbose` is 2."""

    verbose: int = 0
    costs: list[float] = field(default_factory=list)
    optimality: list[float] = field(default_factory=list)

    def start(self, cost: Array) -> None:
        """Called once for each fit."""
        self.costs.append(float(cost))
        if self.verbose == 2:
            print(COLUMNS.format("step", "cost", "length", "optimality"))
            print(COLUMNS.format(0, f"{self.costs[-1]:.4e}", "", ""))

    def __call__(self, cost: Array, length: Array, slope: Array) -> None:
        """Called after each step: its cost and length, and the largest |g_j| before it."""
        self.costs.append(float(cost))
        self.optimality.append(float(slope))
        if self.verbose == 2:
            row = f"{self.costs[-1]:.4e}", f"{float(length):.2e}", f"{self.optimality[-1]:.2e}"
            print(COLUMNS.format(len(self.optimality), *row))

    def info(self, newton: RootInfo) -> LeastSquaresInfo:
        """Return what was collected, and print a summary of it if `verbose` is not 0."""
        if self.verbose:
            print(
                f"least_squares: cost {self.costs[0]:.4e} -> {self.costs[-1]:.4e} in "
                f"{len(self.optimality)} steps, and {newton.steps} of Newton's method; "
                f"|gradient| {newton.residuals[-1]:.2e}"
            )
        return LeastSquaresInfo(
            len(self.optimality), np.array(self.costs), np.array(self.optimality), newton
        )
