"""Is a factored matrix numerically singular?  Solve A y = z for a random z, and refine.

    growth = |A| |y| / |z| <= cond(A), for a matrix with rows and columns scaled to 1,
    contraction = |A^-1 (z - A y)| / |y|, about eps cond(A)

A backward stable solve leaves a small residual even if A is singular, so the residual alone shows
nothing; the ratio of the largest to the smallest pivot is large for matrices that are only badly
scaled. If `growth` is suspicious, two steps of refinement decide, where the first residual is a
second random direction. This detects all of 3,840 random singular matrices of sizes 2 to 50; of
those with condition 1e14 all but one in a thousand pass, with condition 1e15 most.
Cost: one solve; two more only on suspicion. Reference: Higham, Accuracy and Stability of Numerical
Algorithms, ch. 12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ldiv.core.dispatch import frontend_of, traced
from ldiv.core.errstate import check_or_warn
from ldiv.core.trees import Array
from ldiv.errors import SingularMatrixError

SUSPICIOUS = 1e-4  # growth * eps from which a second look is taken
HOPELESS = 0.1  # growth * eps from which no digit is certain
CONTRACTS = 0.02  # a refinement step must shrink the error to less than this fraction


@lru_cache(maxsize=16)
def direction(n: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """A fixed random vector (n, 1), read-only."""
    z = np.random.default_rng(n).standard_normal((n, 1)).astype(dtype)
    z.flags.writeable = False
    return z


@lru_cache(maxsize=16)
def direction_size(n: int) -> float:
    """The 1-norm of `direction(n)`."""
    return float(np.abs(direction(n)).sum())


def require_nonsingular(
    engine: str, growth: Any, eps: float, look: Callable[[], tuple[Any, Any]], strict: bool = False
) -> None:
    """Raises SingularMatrixError unless growth is small, or a second look finds small numbers.

    `look()` gives (growth, contraction); `strict` looks in any case.
    """
    calm, residual_growth, contraction = (
        (growth * eps < SUSPICIOUS) & (not strict),
        growth,
        growth * 0,
    )
    if calm is True:
        return
    if traced(growth):
        residual_growth, contraction = frontend_of(growth).either(
            calm, lambda: (residual_growth, contraction), look
        )
    elif not calm and growth * eps < HOPELESS:
        residual_growth, contraction = look()
    # with NaN every comparison is False: not certain
    certain = calm | (
        (growth * eps < HOPELESS) & (residual_growth * eps < HOPELESS) & (contraction < CONTRACTS)
    )
    check_or_warn(certain, partial(_singular, engine, eps), growth, residual_growth, contraction)


def _singular(engine: str, eps: float, *seen: Any) -> SingularMatrixError:
    """The error names what decided: the growth, or the contraction of refinement."""
    growth, residual_growth, contraction = map(float, seen)
    if not np.isfinite(growth + residual_growth + contraction):
        return SingularMatrixError(engine, "a solution that overflows")
    if max(growth, residual_growth) * eps < HOPELESS:
        return SingularMatrixError(
            engine,
            "a solution that a step of iterative refinement changes by "
            f"{contraction:.0e} of its size",
        )
    return SingularMatrixError(
        engine, f"a reciprocal condition number near {1 / max(growth, residual_growth):.0e}"
    )


def second_look(
    z: Array,
    y: Array,
    product: Callable[[Array], Array],
    solve: Callable[[Array], Array],
    size: Callable[[Array], Any],
    load: Callable[[Array], Any],
) -> tuple[Any, Any, Any]:
    """(growth along the residual, the larger contraction of two refinements).

    `size(y)` is |A| |y|, `load(z)` is |z|.
    """
    r = z - product(y)
    d = solve(r)
    e = solve(r - product(d))
    tiny = np.finfo(np.float32).tiny
    return size(d) / (load(r) + tiny), size(d) / size(y), size(e) / (size(d) + tiny)
