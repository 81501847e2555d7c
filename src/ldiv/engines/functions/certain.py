"""Are digits of A^p certain? Near a singular, defective A rounding of A alone changes all of them.

    A = X Z,  X = A^r,  Z = A^(1 - r),  0 < r < 1:    n eps |X| |Z| << |A|

for a triangular A, whose eigenvalues are as exact as its entries. Of any other one rounding moves
them: A + E, |E| = eps |A|, must have nearly the same power. Zero may well be an eigenvalue, as long
as it has all its vectors: then A^p is small there whatever rounding makes of it.
Reference: Higham, Functions of Matrices (2008), sections 3.1 and 6.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.engines.functions.checked_lu import EPS, reciprocal_condition

Array = np.ndarray[Any, Any]
SAFE = 1e-6  # a reciprocal condition at which four digits are left even of a defective pair
LOST = 1e-5  # n eps |X| |Z| / |A| of a triangular A
CHANGED = 1e-3  # of |A^p|, by E


def doubt(
    a: Array, y: Array, power: Callable[[Array], Array], factors: Callable[[], tuple[Array, Array]]
) -> str | None:
    """Why no digit of y = power(A) may be right, or None; factors() are X and Z."""
    if reciprocal_condition(a) >= SAFE or not a.any():
        return None
    n, size, norm = len(a), np.linalg.norm(a), np.linalg.norm
    with np.errstate(all="ignore"):
        if not np.tril(a, -1).any() or not np.triu(a, 1).any():
            x, z = factors()
            lost = float(n * EPS * norm(x) * (norm(z) / size))
            return None if lost <= LOST else f"|A^r| |A^(1-r)| / |A| = {lost / n / EPS:.1e}"
        e = np.random.default_rng(0).standard_normal(a.shape)
        change = float(norm(power(a + e * (EPS * size / norm(e))) - y) / norm(y))
    return None if change <= CHANGED else f"a change of {change:.0e} by rounding of A"
