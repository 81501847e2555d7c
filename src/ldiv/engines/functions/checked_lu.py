"""x = A^-1 b by LU, or an error if A is singular to working precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.errors import SingularMatrixError

Array = np.ndarray[Any, Any]


EPS = float(np.finfo(float).eps)


def checked_lu(
    a: Array, what: str, causes: str = "", least: float = EPS
) -> Callable[[Array], Array]:
    """b -> A^-1 b, if the reciprocal condition is at least that; errors call A `what`."""
    getrf, gecon = scipy.linalg.get_lapack_funcs(("getrf", "gecon"), (a,))
    lu, pivots, info = getrf(a)
    rcond = 0.0 if info > 0 else float(gecon(lu, np.linalg.norm(a, 1))[0])
    if not rcond >= least:
        raise SingularMatrixError("LAPACK", f"rcond = {rcond:.1e}", what=what, causes=causes)
    return partial(scipy.linalg.lu_solve, (lu, pivots), check_finite=False)
