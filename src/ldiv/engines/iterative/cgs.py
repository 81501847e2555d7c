"""CGS: any square matrix; biconjugate gradients squared; SciPy's.

Cost of a step: 2 products with A, 2 with M.
Reference: Sonneveld, SIAM J. Sci. Stat. Comput. 10 (1989).
"""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import cgs

from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.options import Options

RANK = 93
ITERATE = cgs


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return None


def arguments(near: Any, options: Options) -> dict[str, Any]:
    """SciPy's names for M, near A^-1."""
    return {"M": near}
