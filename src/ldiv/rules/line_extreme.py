"""y_l = the largest or smallest of the x_e with line[e] = l, and of 0 where the line has a hole.

tangent      dy_l = dx_e for the first e where it is attained, 0 for a hole
cotangent    x_bar_e = y_bar_line[e] there, 0 elsewhere
cost         one pass, on the host
reference    a subgradient, where it is attained more than once
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype, take
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.traits import Traits
from ldiv.core.rules.units import Unit
from ldiv.rules.gather import add_up


@dataclass(frozen=True)
class LineExtreme(Rule):
    """Argument x (*batch, n); outputs y (*batch, lines), and whether each entry is the one chosen.

    `lines` has entry e at (line[e], e), `holes` the lines where 0 counts, at (l, 0).
    """

    lines: Pattern
    holes: Pattern
    largest: bool

    core = (1,)

    @cached_property
    def traits(self) -> Traits:
        return Traits(name="max" if self.largest else "min", differentiable=(True, False))

    @property
    def units(self) -> tuple[Unit, ...]:
        return (Unit((2,), (2, 0)),)

    def kernel(self, *args: Tree) -> Arrays:
        (x,) = args
        shape, dtype = (*x.shape[:-1], self.lines.shape[0]), numpy_dtype(x)
        specs = ((shape, dtype), (tuple(x.shape), dtype))
        return on_host(self._on_host, specs, x)

    def _on_host(self, x: Any) -> tuple[Any, Any]:
        line, count = self.lines.rows, self.lines.shape[0]
        worst = -np.inf if self.largest else np.inf
        y = np.full((count, *x.shape[:-1]), worst, x.dtype)
        y[self.holes.rows] = 0
        # `ufunc.at` takes indices of the first axis: lines first, the batch behind
        moved = np.moveaxis(x, -1, 0)
        (np.maximum if self.largest else np.minimum).at(y, line, moved)
        # the first entry of each line that attains its extreme; len(line) is none
        first = np.full(y.shape, len(line))
        attained = np.where(
            moved == y[line], np.arange(len(line))[(..., *[None] * (x.ndim - 1))], len(line)
        )
        np.minimum.at(first, line, attained)
        # where the 0 of a hole is the extreme no entry is chosen
        first[self.holes.rows] = np.where(
            y[self.holes.rows] == 0, len(line), first[self.holes.rows]
        )
        chosen = np.moveaxis(first[line], 0, -1) == np.arange(len(line))
        return np.moveaxis(y, 0, -1).copy(), chosen.astype(x.dtype)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        if tangents[0] is None:
            return None, None
        moved = add_up(tangents[0] * out[1], self.lines.rows, self.lines.shape[0])
        return moved, 0 * out[1]

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        if cotangents[0] is None or not need[0]:
            return (None,)
        return (take(cotangents[0], self.lines.rows) * out[1],)


def line_extreme(x: Array, line: Any, holes: Any, count: int, largest: bool) -> Array:
    """The extreme of each line (*batch, count); `holes` are the lines with 0 among their numbers."""
    lines = Pattern(line, np.arange(len(line)), (count, len(line)))
    return bind(LineExtreme(lines, Pattern(holes, 0 * holes, (count, 1)), largest), x)[0]


def cases(structures: Any, draw: Any) -> Iterator[tuple[LineExtreme, Trees]]:
    line, none = np.array([0, 2, 0, 1, 2]), np.zeros(0, int)
    lines = Pattern(line, np.arange(5), (3, 5))
    real = abs(draw(2, 5)) + np.arange(5.0)
    yield LineExtreme(lines, Pattern(none, none, (3, 1)), True), (real,)
    yield LineExtreme(lines, Pattern(np.array([0]), np.array([0]), (3, 1)), False), (real[0] - 3.0,)
