"""exp(A) and the cotangent of A, A_bar = L(A, F_bar^H)^H, each in one compiled call.
What is declined goes the careful way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.compiled import Arrays
from ldiv.engines.accuracy.accepted import compiled, is_taken, workers
from ldiv.engines.accuracy.operation_calls import OperationCalls


class ExponentialCalls(OperationCalls):
    """F = exp(A)."""

    def found(self, native: Any, a: Array) -> Arrays | None:
        f = np.empty(a.shape, numpy_dtype(a))
        return (f,) if native.expm(a, f, workers(a.shape)) else None

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (a,), (f_bar,), a_bar = flat, cotangents, np.empty(flat[0].shape, numpy_dtype(flat[0]))
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
