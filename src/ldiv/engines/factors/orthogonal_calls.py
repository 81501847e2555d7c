"""A = Q R and least squares by it, and their cotangents, each in one compiled call.
What is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.owners.holder import owner
from ldiv.core.rules.compiled import Arrays, Need, in_rows
from ldiv.engines.accuracy.accepted import MOST, compiled, is_taken, workers
from ldiv.engines.accuracy.operation_calls import OperationCalls, are_like
from ldiv.engines.factors.cache import counts


class QRCalls(OperationCalls):
    """Q and R of tall matrices."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        (*batch, _, n), dtype = a.shape, numpy_dtype(a)
        q, r = np.empty(a.shape, dtype), np.empty((*batch, n, n), dtype)
        return (q, r) if native.qr(a, q, r, workers(a.shape)) else None

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        a_bar = np.empty(out[0].shape, numpy_dtype(out[0]))
        taken = native.qr_pullback(*out, *cotangents, a_bar, workers(a_bar.shape))
        return (a_bar,) if taken else None


@dataclass(frozen=True, slots=True)
class LeastSquaresCalls:
    """R + A X = B, A^H R = C, of which one side may be left out, which is zero; the factor is Q and T of A."""

    given: str
    factorize: Callable[[Any], Any]  # the factor of a matrix, which the present owner keeps

    def taking(self, *flat: Array) -> LeastSquaresCalls | None:
        a = flat[0]
        *batch, m, n = a.shape
        for side, x in zip(self.given, flat[1:], strict=True):
            rows = (*batch, m if side == "b" else n)
            if x.dtype != a.dtype or tuple(x.shape[:-1]) != rows or x.shape[-1] == 0:
                return None
        return self if is_taken(a) and m <= MOST else None

    def forward(self, *flat: Array) -> Any:
        if (native := compiled()) is None:
            return None
        (a, *sides), dtype = flat, numpy_dtype(flat[0])
        (*batch, m, n), k = a.shape, sides[0].shape[-1]
        r, x = np.empty((*batch, m, k), dtype), np.empty((*batch, n, k), dtype)
        both, threads = self._both(sides), workers(a.shape)
        # nobody keeps the factor: factor and solution in one call
        if owner() is None:
            q, t = np.empty(a.shape, dtype), np.empty((*batch, n, n), dtype)
            if not native.lstsq(a, *both, q, t, r, x, threads):
                return None
            counts["factorizations"] += 1
            return (r, x), (q, t)
        # An owner keeps the factor, or has it already. The careful way says which member is refused.
        try:
            q, t = map(in_rows, self.factorize(asnumpy(a)).arrays)
        except ValueError:
            return None
        # [I, A; A^H, 0] is Hermitian: the pullback solves for the sides as it does for cotangents
        found = native.lstsq_pullback(q, t, r, x, *both, r, x, None, threads)
        return ((r, x), (q, t)) if found else None

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        native = compiled()
        if native is None or factor is None or not are_like(cotangents, out):
            return None
        # [I, A; A^H, 0] [b_bar; c_bar] = [r_bar; x_bar]
        (q, t), (r, x) = factor, out
        bars = np.empty(r.shape, q.dtype), np.empty(x.shape, q.dtype)
        a_bar = np.empty(q.shape, q.dtype) if need[0] else None
        if not native.lstsq_pullback(q, t, r, x, *cotangents, *bars, a_bar, workers(q.shape)):
            return None
        return a_bar, *(bars["bc".index(side)] for side in self.given)

    def _both(self, sides: Sequence[Any]) -> tuple[Any, Any]:
        found = dict(zip(self.given, sides, strict=True))
        return found.get("b"), found.get("c")
