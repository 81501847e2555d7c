"""f, its gradient and its Hessian at a point, from one evaluation of f.

    c = f(x, p),    g = df/dx,    H s = d(g^T s)/dx

An iteration asks for the same point several times: as a trial, as the start of the next step, and at
the end. The last points are kept, and the graphs of two of them: a trial that fails leaves the point
before it. The pattern of H is not checked on the way to a mode: it is checked at the mode, and at the last
point if there is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, numbers
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.derivatives.curvature import SparseCurvature
from ldiv.derivatives.minimum import Gradient

KEPT, GRAPHS, FEW = 4, 2, 8


@dataclass(eq=False)
class Point:
    """c and g, the values of H, made when they are first asked for, and the numbers of x if known."""

    c: Array
    g: Array
    make: Callable[[], Array] | None
    x: HostArray | None

    @cached_property
    def H(self) -> Array:
        """The values of H."""
        assert self.make is not None
        return self.make()

    @property
    def is_whole(self) -> bool:
        """True if H is known, or can be computed."""
        return self.make is not None or "H" in vars(self)


def evaluated(
    gradient: Gradient,
    hessians: SparseCurvature,
    p: Tree,
    x: Array,
    of: Any,
    is_right: bool = False,
) -> Point:
    """Evaluate f at x. `of`: the function of x whose products are checked once for all points.
    `is_right`: the pattern of H is checked later.
    """
    user = frontend_of(x).user
    g, pull, c = user.vjp(partial(gradient.with_value, p), (x,), None, True)
    return Point(c, g, lambda: hessians.hessian(of, x, pull, is_right), numbers(x))


class Points:
    """The points of an iteration at fixed p, of arrays whose numbers are known; others are evaluated
    each time.
    """

    def __init__(self, gradient: Gradient, hessians: SparseCurvature, p: Tree) -> None:
        self.gradient, self.hessians, self.p = gradient, hessians, p
        self.slope = partial(gradient, p)
        self.kept: list[Point] = []
        self.latest: Array | None = None  # where H was asked for, if its numbers are known

    def at(self, x: Array, needs_graph: bool = True) -> Point:
        """Return the point x, evaluated unless it is one of the last."""
        if (known := numbers(x)) is not None:
            for point in self.kept:
                assert point.x is not None
                # most points differ in their first numbers
                is_same = np.array_equal(point.x[:FEW], known[:FEW])
                is_same = is_same and np.array_equal(point.x, known)
                if is_same and (point.is_whole or not needs_graph):
                    return point
        found: list[Point] = []

        def value(p: Tree, x: Array) -> Array:
            is_right = known is not None
            found.append(evaluated(self.gradient, self.hessians, p, x, self.slope, is_right))
            return found[0].c

        frontend_of(x).user.call(value, self.p, x)
        if known is not None:
            self.kept = [found[0], *self.kept[: KEPT - 1]]
            for point in self.kept[GRAPHS:]:
                point.make = None
        return found[0]

    def value(self, x: Array) -> Array:
        """Return f(x)."""
        return self.at(x, needs_graph=False).c

    def gradient_at(self, x: Array) -> Array:
        """Return g(x)."""
        return self.at(x, needs_graph=False).g

    def derivative(self, x: Array) -> tuple[Array, Array]:
        """Return H and g."""
        point, self.latest = self.at(x), None if numbers(x) is None else x
        return point.H, point.g

    def hessian(self, x: Array) -> Array:
        """Return H."""
        return self.derivative(x)[0]

    def check(self) -> None:
        """Raise an error if the pattern of H is the cause of another error."""
        if self.latest is not None:
            self.hessians.hessian(self.slope, self.latest)
