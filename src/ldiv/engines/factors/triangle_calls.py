"""op(T) x = b for a triangle T of a dense array, A = L L^H, A[order] = L U and the divergence of two
factors L, each in one compiled call. What is declined goes the careful way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.rules.compiled import Arrays, Compiled, Need
from ldiv.core.rules.structure import Structure
from ldiv.engines import solve_log
from ldiv.engines.accuracy.accepted import compiled, is_taken, workers
from ldiv.engines.accuracy.operation_calls import REAL, OperationCalls, is_like
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.dense_calls import fits
from ldiv.engines.registry import name_of, on_host
from ldiv.structures.triangular import Triangular

NAME = "substitution"


@dataclass(frozen=True, slots=True)
class TriangleCalls:
    """op(T) x = b."""

    lower: bool
    unit: bool
    op: str
    vector: bool

    def taking(self, *flat: Array) -> TriangleCalls | None:
        return self if 0 not in flat[1].shape and fits(*flat, vector=self.vector) else None

    def forward(self, *flat: Array) -> Any:
        (p, b), native = flat, compiled()
        if native is None:
            return None
        x = np.empty(b.shape, numpy_dtype(b))
        if not native.solve_triangular(p, b, x, self._letters(self.op), workers(p.shape)):
            return None
        counts["solves"] += 1
        solve_log.note(NAME)
        return (x,), None

    def backward(
        self, factor: None, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        (x_bar,), (x,), p, native = cotangents, out, flat[0], compiled()
        dtype = numpy_dtype(p)
        if native is None or not is_like(x_bar, x):
            return None
        # the cotangent of complex T and H views is left to the careful way
        if dtype.kind == "c" and self.op != "N":
            return None
        # lam = op(T)^-H x_bar; p_bar = -lam x^H on the triangle, or its transpose
        lam = np.empty(x.shape, dtype)
        p_bar = np.empty(p.shape, dtype) if need[0] else None
        letters = self._letters("N" if self.op == "N" else "T")
        if not native.solve_triangular_pullback(p, x_bar, x, lam, p_bar, letters, workers(p.shape)):
            return None
        counts["solves"] += 1
        return p_bar, lam

    def _letters(self, op: str) -> str:
        return triangle_letters(self.lower, self.unit, op, self.vector)


def triangle_letters(lower: bool, unit: bool, op: str, vector: bool) -> str:
    """The options of the compiled solve."""
    # one letter for each option of the row in the compiled table
    return f"{'UL'[lower]}{'NU'[unit]}{op}{'mv'[vector]}"


def triangle_calls(
    structure: Structure, assume_a: str, method: str, vector: bool
) -> Compiled | None:
    """The compiled calls of a structure, if it has any."""
    base, op = structure.unview()
    if not isinstance(base, Triangular) or base.diagonal == "zero" or op == "C":
        return None
    if name_of(on_host(base, assume_a, method)) != NAME:
        return None
    return TriangleCalls(base.lower, base.diagonal == "unit", op, vector)


class CholeskyCalls(OperationCalls):
    """A = L L^H."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        l = np.empty(a.shape, numpy_dtype(a))
        return (l,) if native.cholesky(a, l, workers(a.shape)) else None

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (l_bar,), (l,) = cotangents, out
        # A_bar = Hermitian part of L^-H Phi L^-1, Phi = tril(L^H L_bar) with half of its diagonal
        a_bar = np.empty(l.shape, numpy_dtype(l))
        if not native.cholesky_pullback(l, l_bar, a_bar, workers(l.shape)):
            return None
        # one with L^H, one with L
        counts["solves"] += 2
        return (a_bar,)


class DivergenceCalls(OperationCalls):
    """The divergence of the normal distributions with the lower factors L1 and L2, and L2^-1 L1."""

    def taking(self, *flat: Array) -> Self | None:
        first, second = flat
        fits = first.dtype == second.dtype and first.shape == second.shape and is_taken(first)
        return self if fits else None

    def found(self, native: Any, first: Array, second: Array) -> Arrays | None:
        dtype = numpy_dtype(first)
        d, x = np.empty(first.shape[:-2], REAL[dtype.char]), np.empty(first.shape, dtype)
        if not native.divergence(first, second, d, x, workers(first.shape)):
            return None
        counts["solves"] += 1
        return d, x

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (d_bar, x_bar), (_, x), (first, second) = cotangents, out, flat
        # x = L2^-1 L1 is there for these cotangents; a cotangent of x itself goes the careful way
        if x_bar is not None:
            return None
        # S = L2^-H x, w = d_bar, or 2 d_bar of complex numbers:
        # L1_bar = w (tril(S) - diag(L1)^-1), L2_bar = w (diag(L2)^-1 - tril(S x^H))
        bars = [np.empty(first.shape, numpy_dtype(first)) for _ in flat]
        if not native.divergence_pullback(first, second, x, d_bar, *bars, workers(first.shape)):
            return None
        counts["solves"] += 1
        return bars


class LUCalls(OperationCalls):
    """A[order] = L U for square A, packed; its derivative is that of the careful way."""

    def taking(self, *flat: Array) -> Self | None:
        return self if flat[0].shape[-2] == flat[0].shape[-1] and is_taken(flat[0]) else None

    def found(self, native: Any, a: Array) -> Arrays | None:
        packed = np.empty(a.shape, numpy_dtype(a))
        exchanges, order = (np.empty(a.shape[:-1], np.int32) for _ in range(2))
        accepted = native.lu(a, packed, exchanges, order, workers(a.shape))
        return (packed, exchanges, order.astype(np.int64)) if accepted else None
