"""Clarabel, an interior-point method: which inequalities of a quadratic program hold with equality.

    min x^T P x / 2 + q^T x    with A x = b, G x <= h

Reference: Goulart and Chen, Clarabel: an interior-point solver for conic programs (2024).
"""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ldiv.errors import ConvergenceError, EngineError, QuadraticProgramError

Values = np.ndarray[Any, Any]
OF_NO_POINT = "y = (y_A, y_G), y_G >= 0, with A^T y_A + G^T y_G = 0 and b^T y_A + h^T y_G < 0"


class Found(NamedTuple):
    """An approximate solution: x, the multipliers and the slack h - G x, and the number of steps."""

    x: Values
    multipliers: Values
    slack: Values
    steps: int


def solve(P: Any, q: Values, A: Any, b: Values, G: Any, h: Values) -> Found:
    """P, A and G are SciPy's sparse matrices."""
    if importlib.util.find_spec("clarabel") is None:
        raise EngineError(
            "solve_qp: inequalities want Clarabel, which is not here: pip install 'ldiv[qp]'."
        )
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(h))]
    rows = sp.vstack([A, G]).tocsc()
    half = sp.triu((P + P.T) / 2).tocsc()
    found = clarabel.DefaultSolver(half, q, rows, np.concatenate([b, h]), cones, settings).solve()
    status, z, m = str(found.status), np.array(found.z), len(b)
    if "PrimalInfeasible" in status:
        raise QuadraticProgramError("infeasible", z, OF_NO_POINT)
    if "DualInfeasible" in status:
        proof = "d with P d = 0, A d = 0, G d <= 0 and q^T d < 0"
        raise QuadraticProgramError("unbounded", np.array(found.x), proof)
    if "Solved" not in status:
        raise ConvergenceError(
            "clarabel",
            int(found.iterations),
            None,
            0.0,
            f"it ended with {status}",
            "numbers of very different size in one row, or constraints that only just have a solution.",
        )
    return Found(np.array(found.x), z[m:], np.array(found.s)[m:], int(found.iterations))
