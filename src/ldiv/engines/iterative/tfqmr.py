"""TFQMR: any square matrix; quasi-minimal residuals without A^H; SciPy's.

SciPy's M multiplies A from the left, and the residual not at all (1.18): here A M y = b - A x0 is
what it solves, x = x0 + M y.
Cost of a step: 2 products with A, 2 with M, and 1 more to show an observer x.
Reference: Freund, SIAM J. Sci. Comput. 14 (1993).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.sparse.linalg import tfqmr

RANK = 95


def ITERATE(
    A: Any, b: Any, x0: Any, *, M: Any, callback: Callable[[Any], None], **options: Any
) -> tuple[Any, int]:
    if M is None:
        found: tuple[Any, int] = tfqmr(A, b, x0, callback=callback, **options)
        return found
    # A M y = b - A x0,  x = x0 + M y
    y, info = tfqmr(A @ M, b - A @ x0, callback=lambda y: callback(x0 + M @ y), **options)
    return x0 + M @ y, info
