"""BiCG: any square matrix, short recurrences with A and A^H; SciPy's.

Cost of a step: 1 product with A and M each, and 1 with A^H and M^H.
Reference: Fletcher, Lecture Notes in Mathematics 506 (1976).
"""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import bicg

from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.options import Options

RANK = 92
ITERATE = bicg


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return None


def arguments(near: Any, options: Options) -> dict[str, Any]:
    """SciPy's names for M, near A^-1."""
    return {"M": near}
