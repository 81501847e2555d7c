"""LGMRES: any square matrix; restarted GMRES that keeps what earlier cycles corrected; SciPy's.

Cost of a step: a cycle of `restart` products with A and M.
Reference: Baker, Jessup and Manteuffel, SIAM J. Matrix Anal. Appl. 26 (2005).
"""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import lgmres

from ldiv.engines.iterative import gmres
from ldiv.engines.iterative.options import Options

RANK = 96
ITERATE = lgmres
cycle = gmres.cycle


def arguments(near: Any, options: Options) -> dict[str, Any]:
    """SciPy's names for M, near A^-1."""
    return {"M": near, "inner_m": options.restart}
