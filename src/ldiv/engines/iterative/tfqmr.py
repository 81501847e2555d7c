"""TFQMR: any square matrix; quasi-minimal residuals without A^H; SciPy's.

Cost of a step: 2 products with A, 2 with M.
Reference: Freund, SIAM J. Sci. Comput. 14 (1993).
"""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import tfqmr

from ldiv.core.structure import Structure
from ldiv.engines.iterative.options import Options

RANK = 95
ITERATE = tfqmr


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return None


def arguments(near: Any, options: Options) -> dict[str, Any]:
    """SciPy's names for M, near A^-1."""
    return {"M": near}
