"""exp(A) and the cotangent of A, A_bar = L(A, F_bar^H)^H, each in one compiled call.
What is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.compiled import in_rows
from ldiv.engines.accuracy.accepted import compiled, is_taken, workers


class ExponentialCalls:
    """F = exp(A), without a factor."""

    def fit(self, *flat: Array) -> bool:
        return is_taken(flat[0])

    def forward(self, *flat: Array) -> Any:
        (a,), native = flat, compiled()
        f = np.empty(a.shape, numpy_dtype(a))
        return ((f,), None) if native is not None and native.expm(a, f, workers(a.shape)) else None

    def backward(
        self,
        factor: None,
        need: Sequence[bool],
        cotangents: tuple[Any, ...],
        out: tuple[Any, ...],
        *flat: Array,
    ) -> Any:
        (a,), (f_bar,), native = flat, cotangents, compiled()
        if native is None or f_bar is None or f_bar.dtype != a.dtype or f_bar.shape != a.shape:
            return None
        a_bar = np.empty(a.shape, numpy_dtype(a))
        return (a_bar,) if native.expm_pullback(a, f_bar, a_bar, workers(a.shape)) else None


def one_exponential(a: HostArray, *es: HostArray) -> HostArray | None:
    """exp(A), or L(A, E), of one matrix; None where it is declined."""
    calls, a = ExponentialCalls(), in_rows(a)
    if len(es) > 1 or not calls.fit(a):
        return None
    if not es:
        return None if (made := calls.forward(a)) is None else made[0][0]
    kind = np.result_type(a, *es)
    adjoint = np.ascontiguousarray(es[0].conj().T, kind)
    found = calls.backward(None, (True,), (adjoint,), (), a.astype(kind, copy=False))
    return None if found is None else found[0].conj().T
