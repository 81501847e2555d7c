"""Is a factored matrix numerically singular?  Solve A y = z for one random z and see whether refinement contracts.

    growth = |A|_1 |y|_1 / |z|_1 <= cond_1(A),        contraction = |A^-1 (z - A y)| / |y|, near eps cond(A)

A backward stable solve leaves a small residual even where A is singular, so a residual alone says nothing; the ratio of
the largest to the smallest pivot accuses matrices that are merely badly scaled. Where `growth` is suspicious, the first
refinement step tells: for singular matrices of sizes 2 to 10,000 it was 0.1 or more, at condition 1e15 below 0.005.
Cost: one solve, a second one only on suspicion. Reference: Higham, Accuracy and Stability of Numerical Algorithms, ch. 12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ldiv.errors import SingularMatrixError
from ldiv.rule import insist, traced

SUSPICIOUS = 1e-4  # growth * eps from which a second look is taken
CONTRACTS = 0.02  # a refinement step must shrink the error by more than this


@lru_cache(maxsize=16)
def direction(n: int) -> np.ndarray[Any, Any]:
    """A fixed random vector (n, 1); read-only."""
    z = np.random.default_rng(n).standard_normal((n, 1))
    z.flags.writeable = False
    return z


def require_nonsingular(engine: str, growth: Any, eps: float, contraction: Callable[[], Any]) -> None:
    """Raise SingularMatrixError where the growth is suspicious and refinement, asked only then, does not contract."""
    calm = growth * eps < SUSPICIOUS
    if traced(growth):  # suspicion comes too late for asking; where the growth is infinite, the contraction is NaN
        certain = calm | (contraction() < CONTRACTS)
    else:
        certain = calm or (np.isfinite(growth) and contraction() < CONTRACTS)
    insist(certain, lambda growth: SingularMatrixError(engine, f"a reciprocal condition number near {1 / growth:.0e}"), growth)
