"""Pivots and scales that serve once more: what the last factor of a pattern left behind.

In a loop the values change and the pattern does not. An engine that can factor by given pivots, in
place, takes the numeric factor of one that nobody needs any more, and is four times as fast. The
pivots may be bad for the new values, without a sign of it: so what comes of them is accepted only
if it is as accurate as a factor with pivots of its own. There is one such factor for a pattern at
most, and whoever takes it has it alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.pattern import Values
from ldiv.engines.accuracy.equilibration import Layout, Scales, equilibrated
from ldiv.engines.accuracy.limits import DRIFT


class Kept(NamedTuple):
    """A numeric factor, the scales of its matrix, the sums of |R A C| by rows and columns, and the
    backward error of a solution when its pivots were its own.
    """

    numeric: Any
    dtype: np.dtype[Any]
    scales: Scales
    sums: Values
    error: float


class Rescaling:
    """The scaling of a new matrix by the scales that were kept, as long as they balance it."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self.column_sums: Values | None = None  # of |R A C| by the kept scales

    def __call__(self, layout: Layout, values: Values) -> tuple[Values, Scales]:
        """The values of R A C, and the scales; see `equilibrated`."""
        assert self._kept.scales is not None
        found = layout.scaled(values, *self._kept.scales)
        sums = both_sums(layout, np.abs(found))
        ratio = sums / self._kept.sums
        if ratio.min() >= 1 / DRIFT and ratio.max() <= DRIFT:
            self.column_sums = sums[layout.height :]
            return found, self._kept.scales
        return equilibrated(layout, values)


def both_sums(layout: Layout, size: Values) -> Values:
    """The row sums, then the column sums, by products with ones."""
    return np.concatenate([layout.row_sums(size), layout.column_sums(size)])


class Spare:
    """At most one `Kept`, for whoever comes first."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []

    def leave(self, kept: Kept) -> None:
        """In place of the one that is there: it is of older values."""
        self._kept[:] = [kept]

    def take(self, dtype: np.dtype[Any]) -> Kept | None:
        """The one that is there, which then is there no more; None if it is of another dtype."""
        try:
            kept = self._kept.pop()
        except IndexError:
            return None
        return kept if kept.dtype == dtype else None
