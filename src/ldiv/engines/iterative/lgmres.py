"""LGMRES: any square matrix; restarted GMRES that keeps what earlier cycles corrected; SciPy's.

Cost of a step: a cycle of `restart` products with A and M.
Reference: Baker, Jessup and Manteuffel, SIAM J. Matrix Anal. Appl. 26 (2005).
"""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import lgmres

from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.options import Options

RANK = 96
ITERATE = lgmres


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return None


def arguments(near: Any, options: Options) -> dict[str, Any]:
    """SciPy's names for M, near A^-1."""
    return {"M": near, "inner_m": options.restart}


def cycle(restart: int, n: int) -> int:
    """The number of products per step."""
    return min(restart, n)
