"""Factors that give entries of A^-1 and of -A^-1 E A^-1 on the pattern of A.

An engine factors M = R P A Q C, in the order of its fronts; with slots (i, j) of M

    (A^-1)_ji = r_i c_j (M^-1)_ji,   E -> R P E Q C

and the entries are sorted as those of A again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.finite import unwarned
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.selected.compiled import CompiledFactor
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import SingularMatrixError


class Selected(Verified):
    """A matrix whose arrangement are its fronts, with a factor by them."""

    _factor: CompiledFactor

    def __init__(
        self,
        engine: str,
        m: SparseMatrix,
        factor: CompiledFactor,
        last: bool = False,
        proven: bool = False,
    ) -> None:
        super().__init__(engine, m, factor, m.scales, last=last, proven=proven)
        self._values = m.values
        assert isinstance(m.arrangement, Fronts)
        self._fronts = m.arrangement

    def _require_accurate(self) -> None:
        """Raise if small pivots may have cost accuracy that products with small entries cannot show."""
        if self._factor.is_stable:
            self.check_nonsingular()
        else:
            super()._require_accurate()

    def triangle(self) -> HostArray:
        """The entries of L of P A P^T = L L^H in the places of `Fronts.factor_entries`."""
        super()._require_accurate()
        _, rows, _ = self._fronts.factor_entries
        l = self._factor.lower()
        if self._scales is not None:  # the same for rows and columns, of a Hermitian matrix
            # P A P^T = R^-1 L L^H R^-1: row i of L over r_i
            l = l / self._scales[0][rows]
        return l.astype(self._values.dtype, copy=False)

    def inverse_entries(self) -> HostArray:
        """(A^-1)_ji for every slot (i, j) of A."""
        return self._sorted(self._entries)

    @cached_property
    def _entries(self) -> HostArray:
        self._require_accurate()
        with unwarned():
            z = self._factor.inverse_slots()
            if not self._factor.is_stable:
                self._require_identity(z)
        return z

    def inverse_tangent(self, e: Any) -> HostArray:
        """(-A^-1 E A^-1)_ji for every slot (i, j) of A, E given in these slots."""
        self._require_accurate()
        arranged = self._fronts.arranged(e).astype(self._values.dtype, copy=False)
        # E -> R P E Q C in slots, and -M^-1 (R P E Q C) M^-1
        with unwarned():
            return self._sorted(self._factor.inverse_tangent(self._weights * arranged))

    @cached_property
    def _weights(self) -> Any:
        """r_i c_j of every slot."""
        if self._scales is None:
            return np.ones((), self._values.dtype)
        (r, c), layout = self._scales, self._fronts.layout
        return r[layout.rows] * c[layout.cols]

    def _sorted(self, z: HostArray) -> HostArray:
        """The slots of A from those of M."""
        with unwarned():
            z = (self._weights * z).astype(self._values.dtype, copy=False)
        return z if self._fronts.is_natural else z[self._fronts.pattern.slot]

    def _require_identity(self, z: HostArray) -> None:
        """Raise unless (M Z)_ii = 1 = (Z M)_ii: products of entries that were all computed."""
        # slot (i, j) has M_ij Z_ji, whose sums by rows are (M Z)_ii and by columns (Z M)_jj
        products = self._values * z
        layout = self._fronts.layout
        error = np.abs(layout.sums(products) - 1)
        # relative to the size of the terms, at least 1
        if not (error <= self._tolerance * np.maximum(layout.sums(np.abs(products)), 1)).all():
            raise SingularMatrixError(
                self._engine, "entries of the inverse that do not multiply to the identity"
            )
