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
        taken = native.expm_derivative(a, f_bar, a_bar, "H", workers(a.shape))
        return (a_bar,) if taken else None


def one_exponential(a: HostArray, *es: HostArray) -> HostArray | None:
    """exp(A), or L(A, E), of one matrix; None where it is declined."""
    kind, native = np.result_type(a, *es), compiled()
    given = [np.ascontiguousarray(x, kind) for x in (a, *es)]
    if native is None or len(es) > 1 or not is_taken(given[0]):
        return None
    found = np.empty(a.shape, kind)
    how: Any = ("N", workers(a.shape)) if es else (workers(a.shape),)
    run = native.expm_derivative if es else native.expm
    return found if run(*given, found, *how) else None
