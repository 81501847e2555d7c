"""R P A P^T R = L D L^T, or L D L^H, in compiled code: solves, the determinant, the signs of D."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.selected.compiled import CompiledFactor, threads_for
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import SingularMatrixError


class CompiledLdl(CompiledFactor):
    """L and D in panels, one for each supernode; `least` is a pivot over the largest of its column."""

    def __init__(
        self, engine: str, fronts: Fronts, values: HostArray, is_hermitian: bool, least: float
    ) -> None:
        super().__init__(engine, fronts, values.dtype)
        self._is_hermitian = is_hermitian or values.dtype.kind != "c"
        found = fronts.compiled.ldl(
            np.ascontiguousarray(values), is_hermitian, least, threads_for(fronts)
        )
        if isinstance(found, int):
            raise SingularMatrixError(engine, "columns in which no pivot is left")
        self._keep(found)

    def solve(self, b: Any, op: str) -> Any:
        """A^T = A and A^H = conj(A), or A^H = A and A^T = conj(A)."""
        x = np.array(b, self._dtype, order="C")
        conjugated = op == ("T" if self._is_hermitian else "H")
        self._require(self._compiled.solve(x, conjugated, 1))
        return x

    def logabsdet(self) -> Any:
        return np.asarray(self._compiled.slogdet()[0])

    def slogdet(self) -> tuple[Any, Any]:
        size, real, imaginary = self._compiled.slogdet()
        sign = complex(real, imaginary) if self._dtype.kind == "c" else real
        return np.asarray(sign, self._dtype), np.asarray(size)

    def signs(self) -> tuple[int, int] | None:
        """The signs of D (Sylvester), None if A is complex symmetric: its eigenvalues are complex."""
        if not self._is_hermitian:
            return None
        found: tuple[int, int] = self._compiled.signs()
        return found
