"""Base of compiled factors by fronts: threads, memory, entries of the inverse and their tangent.

Compiled code declines where a pivot is bad; the verdict on A is made in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.accuracy.sparse_checked import LARGE
from ldiv.engines.factor import Factor
from ldiv.engines.libraries.threads import get_num_threads
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import EngineUnavailableError


class CompiledFactor(Factor):
    """A factor of M `found` in compiled code; once it was asked for, the selected inverse too."""

    is_stable = False  # is its backward error small whatever the matrix?

    def __init__(self, engine: str, fronts: Fronts, dtype: Any) -> None:
        self._engine, self._fronts, self._dtype = engine, fronts, dtype

    def _keep(self, found: Any) -> None:
        self._require(found is not None)
        self._compiled = found

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self._compiled.nbytes)

    def _require(self, accepted: bool) -> None:
        """Raise if compiled code has declined, which it does only for lack of memory."""
        if not accepted:
            raise EngineUnavailableError(self._engine, "has not enough memory for its factor")

    def lower(self) -> HostArray:
        """The entries of L of M = L L^H in the places of `Fronts.factor_entries`, if M was factored
        as positive definite.
        """
        raise NotImplementedError

    def inverse_slots(self) -> HostArray:
        """(M^-1)_ji for every slot (i, j) of M."""
        found = np.empty(self._fronts.pattern.slots, self._dtype)
        self._require(self._compiled.inverse(found, threads_for(self._fronts)))
        return found

    def inverse_tangent(self, e: Any) -> HostArray:
        """(-M^-1 E M^-1)_ji for every slot (i, j) of M, E given in these slots."""
        found = np.empty(self._fronts.pattern.slots, self._dtype)
        e = np.ascontiguousarray(e, self._dtype)
        self._require(self._compiled.tangent(e, found, threads_for(self._fronts)))
        return found


def threads_for(fronts: Fronts) -> int:
    """The number of threads that share one factor."""
    return get_num_threads() if fronts.entries >= LARGE else 1
