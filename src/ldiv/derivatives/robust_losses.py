"""rho(z), z = (r / C)^2: what a residual r costs, 1/2 C^2 rho, under SciPy's names.

rho' weighs the residual in the gradient, J^T rho' r; rho' + 2 z rho'' is the curvature along r.

               rho(z)                  rho'(z)
linear         z                       1
soft_l1        2 (sqrt(1 + z) - 1)     (1 + z)^-1/2
huber          z, 2 sqrt(z) - 1        1, z^-1/2       for z <= 1, z > 1
cauchy         log(1 + z)              1 / (1 + z)
arctan         arctan(z)               1 / (1 + z^2)

Reference: Triggs, McLauchlan, Hartley and Fitzgibbon, Bundle Adjustment: A Modern Synthesis (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace

Function = Callable[[Any, Array], Array]  # of a namespace and z
# Of rho', the smallest curvature with which a residual counts. rho is concave, so that with rho' the
# model lies above the cost, and its step decreases it; so does a step up to twice as long, with half.
LEAST = 0.7
# Where the cost of a residual turns down again there are several minima, and steps of outliers that
# weigh little find that of the inliers, as SciPy's do.
LEAST_OF_TURNING = 0.1


@dataclass(frozen=True)
class Loss:
    """rho, rho' and 2 z rho'' / rho', which is -1 where the cost grows linearly, and less beyond."""

    value: Function
    slope: Function
    bend: Function
    least: float = LEAST


def _one(xp: Any, z: Array) -> Array:
    return 0 * z + 1


LOSSES = {
    "linear": Loss(lambda xp, z: z, _one, lambda xp, z: 0 * z),
    "soft_l1": Loss(
        lambda xp, z: 2 * z / (xp.sqrt(1 + z) + 1),
        lambda xp, z: 1 / xp.sqrt(1 + z),
        lambda xp, z: -z / (1 + z),
    ),
    "huber": Loss(
        lambda xp, z: xp.where(z <= 1, z, 2 * xp.sqrt(xp.where(z <= 1, 0 * z + 1, z)) - 1),
        lambda xp, z: 1 / xp.sqrt(xp.where(z <= 1, 0 * z + 1, z)),
        lambda xp, z: xp.where(z <= 1, 0 * z, 0 * z - 1),
    ),
    "cauchy": Loss(
        lambda xp, z: xp.log1p(z),
        lambda xp, z: 1 / (1 + z),
        lambda xp, z: -2 * z / (1 + z),
        LEAST_OF_TURNING,
    ),
    "arctan": Loss(
        lambda xp, z: xp.atan(z),
        lambda xp, z: 1 / (1 + z * z),
        lambda xp, z: -4 * z * z / (1 + z * z),
        LEAST_OF_TURNING,
    ),
}


@dataclass(frozen=True)
class Scaled:
    """A loss whose residuals are inliers up to C, `f_scale`."""

    name: str
    f_scale: float

    def _z(self, r: Array) -> Array:
        return (r / self.f_scale) ** 2

    def cost(self, r: Array) -> Array:
        """1/2 C^2 sum rho."""
        xp = namespace(r)
        rho = LOSSES[self.name].value(xp, self._z(r))
        return xp.sum(rho) * self.f_scale * (self.f_scale / 2)

    def weighted(self, r: Array) -> Array:
        """rho' r, differentiable: the gradient of the cost in r."""
        if self.name == "linear":
            return r
        return LOSSES[self.name].slope(namespace(r), self._z(r)) * r

    def curvature(self, r: Array) -> Array:
        """rho' + 2 z rho'', but not much less than rho': an outlier pulls, and curves upwards."""
        xp, z, loss = namespace(r), self._z(r), LOSSES[self.name]
        bend = 1 + loss.bend(xp, z)
        return loss.slope(xp, z) * xp.where(bend > loss.least, bend, 0 * z + loss.least)
