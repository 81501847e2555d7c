"""lower < x < upper for the unknowns of a nonlinear system: a step ends on its way to the nearest bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, is_array, namespace, traced
from ldiv.core.frameworks.trees import HostArray
from ldiv.errors import shown, type_error, value_error

INSIDE = 0.9  # of the way to the nearest bound, at most


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of one number, or (n,), on the host; compared by content."""

    lower: HostArray
    upper: HostArray

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[bytes, bytes]:
        return self.lower.tobytes(), self.upper.tobytes()

    def hold(self, x: Array) -> Array:
        """True if x is between the bounds."""
        lower, upper = self._like(x)
        return namespace(x).all((lower < x) & (x < upper))

    def part(self, x: Array, dx: Array) -> Array:
        """Return the largest t <= 1 for which x + t dx takes at most the part INSIDE of the way to
        a bound.
        """
        xp, (lower, upper) = namespace(x), self._like(x)
        room, far = xp.where(dx < 0, x - lower, upper - x), xp.abs(dx)
        parts = xp.where(far > 0, INSIDE * room / xp.where(far > 0, far, 1 + far), 1 + far)
        return xp.min(xp.concat([parts, xp.ones((1,), **alike(x))]))

    def _like(self, x: Array) -> tuple[Array, Array]:
        xp = namespace(x)
        return xp.asarray(self.lower, **alike(x)), xp.asarray(self.upper, **alike(x))


def require_bounds(bounds: Any, n: int) -> Bounds:
    """Bounds from (lower, upper), as in `scipy.optimize.least_squares`."""
    if hasattr(bounds, "lb"):  # scipy.optimize.Bounds
        bounds = bounds.lb, bounds.ub
    expected = f"(lower, upper), each a number or an array ({n},)"
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise value_error("bounds", expected, shown(bounds), "As in scipy.optimize.")
    pair = [host_vector("bounds", b, n, expected) for b in bounds]
    if not (pair[0] < pair[1]).all():
        came, advice = "bounds between which there is nothing", "NaN is no bound, inf is none."
        raise value_error("bounds", "lower < upper", came, advice)
    return Bounds(*pair)


def host_vector(name: str, x: Any, n: int, expected: str) -> HostArray:
    """A constant number, or one for each unknown, on the host."""
    if is_array(x) and traced(x):
        advice = "It is a constant of a program."
        raise type_error(name, expected, "a trace", advice)
    try:
        found = np.array(asnumpy(x) if is_array(x) else x, np.float64)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    found = found.reshape(()) if found.shape == (1,) else found  # as scipy.optimize.Bounds has it
    if found.shape not in ((), (n,)):
        raise value_error(name, expected, shown(x), "One for each unknown.")
    return found
