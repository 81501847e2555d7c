"""y_l = the largest or smallest of the x_e with line[e] = l, and of 0 where the line has a hole.

tangent      dy_l = dx_e for the first e where it is attained, 0 for a hole
cotangent    x_bar_e = y_bar_line[e] there, 0 elsewhere
cost         one pass, on the host
reference    a subgradient, where it is attained more than once
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import beside, numpy_dtype, take
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, on_host
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.rules.gather import add_up


@dataclass(frozen=True)
class LineExtreme(Rule):
    """Argument x (*batch, n); outputs y (*batch, lines), and the chosen e (*batch, lines), n for a hole.

    `lines` has entry e at (line[e], e), `holes` the lines where 0 counts, at (l, 0).
    """

    lines: Pattern
    holes: Pattern
    largest: bool

    core = (1,)

    @cached_property
    def traits(self) -> Traits:
        return Traits(name="max" if self.largest else "min", differentiable=(True, False))

    units = (Unit((2,), (2, 0)),)

    def kernel(self, x: Array) -> Arrays:
        shape = (*x.shape[:-1], self.lines.shape[0])
        return on_host(self.extremes, ((shape, numpy_dtype(x)), (shape, self.lines.cols.dtype)), x)

    @cached_property
    def _sorted(self) -> tuple[Index | slice, Index, Index, Index]:
        """The entries line by line, the lines that have some, where these begin, how many they have."""
        line, count = self.lines.rows, np.bincount(self.lines.rows, minlength=self.lines.shape[0])
        is_sorted = bool((line[1:] >= line[:-1]).all())
        full = np.flatnonzero(count)
        order = slice(None) if is_sorted else np.argsort(line, kind="stable")
        return order, full, (np.cumsum(count) - count)[full], count[full]

    def extremes(self, x: Any) -> tuple[Any, Any]:
        """The outputs for NumPy arrays."""
        (m, n), hole = self.lines.shape, self.holes.rows
        order, full, start, count = self._sorted
        better, worst = (np.maximum, -np.inf) if self.largest else (np.minimum, np.inf)
        # y_l = the extreme of the x_e of line l, and of 0 for a hole
        y = np.full((*x.shape[:-1], m), worst, x.dtype)
        y[..., hole] = 0
        x = x[..., order]
        if n:
            y[..., full] = better(y[..., full], better.reduceat(x, start, axis=-1))
        # the first e of each line with x_e = y_l, none where y_l is the 0 of a hole
        sought = y.copy()
        sought[..., hole] = np.where(y[..., hole] == 0, np.nan, y[..., hole])
        found = np.nonzero(x == np.repeat(sought[..., full], count, axis=-1))
        e = self.lines.cols
        chosen = np.full(y.shape, n, e.dtype)
        at = (*found[:-1], np.repeat(full, count)[found[-1]])
        np.minimum.at(chosen, at, e[order][found[-1]])
        return y, chosen

    def _is_chosen(self, out: Arrays) -> Array:
        """1 at each chosen entry, 0 at the others (*batch, n)."""
        y, chosen = out
        xp = namespace(y)
        is_chosen = take(chosen, self.lines.rows) == xp.asarray(self.lines.cols, **beside(y))
        return xp.astype(is_chosen, y.dtype)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        # dy_l = sum of dx_e over the one chosen e of line l
        moved = tangents[0] * self._is_chosen(out)
        return add_up(moved, self.lines.rows, self.lines.shape[0]), 0 * out[1]

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        # x_bar_e = y_bar_line[e] for a chosen e, 0 for the others
        return (take(cotangents[0], self.lines.rows) * self._is_chosen(out),)


def cases(structures: Any, draw: Any) -> Cases:
    line, none = np.array([0, 2, 0, 1, 2]), np.zeros(0, int)
    lines = Pattern(line, np.arange(5), (3, 5))
    real = abs(draw(2, 5)) + np.arange(5.0)
    yield LineExtreme(lines, Pattern(none, none, (3, 1)), True), (real,)
    yield LineExtreme(lines, Pattern(np.array([0]), np.array([0]), (3, 1)), False), (real[0] - 3.0,)
