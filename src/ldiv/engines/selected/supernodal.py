"""Sparse, positive definite: R P A P^T R = L L^T in compiled code, and its selected inverse.

Single precision is computed in double. Without numba, and for complex numbers, the blocks of
`blocks` do the same by NumPy.
The compiled factor solves, too: solves with the matrix of a living determinant borrow it (see
`ldiv.engines.factored`). What it is not accurate enough for, the engines that solve take over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.trees import Tree
from ldiv.engines.factor import Factor
from ldiv.engines.selected.compiled import COMPILED
from ldiv.engines.selected.factors import Selected
from ldiv.engines.selected.fronts import Fronts
from ldiv.engines.selected.general import BlockLDU
from ldiv.errors import NotPositiveDefiniteError

if COMPILED:
    from ldiv.engines.selected import blas, cholesky, inverse

ON_HOST = True
REMEMBERED = True
factor_carefully = None

Array = np.ndarray[Any, np.dtype[Any]]


def analyze(structure: Any) -> Fronts:
    return Fronts(structure.pattern)


def is_compiled(dtype: Any) -> bool:
    """Are factors of this dtype compiled, and so worth solving with?"""
    return COMPILED and np.dtype(dtype).kind == "f"


def factor(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    slots = structure.slot_values(p)
    if is_compiled(slots.dtype):
        return SupernodalCholesky(fronts, slots)
    return BlockLDU(fronts, slots, positive=True)


class SupernodalCholesky(Selected):
    """L in panels, one for each supernode; once it was asked for, the selected inverse too."""

    _arrangement: Fronts

    def __init__(self, fronts: Fronts, slots: Any) -> None:
        super().__init__(fronts, slots)
        self._tree = (
            fronts.starts,
            fronts.row_starts,
            fronts.panel_starts,
            fronts.above,
            fronts.relative,
        )
        self._largest = int(fronts.below.max(initial=1))
        self._l = self._in_panels(self._values)
        failed = cholesky.factor(self._tree, self._l, self._square(), self._index(), blas.call())
        if failed >= 0:
            raise NotPositiveDefiniteError(
                self._name, f"a pivot that is not positive in supernode {failed}"
            )
        self._z: Array | None = None
        self.nbytes = 2 * self._l.nbytes + self._values.nbytes
        self.check_suspect()

    def _in_panels(self, values: Array) -> Array:
        slots, place = self._arrangement.lower_entries
        panels = np.zeros(self._arrangement.entries)
        panels[place] = values[slots]
        return panels

    def _square(self, *several: int) -> Array:
        """Scratch for a block of all rows below one supernode."""
        return np.empty((*several, self._largest**2))

    def _side(self, *several: int) -> Array:
        """Scratch for a panel without its diagonal block."""
        fronts = self._arrangement
        return np.empty((*several, int((fronts.below * fronts.width).max(initial=1))))

    def _index(self) -> Array:
        return np.empty(self._largest, np.int64)

    def _solved(self, b: Any, op: str) -> Any:
        n, k = b.shape
        x = np.array(b.T, np.float64, order="C").reshape(-1)
        block = np.empty(self._largest * k)
        rows = self._arrangement.rows_below
        cholesky.solve(self._tree, rows, self._l, x, k, block, blas.call())
        return x.reshape(k, n).T.astype(self._values.dtype, copy=False)

    def _log_pivots(self) -> Any:
        return 2 * np.log(self._l[self._arrangement.diagonal]).sum()

    def logabsdet(self) -> Any:
        """Without the check of accuracy: Cholesky's backward error is never more than n eps."""
        self.check_nonsingular()
        return self._log_pivots() - sum(np.log(s).sum() for s in self._scales or ())

    def slogdet(self) -> tuple[Any, Any]:
        size = self.logabsdet()
        return np.ones((), self._values.dtype), size

    def _in_z_panels(self) -> Array:
        if self._z is None:
            z = np.empty(self._arrangement.entries)
            inverse.inverse(
                self._tree, self._l, z, self._square(), self._side(), self._index(), blas.call()
            )
            self._z = z
        return self._z

    def _lower(self) -> Array:
        return self._l

    def _inverse(self) -> Array:
        return self._in_z_panels()[self._arrangement.lower_places[0]]

    def _tangent(self, e: Array) -> Array:
        dz = self._in_panels(e)
        inverse.tangent(
            self._tree,
            self._l,
            self._in_z_panels(),
            dz,
            self._square(2),
            self._side(2),
            np.empty((3, int(self._arrangement.width.max()) ** 2)),
            self._index(),
            blas.call(),
        )
        return dz[self._arrangement.lower_places[0]]
