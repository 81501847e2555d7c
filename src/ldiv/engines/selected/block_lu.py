"""R P A Q C = L D U by blocks in compiled code: solves, the determinant, entries of the inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.selected.compiled import CompiledFactor, threads_for
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import SingularMatrixError


class CompiledBlockLu(CompiledFactor):
    """D, L and U in two panels for each supernode."""

    def __init__(self, engine: str, fronts: Fronts, values: HostArray) -> None:
        super().__init__(engine, fronts, values.dtype)
        found = fronts.compiled_both.block_lu(np.ascontiguousarray(values), threads_for(fronts))
        if isinstance(found, int):
            raise SingularMatrixError(engine, "a diagonal block that is singular")
        self._keep(found)

    def solve(self, b: Any, op: str) -> Any:
        if op == "H":
            return np.conj(self.solve(np.conj(b), "T"))
        x = np.array(b, self._dtype, order="C")
        self._require(self._compiled.solve(x, op == "T", 1))
        return x

    def logabsdet(self) -> Any:
        return np.asarray(self._compiled.slogdet()[0])

    def slogdet(self) -> tuple[Any, Any]:
        size, real, imaginary = self._compiled.slogdet()
        sign = complex(real, imaginary) if self._dtype.kind == "c" else real
        return np.asarray(self._fronts.parity * sign, self._dtype), np.asarray(size)
