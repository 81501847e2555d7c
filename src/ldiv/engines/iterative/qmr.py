"""QMR: any square matrix; quasi-minimal residuals, with A and A^H; SciPy's.

Cost of a step: 1 product with A and M each, and 1 with A^H and M^H.
Reference: Freund and Nachtigal, Numer. Math. 60 (1991).
"""

from __future__ import annotations

from typing import Any

from scipy.sparse import eye_array
from scipy.sparse.linalg import aslinearoperator, qmr

from ldiv.engines.iterative.options import Options

RANK = 94
ITERATE = qmr


def arguments(near: Any, options: Options) -> dict[str, Any]:
    """SciPy's names for M = M2 M1, near A^-1."""
    if near is None:
        return {}
    return {"M1": near, "M2": aslinearoperator(eye_array(near.shape[0]))}
