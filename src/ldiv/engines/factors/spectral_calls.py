"""A X = X diag(lam), of Hermitian A or of any, A = U diag(s) V^H and their cotangents, each in one compiled call.
What is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.rules.compiled import Arrays, CompiledCall
from ldiv.engines.accuracy.accepted import workers
from ldiv.engines.accuracy.operation_calls import COMPLEX, REAL, OperationCalls
from ldiv.engines.factors import dense_programs


class EigenpairCalls(OperationCalls):
    """All pairs: lam, X, no guard pairs, error bounds, diag(lam)."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        dtype, rows = numpy_dtype(a), tuple(a.shape[:-1])
        real = REAL[dtype.char]
        lam, bound = np.empty(rows, real), np.empty(rows, real)
        x, h = np.empty(a.shape, dtype), np.empty(a.shape, dtype)
        if not native.eigh(a, lam, x, bound, h, *(None,) * 4, workers(a.shape)):
            return None
        none = np.empty((*rows[:-1], 0), real), np.empty((*rows, 0), dtype)
        return lam, x, *none, bound, h

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (lam_bar, x_bar, *_, h_bar), (lam, x, _, _, bound, _) = cotangents, out
        # a cotangent of H = diag(lam) is left to the careful way
        if h_bar is not None:
            return None
        # A_bar = X (diag(lam_bar) + T) X^H, T_ij = K_ij / (lam_j - lam_i), K = skew(X^H X_bar)
        a_bar = np.empty(x.shape, numpy_dtype(x))
        taken = native.eigh_pullback(lam, x, bound, None, lam_bar, x_bar, a_bar, workers(x.shape))
        return (a_bar,) if taken else None


class VectorCalls(OperationCalls):
    """lam and X of a Hermitian matrix alone, for calls without derivatives."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        dtype = numpy_dtype(a)
        lam, x = np.empty(tuple(a.shape[:-1]), REAL[dtype.char]), np.empty(a.shape, dtype)
        return (lam, x) if native.eigh(a, lam, x, *(None,) * 6, workers(a.shape)) else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.eigenvectors(*flat)


class ValueCalls(OperationCalls):
    """The min(m, n) eigenvalues or singular values alone, for calls without derivatives."""

    operation: ClassVar[str]  # its row of the compiled table
    letters: ClassVar[Mapping[str, str]] = REAL

    def found(self, native: Any, a: Array) -> Arrays | None:
        *batch, m, n = a.shape
        values = np.empty((*batch, min(m, n)), self.letters[numpy_dtype(a).char])
        return (values,) if getattr(native, self.operation)(a, values, workers(a.shape)) else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.values(self.operation, self.letters, *flat)


class EigenvalueCalls(ValueCalls):
    """lam of a Hermitian matrix."""

    operation = "eigvalsh"


class GeneralValueCalls(ValueCalls):
    """lam of any square matrix."""

    operation, letters = "eigvals", COMPLEX


class SingularValueCalls(ValueCalls):
    """s."""

    operation = "svdvals"


class GeneralPairCalls(OperationCalls):
    """All pairs of any square matrix: lam, V, a size that is 0, diag(lam)."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        rows, dtype = tuple(a.shape[:-1]), numpy_dtype(a).char
        lam, size = np.empty(rows, COMPLEX[dtype]), np.empty(rows[:-1], REAL[dtype])
        v, h = np.empty(a.shape, lam.dtype), np.empty(a.shape, lam.dtype)
        taken = native.eig(a, lam, v, size, h, *(None,) * 3, workers(a.shape))
        return (lam, v, size, h) if taken else None

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (a,), (lam, v, *_), (lam_bar, *others) = flat, out, cotangents
        # cotangents of vectors are left to the careful way
        if any(bar is not None for bar in others):
            return None
        # A_bar = V^-H diag(lam_bar) V^H, of a real A its real part
        a_bar = np.empty(a.shape, numpy_dtype(a))
        taken = native.eigvals_pullback(a, lam, v, None, lam_bar, a_bar, workers(a.shape))
        return (a_bar,) if taken else None


class TripletCalls(OperationCalls):
    """All triplets: U, s, V^H, a size that is 0, diag(s)."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        dtype, (*batch, m, n) = numpy_dtype(a), a.shape
        k, real = min(m, n), REAL[dtype.char]
        u, vh = np.empty((*batch, m, k), dtype), np.empty((*batch, k, n), dtype)
        s, h = np.empty((*batch, k), real), np.empty((*batch, k, k), dtype)
        size = np.empty(batch, real)
        taken = native.svd(a, u, s, vh, size, h, *(None,) * 3, workers(a.shape))
        return (u, s, vh, size, h) if taken else None

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (u_bar, s_bar, vh_bar, size_bar, h_bar), (u, s, vh, *_) = cotangents, out
        # cotangents of the size and of H = diag(s) are left to the careful way
        if size_bar is not None or h_bar is not None:
            return None
        a_bar = np.empty((*u.shape[:-1], vh.shape[-1]), numpy_dtype(u))
        bars = u_bar, s_bar, vh_bar
        taken = native.svd_pullback(u, s, vh, None, *bars, a_bar, workers(a_bar.shape))
        return (a_bar,) if taken else None


@dataclass(frozen=True, slots=True)
class PinvCalls(OperationCalls):
    """X = A^+ and the rank; singular values of at most max(atol, rtol s_1) are taken for 0."""

    rtol: float
    promised: int | None

    def found(self, native: Any, a: Array, *atol: Array) -> Arrays | None:
        (*batch, m, n), dtype = a.shape, numpy_dtype(a)
        real = REAL[dtype.char]
        x, rank = np.empty((*batch, n, m), dtype), np.empty(batch, real)
        bounds = np.array(self.rtol, real), *(atol or [np.zeros((), real)])
        if not native.pinv(a, *bounds, x, rank, workers(a.shape)):
            return None
        # a rank that is not the promised one is refused by the careful way
        return (x, rank) if self.promised is None or (rank == self.promised).all() else None

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (a, *atol), (x_bar, _), (x, rank) = flat, cotangents, out
        if x_bar is None:
            return None
        # dX = -X dA X + X X^H dA^H (I - A X) + (I - X A) dA^H X^H X, at constant rank
        a_bar = np.empty(a.shape, numpy_dtype(a))
        taken = native.pinv_pullback(a, x, rank, x_bar, a_bar, workers(a.shape))
        return (a_bar, *(None for _ in atol)) if taken else None
