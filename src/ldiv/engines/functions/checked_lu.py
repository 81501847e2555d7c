"""x = A^-1 b by LU, or an error if A is singular to working precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.errors import SingularMatrixError

EPS = float(np.finfo(float).eps)


@lru_cache(maxsize=8)
def _lapack(dtype: np.dtype[Any]) -> Any:
    return scipy.linalg.get_lapack_funcs(("getrf", "getrs", "gecon"), dtype=dtype)


def lu(a: HostArray) -> Callable[[HostArray], HostArray]:
    """b -> A^-1 b, for an A that is known to be well conditioned."""
    getrf, getrs, _ = _lapack(a.dtype)
    factor, pivots, _ = getrf(a)
    return lambda b: getrs(factor, pivots, b)[0]


def reciprocal_condition(a: HostArray) -> float:
    """An estimate of 1 / (|A| |A^-1|) in the 1-norm, 0 for a singular A."""
    return _factored(a)[2]


def _factored(a: HostArray) -> tuple[HostArray, HostArray, float]:
    """L and U, pivots, and the reciprocal condition."""
    getrf, _, gecon = _lapack(a.dtype)
    factor, pivots, info = getrf(a)
    # info > 0: a pivot is exactly zero
    return factor, pivots, 0.0 if info > 0 else float(gecon(factor, np.linalg.norm(a, 1))[0])


def checked_lu(
    a: HostArray, what: str, causes: str = "", least: float = EPS
) -> Callable[[HostArray], HostArray]:
    """b -> A^-1 b, if the reciprocal condition is at least that; errors call A `what`."""
    getrs = _lapack(a.dtype)[1]
    factor, pivots, rcond = _factored(a)
    # written so that NaN is refused, too
    if not rcond >= least:
        raise SingularMatrixError("LAPACK", f"rcond = {rcond:.1e}", what=what, causes=causes)
    return lambda b: getrs(factor, pivots, b)[0]
