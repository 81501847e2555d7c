"""x = A^-1 b by LU, or an error if A is singular to working precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.errors import SingularMatrixError

Array = np.ndarray[Any, Any]


EPS = float(np.finfo(float).eps)


@lru_cache(maxsize=8)
def _lapack(dtype: np.dtype[Any]) -> Any:
    return scipy.linalg.get_lapack_funcs(("getrf", "getrs", "gecon"), dtype=dtype)


def lu(a: Array) -> Callable[[Array], Array]:
    """b -> A^-1 b, for an A that is known to be well conditioned."""
    getrf, getrs, _ = _lapack(a.dtype)
    factor, pivots, _ = getrf(a)
    return lambda b: getrs(factor, pivots, b)[0]


def checked_lu(
    a: Array, what: str, causes: str = "", least: float = EPS
) -> Callable[[Array], Array]:
    """b -> A^-1 b, if the reciprocal condition is at least that; errors call A `what`."""
    getrf, getrs, gecon = _lapack(a.dtype)
    factor, pivots, info = getrf(a)
    rcond = 0.0 if info > 0 else float(gecon(factor, np.linalg.norm(a, 1))[0])
    if not rcond >= least:
        raise SingularMatrixError("LAPACK", f"rcond = {rcond:.1e}", what=what, causes=causes)
    return lambda b: getrs(factor, pivots, b)[0]
