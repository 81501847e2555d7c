"""Factors that give entries of A^-1 and of -A^-1 E A^-1 on the pattern of A.

An engine factors M = R P A Q C, in the order of its fronts; with slots (i, j) of M

    (A^-1)_ji = r_i c_j (M^-1)_ji,   E -> R P E Q C

and the entries are sorted as those of A again.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ldiv.engines.refinement import Refined
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import SingularMatrixError

Array = np.ndarray[Any, np.dtype[Any]]


class Selected(Refined):
    """The factors of one matrix, whose arrangement are its fronts."""

    _arrangement: Fronts

    @abstractmethod
    def _inverse(self) -> Array:
        """(M^-1)_ji for every slot (i, j) of M."""

    @abstractmethod
    def _tangent(self, e: Array) -> Array:
        """(-M^-1 E M^-1)_ji for every slot (i, j) of M, E given in these slots."""

    @abstractmethod
    def _lower(self) -> Array:
        """L of M = L L^H in panels, if M was factored as positive definite."""

    def triangle(self) -> Array:
        """The entries of L of P A P^T = L L^H in the places of `Fronts.factor_entries`."""
        self.check_nonsingular()
        self._require_accurate(lambda b: self._solved(b, "N"))
        position, rows, _ = self._arrangement.factor_entries
        l = self._lower()[position]
        if self._scales is not None:  # the same for rows and columns, of a Hermitian matrix
            l = l / self._scales[0][rows]
        return l.astype(self._values.dtype, copy=False)

    def inverse_entries(self) -> Array:
        """(A^-1)_ji for every slot (i, j) of A."""
        self.check_nonsingular()
        with np.errstate(all="ignore"):
            return self._sorted(self._inverse())

    def inverse_tangent(self, e: Array) -> Array:
        """(-A^-1 E A^-1)_ji for every slot (i, j) of A, E given in these slots."""
        self.check_nonsingular()
        arranged = self._arrangement.arranged(e).astype(self._values.dtype, copy=False)
        with np.errstate(all="ignore"):
            return self._sorted(self._tangent(self._weights * arranged))

    @cached_property
    def _weights(self) -> Any:
        """r_i c_j of every slot."""
        if self._scales is None:
            return np.ones((), self._values.dtype)
        (r, c), layout = self._scales, self._arrangement.layout
        return r[layout.rows] * c[layout.cols]

    def _sorted(self, z: Array) -> Array:
        """The slots of A from those of M."""
        arrangement = self._arrangement
        z = (self._weights * z).astype(self._values.dtype, copy=False)
        return z if arrangement.is_natural else z[arrangement.pattern.slot]

    def _require_identity(self, z: Array) -> None:
        """Raises unless (M Z)_ii = 1 = (Z M)_ii: products of entries that were all computed."""
        products = self._values * z
        layout = self._arrangement.layout
        error = np.abs(layout.sums(products) - 1)
        if not (error <= self._tolerance * np.maximum(layout.sums(np.abs(products)), 1)).all():
            raise SingularMatrixError(
                self._name, "entries of the inverse that do not multiply to the identity"
            )
