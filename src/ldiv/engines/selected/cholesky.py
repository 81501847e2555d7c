"""R P A P^H R = L L^H in compiled code: solves, the determinant, the selected inverse and its tangent.

What is compiled declines where a pivot is not positive; the verdict on A is not its to speak.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.trees import HostArray
from ldiv.engines.libraries.threads import get_num_threads
from ldiv.engines.selected.factors import FrontalFactor
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import EngineUnavailableError, NotPositiveDefiniteError

LARGE = 100_000  # numbers in L from which a second thread is worth its start


class CompiledCholesky(FrontalFactor):
    """L in panels, one for each supernode; once it was asked for, the selected inverse too."""

    is_stable = True  # Cholesky's backward error is never more than n eps

    def __init__(self, engine: str, fronts: Fronts, values: HostArray) -> None:
        self._engine, self._fronts, self._dtype = engine, fronts, values.dtype
        found = fronts.compiled.factor(np.ascontiguousarray(values), self._threads())
        if isinstance(found, int):
            raise NotPositiveDefiniteError(
                engine, f"a pivot that is not positive in supernode {found}"
            )
        self._require(found is not None)
        self._l = found

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self._l.nbytes)

    def _threads(self) -> int:
        return get_num_threads() if self._fronts.entries >= LARGE else 1

    def _require(self, accepted: bool) -> None:
        """It declines only where memory does not suffice."""
        if not accepted:
            raise EngineUnavailableError(self._engine, "has not enough memory for its factor")

    def solve(self, b: Any, op: str) -> Any:
        x = np.array(b, self._dtype, order="C")
        self._require(self._l.solve(x, "A", op == "T", 1))
        return x

    def logabsdet(self) -> Any:
        return np.asarray(self._l.log_det())

    def slogdet(self) -> tuple[Any, Any]:
        return np.ones((), self._dtype), self.logabsdet()

    def lower(self) -> HostArray:
        entries = np.empty(len(self._fronts.factor_entries[0]), self._dtype)
        self._l.write(entries)
        return entries

    def inverse_slots(self) -> HostArray:
        found = np.empty(self._fronts.pattern.slots, self._dtype)
        self._require(self._l.inverse(found, self._threads()))
        return found

    def inverse_tangent(self, e: Any) -> HostArray:
        found = np.empty(self._fronts.pattern.slots, self._dtype)
        e = np.ascontiguousarray(e, self._dtype)
        self._require(self._l.tangent(e, found, self._threads()))
        return found
