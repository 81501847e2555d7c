"""Sparse, positive definite: R P A P^T R = L L^T in compiled code, and its selected inverse.

Single precision is computed in double. Without numba, and for complex numbers, the blocks of
`blocks` do the same by NumPy.
The compiled factor solves, too: solves with the matrix of a living determinant borrow it (see
`ldiv.engines.factors.factorize`). What it is not accurate enough for, the engines that solve take over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.trees import Tree
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.factor import Factor
from ldiv.engines.selected import general
from ldiv.engines.selected.compiled import COMPILED
from ldiv.engines.selected.factors import FrontalFactor, Selected
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import NotPositiveDefiniteError

if COMPILED:
    from ldiv.engines.selected import blas, cholesky, inverse

ON_HOST = True
REMEMBERED = True
NAME = "SupernodalCholesky"
factor_carefully = None

Array = np.ndarray[Any, np.dtype[Any]]


def analyze(structure: Any) -> Fronts:
    return Fronts(structure.pattern)


def is_compiled(dtype: Any) -> bool:
    """Are factors of this dtype compiled, and so worth solving with?"""
    return COMPILED and np.dtype(dtype).kind == "f"


def factor(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    slots = structure.slot_values(p)
    if not is_compiled(slots.dtype):
        return general.factorize(fronts, slots, positive=True)
    m = SparseMatrix(NAME, fronts, slots)
    return Selected(NAME, m, SupernodalCholesky(fronts, m.values))


class SupernodalCholesky(FrontalFactor):
    """L in panels, one for each supernode; once it was asked for, the selected inverse too."""

    is_stable = True  # Cholesky's backward error is never more than n eps

    def __init__(self, fronts: Fronts, values: Array) -> None:
        self._fronts, self._dtype = fronts, values.dtype
        self._tree = (
            fronts.starts,
            fronts.row_starts,
            fronts.panel_starts,
            fronts.above,
            fronts.relative,
        )
        self._largest = int(fronts.below.max(initial=1))
        self._l = self._in_panels(values)
        failed = cholesky.factor(self._tree, self._l, self._square(), self._index(), blas.call())
        if failed >= 0:
            raise NotPositiveDefiniteError(
                NAME, f"a pivot that is not positive in supernode {failed}"
            )
        self._z: Array | None = None
        self.nbytes = 2 * self._l.nbytes

    def _in_panels(self, values: Array) -> Array:
        slots, place = self._fronts.lower_entries
        panels = np.zeros(self._fronts.entries)
        panels[place] = values[slots]
        return panels

    def _square(self, *several: int) -> Array:
        """Scratch for a block of all rows below one supernode."""
        return np.empty((*several, self._largest**2))

    def _side(self, *several: int) -> Array:
        """Scratch for a panel without its diagonal block."""
        fronts = self._fronts
        return np.empty((*several, int((fronts.below * fronts.width).max(initial=1))))

    def _index(self) -> Array:
        return np.empty(self._largest, np.int64)

    def solve(self, b: Any, op: str) -> Any:
        n, k = b.shape
        x = np.array(b.T, np.float64, order="C").reshape(-1)
        block = np.empty(self._largest * k)
        rows = self._fronts.rows_below
        cholesky.solve(self._tree, rows, self._l, x, k, block, blas.call())
        return x.reshape(k, n).T.astype(self._dtype, copy=False)

    def logabsdet(self) -> Any:
        return 2 * np.log(self._l[self._fronts.diagonal]).sum()

    def slogdet(self) -> tuple[Any, Any]:
        return np.ones((), self._dtype), self.logabsdet()

    def _in_z_panels(self) -> Array:
        if self._z is None:
            z = np.empty(self._fronts.entries)
            inverse.inverse(
                self._tree, self._l, z, self._square(), self._side(), self._index(), blas.call()
            )
            self._z = z
        return self._z

    def lower(self) -> Array:
        return self._l

    def inverse_slots(self) -> Array:
        return self._in_z_panels()[self._fronts.lower_places[0]]

    def inverse_tangent(self, e: Array) -> Array:
        dz = self._in_panels(e)
        inverse.tangent(
            self._tree,
            self._l,
            self._in_z_panels(),
            dz,
            self._square(2),
            self._side(2),
            np.empty((3, int(self._fronts.width.max()) ** 2)),
            self._index(),
            blas.call(),
        )
        return dz[self._fronts.lower_places[0]]
