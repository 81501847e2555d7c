"""The largest and the smallest entry of a sparse array, of its rows or columns, and where they are.

What is not stored is 0, and counts, unless `explicit` leaves it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import is_complex
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import bind
from ldiv.errors import type_error, value_error
from ldiv.matrices.sparse_reductions import Axis, axis_of
from ldiv.matrices.sparse_values import SparseValues
from ldiv.rules.line_extreme import LineExtreme


class Extremes(SparseValues):
    """Extremes over rows, columns or both; batch axes stay."""

    def max(self, axis: Axis = None, out: None = None, *, explicit: bool = False) -> Any:
        """The largest entry, of each column (axis=0) or each row (axis=1).

        Differentiable: the derivative is that of the first entry that is as large, or 0 where that
        is not stored.
        """
        return self._line_extreme("max", axis, out, explicit)

    def min(self, axis: Axis = None, out: None = None, *, explicit: bool = False) -> Any:
        """The smallest entry, of each column (axis=0) or each row (axis=1), as `max`."""
        return self._line_extreme("min", axis, out, explicit)

    def argmax(self, axis: Axis = None, out: None = None, *, explicit: bool = False) -> Any:
        """The place of the largest entry: its column in each row (axis=1), its row in each column
        (axis=0), its number row by row (None); the first of several. On the host; values are needed.
        """
        return self._places("argmax", axis, out, explicit)

    def argmin(self, axis: Axis = None, out: None = None, *, explicit: bool = False) -> Any:
        """The place of the smallest entry, as `argmax` gives it."""
        return self._places("argmin", axis, out, explicit)

    @public
    def _line_extreme(self, name: str, axis: Any, out: Any, explicit: Any) -> Array:
        which, once = self._validated(name, axis, out)
        found = bind(once._rule(name, which, require_flag("explicit", explicit)), once.values)[0]
        return found[..., 0] if which is None else found

    def _rule(self, name: str, which: int | None, explicit: bool) -> LineExtreme:
        """The rule of the extremes of all lines, which the structure keeps."""

        def made() -> LineExtreme:
            line, _, count, length = self._lines(which)
            stored = np.bincount(line, minlength=count)
            holes = np.flatnonzero(stored == 0 if explicit else stored < length)
            lines = Pattern(line, np.arange(len(line)), (count, len(line)))
            return LineExtreme(lines, Pattern(holes, 0 * holes, (count, 1)), name == "max")

        return self.structure.cached((name, which, explicit), made)

    @public
    def _places(self, name: str, axis: Any, out: Any, explicit: Any) -> Any:
        which, once = self._validated(name, axis, out)
        line, place, count, length = once._lines(which)
        values = asnumpy(once.values)
        require_finite(name, values)
        if explicit := require_flag("explicit", explicit):
            stored = np.bincount(line, minlength=count)
            if (stored == 0).any():
                advice = "Without explicit zeros count, which are not stored."
                raise value_error(name, "entries in every line", "none", advice)
            hole = np.full(count, length)
        else:
            hole = _first_holes(line, place, count)
        y, _ = once._rule(name[3:], which, explicit).extremes(values)
        # the first place of each line with x_e = y_l, or its first hole where y_l = 0
        found = np.where((y == 0) & (hole < length), hole, length)
        *of_batch, e = np.nonzero(values == y[..., line])
        np.minimum.at(found, (*of_batch, line[e]), place[e])
        return found if which is not None else found[..., 0][()]

    def _validated(self, name: str, axis: Any, out: Any) -> tuple[int | None, Any]:
        """The axis, and the array with every position once."""
        which, shape = axis_of(axis), self.structure.shape
        if out is not None:
            raise type_error("out", "None", type(out).__name__, "Take the result.")
        if is_complex(self.data):
            raise type_error(name, "real entries", "complex ones", "They have no order.")
        if 0 in (shape if which is None else (shape[which],)):
            advice = "Nothing is the largest of none."
            raise value_error(name, "at least one entry", f"shape {shape}", advice)
        return which, self._unique()

    def _lines(self, which: int | None) -> tuple[Index, Index, int, int]:
        """The line of each entry and its place there; how many lines there are, and how long."""
        (row, col), (m, n) = self._at, self.structure.shape
        if which is None:
            return np.zeros_like(row), row.astype(np.int64) * n + col, 1, m * n
        return (row, col, m, n) if which == 1 else (col, row, n, m)


def _first_holes(line: Index, place: Index, count: int) -> Index:
    """The first place of each line where nothing is stored."""
    order = np.lexsort((place, line))
    line, place = line[order], place[order]
    stored = np.bincount(line, minlength=count)
    number = np.arange(len(line)) - (np.cumsum(stored) - stored)[line]
    hole = stored.astype(np.int64)
    beyond = place != number
    np.minimum.at(hole, line[beyond], number[beyond])
    return hole
