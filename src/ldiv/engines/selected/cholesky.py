"""R P A P^H R = L L^H in compiled code: solves, the determinant, the selected inverse and its tangent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.selected.compiled import CompiledFactor, threads_for
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import NotPositiveDefiniteError


class CompiledCholesky(CompiledFactor):
    """L in panels, one for each supernode."""

    is_stable = True  # Cholesky's backward error is never more than n eps

    def __init__(self, engine: str, fronts: Fronts, found: Any, dtype: Any) -> None:
        super().__init__(engine, fronts, dtype)
        self._keep(found)

    @classmethod
    def of(cls, engine: str, fronts: Fronts, values: HostArray) -> CompiledCholesky:
        """Factor M, given by the values in its slots."""
        found = fronts.compiled.factor(np.ascontiguousarray(values), threads_for(fronts))
        if isinstance(found, int):
            raise NotPositiveDefiniteError(
                engine, f"a pivot that is not positive in supernode {found}"
            )
        return cls(engine, fronts, found, values.dtype)

    def solve(self, b: Any, op: str) -> Any:
        x = np.array(b, self._dtype, order="C")
        self._require(self._compiled.solve(x, "A", op == "T", 1))
        return x

    def logabsdet(self) -> Any:
        return np.asarray(self._compiled.log_det())

    def slogdet(self) -> tuple[Any, Any]:
        return np.ones((), self._dtype), self.logabsdet()

    def lower(self) -> HostArray:
        entries = np.empty(len(self._fronts.factor_entries[0]), self._dtype)
        self._compiled.write(entries)
        return entries
