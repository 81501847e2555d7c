"""The test for full column rank of A = Q R, by R with columns scaled to norm 1, and one solve.

    s_j = |R_jj| > tol,    |R^-1 z| < |z| / tol    for a fixed random z,    tol = 4 n eps

s_j is the distance of column j from the span of the columns before it. The scaling makes the
answer independent of the units of the columns; the rows are not scaled.
Reference: Bjorck, Numerical Methods for Least Squares Problems (1996), section 2.7.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.policies.errstate import check_or_warn
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.errors import OF_DEPENDENT_COLUMNS, NotDifferentiableError, SingularMatrixError


def require_full_rank(r: Array) -> None:
    """Raise or warn, as the state `singular` says, if columns of A are dependent."""
    _require(r, _dependent, check_or_warn)


def require_derivative(r: Array) -> None:
    """Raise if R is not safely invertible, as the derivative of QR needs."""
    _require(r, _no_derivative, check_or_raise)


def _require(r: Array, error: Any, check: Any) -> None:
    if 0 in r.shape:
        return
    xp, n = namespace(r), r.shape[-1]
    norms = norm(r, axis=-2)[..., None, :]
    # columns of norm 1, and zero columns, whose norm is 0, as they are
    scaled = r / xp.where(norms == 0, xp.ones_like(norms), norms)
    z = xp.asarray(direction(n).copy(), **alike(r))
    # |R^-1 z| / |z|
    size = norm(
        frontend_of(r).dense.solve_triangular(scaled, z, False), axis=(-2, -1)
    ) / xp.linalg.vector_norm(z)
    least = xp.min(xp.abs(xp.linalg.diagonal(scaled)))
    tolerance = 4 * n * float(np.finfo(numpy_dtype(r)).eps)
    # whatever a solver makes of a zero on the diagonal, the least entry there bounds the distance
    distance = xp.where(1 / xp.max(size) < least, 1 / xp.max(size), least)
    check_or_raise(least > 0, partial(error, n), distance)
    check((least > tolerance) & (xp.max(size) * tolerance < 1), partial(error, n), distance)


def _dependent(n: int, distance: Any) -> SingularMatrixError:
    return SingularMatrixError(
        "QR",
        f"a column of {n} that depends on the others (relative distance {float(distance):.0e})",
        causes=OF_DEPENDENT_COLUMNS,
        verdict="has not full rank",
    )


def _no_derivative(n: int, distance: Any) -> NotDifferentiableError:
    return NotDifferentiableError(
        f"no derivative: a column of {n} depends on the others "
        f"(relative distance {float(distance):.0e}), so that Q is not unique. A wide matrix is "
        "factored by its leading square block: bring independent columns to the front."
    )
