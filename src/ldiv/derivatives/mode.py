"""The mode of exp(-f): a minimum of f, where df/dx = 0 and the Hessian of f is positive definite.

Newton's method on the gradient ends the steps, and f is compared with where it began. An error names
the unknowns along which f curves least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ldiv.core.arrays.shapes import eps
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.rules.rule import Traits
from ldiv.derivatives.curvature import Function
from ldiv.derivatives.damped_steps import POLISHING
from ldiv.derivatives.descent import Descent
from ldiv.derivatives.minimum import Minimum, Problem
from ldiv.derivatives.points import Points
from ldiv.errors import OF_MODES, ConvergenceError
from ldiv.rules.root import System

ROUNDINGS = 10  # of f, by which it may be larger at the mode
COUNTS = 0.5  # power of eps: a smaller difference of logarithms of densities says nothing


@dataclass(frozen=True, kw_only=True)
class Mode(Minimum):
    """The minimum of f."""

    called: ClassVar[str] = "laplace"
    traits = Traits(name=called)
    iteration: ClassVar[str] = "laplace"
    causes: ClassVar[str] = OF_MODES
    matrix: ClassVar[str] = "curvature"

    search: Descent

    def problem(self, p: tuple[Array, ...], x: Array) -> Problem:
        points = Points(self.f, self.search.equations, p)
        system = System(points.gradient_at, points.hessian, points.slope)
        return Problem(points.value, points.slope, points.derivative, system, points.check)

    def look(self, f: Function, near: Array, x: Array) -> None:
        xp, before, after = namespace(x), f(near), f(x)
        # Newton's method on the gradient does not see f: it may have left the valley, or the domain
        size = xp.maximum(ROUNDINGS * eps(x) ** (1 - COUNTS) * xp.abs(before), 1 + 0 * before)
        most = before + eps(x) ** COUNTS * size
        check_or_raise(xp.isfinite(after) & (after <= most), _uphill, after - before)

    def undefined(self) -> ValueError:
        return ValueError(
            "f: expected a gradient that is finite, got NaN or infinity. Is the mode at the edge of "
            "where f is defined? Write positive unknowns as exponentials."
        )


def _uphill(change: Any) -> ConvergenceError:
    what = "at the root of its gradient f is larger than where the steps ended, by"
    return ConvergenceError(Mode.called, POLISHING, float(change), 0.0, what, OF_MODES)
