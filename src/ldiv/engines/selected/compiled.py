"""Factors of M by fronts in compiled code: R P A P^H R = L L^H, L D L^H, L D L^T, or R P A Q C = L D U by blocks.

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
from ldiv.errors import EngineUnavailableError, NotPositiveDefiniteError, SingularMatrixError


class CompiledFactor(Factor):
    """A factor of M `found` in compiled code; once it was asked for, the selected inverse too."""

    is_stable = False  # is its backward error small whatever the matrix?

    def __init__(self, engine: str, fronts: Fronts, found: Any, dtype: Any) -> None:
        self._engine, self._fronts, self._dtype = engine, fronts, dtype
        if isinstance(found, int):
            raise self._refusal(found)
        self._require(found is not None)
        self._compiled = found

    def _refusal(self, supernode: int) -> Exception:
        return SingularMatrixError(self._engine, "columns in which no pivot is left")

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self._compiled.nbytes)

    def _require(self, accepted: bool) -> None:
        """Raise if compiled code has declined, which it does only for lack of memory."""
        if not accepted:
            raise EngineUnavailableError(self._engine, "has not enough memory for its factor")

    def solve(self, b: Any, op: str) -> Any:
        # a copy, which is overwritten by x
        x = np.array(b, self._dtype, order="C")
        self._require(self._solve(x, op))
        return x

    def _solve(self, x: HostArray, op: str) -> bool:
        """Overwrite x by op(M)^-1 x; False if there is no memory."""
        raise NotImplementedError

    def slogdet(self) -> tuple[Any, Any]:
        size, real, imaginary = self._compiled.slogdet()
        sign = complex(real, imaginary) if self._dtype.kind == "c" else real
        return np.asarray(self._fronts.parity * sign, self._dtype), np.asarray(size)

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


class CompiledCholesky(CompiledFactor):
    """L in panels, one for each supernode."""

    is_stable = True  # Cholesky's backward error is never more than n eps

    @classmethod
    def of(cls, engine: str, fronts: Fronts, values: HostArray) -> CompiledCholesky:
        """Factor M, given by the values in its slots."""
        found = fronts.compiled.factor(np.ascontiguousarray(values), threads_for(fronts))
        return cls(engine, fronts, found, values.dtype)

    def _refusal(self, supernode: int) -> Exception:
        what = f"a pivot that is not positive in supernode {supernode}"
        return NotPositiveDefiniteError(self._engine, what)

    def _solve(self, x: HostArray, op: str) -> bool:
        # M^H = M, so only T differs: M^T = conj(M)
        return bool(self._compiled.solve(x, "A", op == "T", 1))

    def slogdet(self) -> tuple[Any, Any]:
        return np.ones((), self._dtype), np.asarray(self._compiled.log_det())

    def lower(self) -> HostArray:
        entries = np.empty(len(self._fronts.factor_entries[0]), self._dtype)
        self._compiled.write(entries)
        return entries


class CompiledLdl(CompiledFactor):
    """L and D in panels, one for each supernode; `least` is a pivot over the largest of its column."""

    def __init__(
        self, engine: str, fronts: Fronts, values: HostArray, is_hermitian: bool, least: float
    ) -> None:
        self._is_hermitian = is_hermitian or values.dtype.kind != "c"
        slots = np.ascontiguousarray(values)
        found = fronts.compiled.ldl(slots, is_hermitian, least, threads_for(fronts))
        super().__init__(engine, fronts, found, values.dtype)

    def _solve(self, x: HostArray, op: str) -> bool:
        """A^T = A and A^H = conj(A), or A^H = A and A^T = conj(A)."""
        return bool(self._compiled.solve(x, op == ("T" if self._is_hermitian else "H"), 1))

    def signs(self) -> tuple[int, int] | None:
        """The signs of D (Sylvester), None if A is complex symmetric: its eigenvalues are complex."""
        if not self._is_hermitian:
            return None
        found: tuple[int, int] = self._compiled.signs()
        return found


class CompiledBlockLu(CompiledFactor):
    """D, L and U in two panels for each supernode."""

    def __init__(self, engine: str, fronts: Fronts, values: HostArray) -> None:
        found = fronts.compiled_both.block_lu(np.ascontiguousarray(values), threads_for(fronts))
        super().__init__(engine, fronts, found, values.dtype)

    def _refusal(self, supernode: int) -> Exception:
        return SingularMatrixError(self._engine, "a diagonal block that is singular")

    def _solve(self, x: HostArray, op: str) -> bool:
        """A^-H b is the conjugate of A^-T conj(b)."""
        if op == "H":
            np.conjugate(x, out=x)
        solved = bool(self._compiled.solve(x, op != "N", 1))
        if op == "H":
            np.conjugate(x, out=x)
        return solved


def threads_for(fronts: Fronts) -> int:
    """The number of threads that share one factor."""
    return get_num_threads() if fronts.entries >= LARGE else 1
