"""A X = X diag(lam), of Hermitian A or of any, A = U diag(s) V^H and their cotangents, each in one compiled call.
What is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.rules.compiled import CompiledCall
from ldiv.engines.accuracy.accepted import MOST, compiled, is_taken, workers
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.dense_calls import REAL

COMPLEX = dict(zip("fdFD", "FDFD", strict=True))


class OfOneMatrix:
    """Calls with one argument, and without a factor, since the vectors are outputs."""

    def fit(self, *flat: Array) -> bool:
        return is_taken(flat[0]) and flat[0].shape[-2] <= MOST

    def forward(self, *flat: Array) -> Any:
        return None if (native := compiled()) is None else self.found(native, *flat)

    def found(self, native: Any, a: Array) -> Any:
        """The outputs and None, or None."""
        raise NotImplementedError

    def backward(
        self,
        factor: None,
        need: Sequence[bool],
        cotangents: tuple[Any, ...],
        out: tuple[Any, ...],
        *flat: Array,
    ) -> Any:
        native, wanted = compiled(), [bar for bar in cotangents if bar is not None]
        if native is None or not wanted:
            return None
        for bar, y in zip(cotangents, out, strict=True):
            if bar is not None and (bar.dtype != y.dtype or bar.shape != y.shape):
                return None
        return self.pulled(native, cotangents, out)

    def pulled(self, native: Any, cotangents: tuple[Any, ...], out: tuple[Any, ...]) -> Any:
        """(A_bar,), or None."""
        return None


class EigenpairCalls(OfOneMatrix):
    """All pairs: lam, X, no guard pairs, error bounds, diag(lam)."""

    def found(self, native: Any, a: Array) -> Any:
        dtype, rows = numpy_dtype(a), tuple(a.shape[:-1])
        real = REAL[dtype.char]
        lam, bound = np.empty(rows, real), np.empty(rows, real)
        x, h = np.empty(a.shape, dtype), np.empty(a.shape, dtype)
        if not native.eigh(a, lam, x, bound, h, *(None,) * 4, workers(a.shape)):
            return None
        none = np.empty((*rows[:-1], 0), real), np.empty((*rows, 0), dtype)
        return (lam, x, *none, bound, h), None

    def pulled(self, native: Any, cotangents: tuple[Any, ...], out: tuple[Any, ...]) -> Any:
        (lam_bar, x_bar, *_, h_bar), (lam, x, _, _, bound, _) = cotangents, out
        # a cotangent of H = diag(lam) is left to the careful way
        if h_bar is not None:
            return None
        # A_bar = X (diag(lam_bar) + T) X^H, T_ij = K_ij / (lam_j - lam_i), K = skew(X^H X_bar)
        a_bar = np.empty(x.shape, numpy_dtype(x))
        taken = native.eigh_pullback(lam, x, bound, None, lam_bar, x_bar, a_bar, workers(x.shape))
        return (a_bar,) if taken else None


class VectorCalls(OfOneMatrix):
    """lam and X alone, for calls without derivatives."""

    def found(self, native: Any, a: Array) -> Any:
        dtype = numpy_dtype(a)
        lam, x = np.empty(tuple(a.shape[:-1]), REAL[dtype.char]), np.empty(a.shape, dtype)
        taken = native.eigh(a, lam, x, *(None,) * 6, workers(a.shape))
        return ((lam, x), None) if taken else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.eigenvectors(*flat)


class EigenvalueCalls(OfOneMatrix):
    """lam alone, for calls without derivatives."""

    def found(self, native: Any, a: Array) -> Any:
        lam = np.empty(tuple(a.shape[:-1]), REAL[numpy_dtype(a).char])
        return ((lam,), None) if native.eigvalsh(a, lam, workers(a.shape)) else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.eigenvalues(*flat)


class GeneralPairCalls(OfOneMatrix):
    """All pairs of any square matrix: lam, V, a size that is 0, diag(lam)."""

    def found(self, native: Any, a: Array) -> Any:
        rows, dtype = tuple(a.shape[:-1]), numpy_dtype(a).char
        lam, size = np.empty(rows, COMPLEX[dtype]), np.empty(rows[:-1], REAL[dtype])
        v, h = np.empty(a.shape, lam.dtype), np.empty(a.shape, lam.dtype)
        taken = native.eig(a, lam, v, size, h, None, None, None, workers(a.shape))
        return ((lam, v, size, h), None) if taken else None

    def backward(
        self,
        factor: None,
        need: Sequence[bool],
        cotangents: tuple[Any, ...],
        out: tuple[Any, ...],
        *flat: Array,
    ) -> Any:
        (a,), (lam, v, *_), (lam_bar, *others), native = flat, out, cotangents, compiled()
        if native is None or lam_bar is None or any(bar is not None for bar in others):
            return None
        if lam_bar.dtype != lam.dtype or lam_bar.shape != lam.shape:
            return None
        # A_bar = V^-H diag(lam_bar) V^H, of a real A its real part
        a_bar = np.empty(a.shape, numpy_dtype(a))
        taken = native.eigvals_pullback(a, lam, v, None, lam_bar, a_bar, workers(a.shape))
        return (a_bar,) if taken else None


class GeneralValueCalls(OfOneMatrix):
    """lam of any square matrix alone, for calls without derivatives."""

    def found(self, native: Any, a: Array) -> Any:
        lam = np.empty(tuple(a.shape[:-1]), COMPLEX[numpy_dtype(a).char])
        return ((lam,), None) if native.eigvals(a, lam, workers(a.shape)) else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.general_values(*flat)


class TripletCalls(OfOneMatrix):
    """All triplets: U, s, V^H, a size that is 0, diag(s)."""

    def found(self, native: Any, a: Array) -> Any:
        dtype, (*batch, m, n) = numpy_dtype(a), a.shape
        k, real = min(m, n), REAL[dtype.char]
        u, vh = np.empty((*batch, m, k), dtype), np.empty((*batch, k, n), dtype)
        s, h, size = (
            np.empty((*batch, k), real),
            np.empty((*batch, k, k), dtype),
            np.empty(batch, real),
        )
        if not native.svd(a, u, s, vh, size, h, *(None,) * 3, workers(a.shape)):
            return None
        return (u, s, vh, size, h), None

    def pulled(self, native: Any, cotangents: tuple[Any, ...], out: tuple[Any, ...]) -> Any:
        (u_bar, s_bar, vh_bar, size_bar, h_bar), (u, s, vh, *_) = cotangents, out
        # cotangents of the size and of H = diag(s) are left to the careful way
        if size_bar is not None or h_bar is not None:
            return None
        a_bar = np.empty((*u.shape[:-1], vh.shape[-1]), numpy_dtype(u))
        bars = u_bar, s_bar, vh_bar
        taken = native.svd_pullback(u, s, vh, None, *bars, a_bar, workers(a_bar.shape))
        return (a_bar,) if taken else None


class SingularValueCalls(OfOneMatrix):
    """s alone, for calls without derivatives."""

    def found(self, native: Any, a: Array) -> Any:
        *batch, m, n = a.shape
        s = np.empty((*batch, min(m, n)), REAL[numpy_dtype(a).char])
        return ((s,), None) if native.svdvals(a, s, workers(a.shape)) else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.singular_values(*flat)


@dataclass(frozen=True, slots=True)
class PinvCalls(OfOneMatrix):
    """X = A^+ and the rank; singular values of at most max(atol, rtol s_1) are taken for 0."""

    rtol: float
    promised: int | None

    def forward(self, *flat: Array) -> Any:
        (a, *atol), native = flat, compiled()
        *batch, m, n = a.shape
        dtype = numpy_dtype(a)
        real = REAL[dtype.char]
        x, rank = np.empty((*batch, n, m), dtype), np.empty(batch, real)
        least = atol or [np.zeros((), real)]
        if native is None or not native.pinv(
            a, np.array(self.rtol, real), *least, x, rank, workers(a.shape)
        ):
            return None
        # a rank that is not the promised one is refused by the careful way
        return ((x, rank), None) if self.promised is None or (rank == self.promised).all() else None

    def backward(
        self,
        factor: None,
        need: Sequence[bool],
        cotangents: tuple[Any, ...],
        out: tuple[Any, ...],
        *flat: Array,
    ) -> Any:
        (a, *atol), (x_bar, _), (x, rank), native = flat, cotangents, out, compiled()
        if native is None or x_bar is None or x_bar.dtype != x.dtype or x_bar.shape != x.shape:
            return None
        # dX = -X dA X + X X^H dA^H (I - A X) + (I - X A) dA^H X^H X, at constant rank
        a_bar = np.empty(a.shape, numpy_dtype(a))
        taken = native.pinv_pullback(a, x, rank, x_bar, a_bar, workers(a.shape))
        return (a_bar, *(None for _ in atol)) if taken else None
