"""Sums and means of the entries of a sparse array, and how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.validate import require_int
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import asnumpy, namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import expected_got, value_error
from ldiv.matrices.sparse_storage import own_dtype
from ldiv.matrices.sparse_values import SparseValues
from ldiv.rules.gather import adding_up

Axis = int | tuple[int, int] | None


def axis_of(axis: Any) -> int | None:
    """0 or 1 of the matrix, None for both."""
    if axis is None or (
        isinstance(axis, tuple)
        and all(type(a) is int and -2 <= a <= 1 for a in axis)
        and sorted(a % 2 for a in axis) == [0, 1]
    ):
        return None
    advice = "Batch axes are summed on the result."
    return require_int("axis", axis, -2, 1, what="None, 0 or 1", advice=advice) % 2


def _require_no_out(out: Any) -> None:
    """NumPy's `sum(A)` passes None."""
    if out is not None:
        raise value_error("out", "None", type(out).__name__, "The result is a new array.")


class Reductions(SparseValues):
    """Sums over rows or columns; batch axes stay."""

    @public
    def sum(self, axis: Axis = None, dtype: Any = None, out: None = None) -> Any:
        """The sum of all entries, of each column (axis=0) or each row (axis=1); differentiable."""
        _require_no_out(out)
        axis, xp = axis_of(axis), namespace(self.data)
        if axis is None:
            total = xp.sum(self.values, axis=-1)
        else:
            place, size = self._at[1 - axis], self.structure.shape[1 - axis]
            total = self._gathered(("sum", axis), lambda: adding_up(place, size))
        return total if dtype is None else xp.astype(total, own_dtype(total, dtype))

    def mean(self, axis: Axis = None, dtype: Any = None, out: None = None) -> Any:
        """The sum divided by the number of places, stored or not; differentiable."""
        _require_no_out(out)
        (m, n), which = self.structure.shape, axis_of(axis)
        count = m * n if which is None else (m, n)[which]
        if count == 0:
            raise ZeroDivisionError(
                expected_got("mean", "at least one entry", f"shape {(m, n)}", "It has no mean.")
            )
        return self.sum(axis, dtype) / count

    def getnnz(self, axis: int | None = None) -> int | Index:
        """The number of stored entries, of each column (axis=0) or each row (axis=1)."""
        which = axis_of(axis)
        if which is None:
            return self.nnz
        return np.bincount(self._at[1 - which], minlength=self.structure.shape[1 - which])

    def count_nonzero(self, axis: int | None = None) -> Any:
        """The number of entries that are not zero, in all, or as in `getnnz`; values are needed."""
        once, which = self._unique(), axis_of(axis)
        different = asnumpy(once.values) != 0
        if which is None:
            return np.count_nonzero(different, axis=-1)
        total = np.zeros((once.structure.shape[1 - which], *different.shape[:-1]), np.int64)
        np.add.at(total, once._at[1 - which], np.moveaxis(different, -1, 0))
        return np.moveaxis(total, 0, -1)

    def nonzero(self) -> tuple[Index, Index]:
        """Rows and columns of the entries that are not zero in any of the batch; row by row in csc,
        too.
        """
        once = self._unique()
        values = asnumpy(once.values)
        at = np.flatnonzero((values != 0).any(axis=tuple(range(values.ndim - 1))))
        if once.format == "csc":
            at = at[np.argsort(once._at[0][at], kind="stable")]
        return once._at[0][at], once._at[1][at]
