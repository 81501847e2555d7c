"""CG: Hermitian positive definite; minimizes the energy norm of the error over the Krylov space.

Cost of a step: 1 product with A, 1 with M, 5 vectors.
Reference: Hestenes and Stiefel, J. Res. NBS 49 (1952).
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.krylov import KrylovTask, State, dot, norm, quotient
from ldiv.errors import NotPositiveDefiniteError

RANK = 80
HERMITIAN_M = True


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return (
        None
        if assume_a == "pos"
        else "wants a matrix that is promised positive definite: assume_a='pos'"
    )


def BROKEN() -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        "cg", "a direction p with p^H A p <= 0, or a preconditioner that is not positive definite"
    )


def start(task: KrylovTask, x: Array, r: Array) -> State:
    z = task.M(r)
    return x, norm(r), r, z, real(dot(r, z))


def step(task: KrylovTask, state: State) -> State:
    x, _, r, p, rho = state
    # alpha = rho / p^H A p,  x <- x + alpha p,  r <- r - alpha A p
    q = task.A(p)
    curvature = real(dot(p, q))
    alpha = quotient(rho, curvature)
    x, r = x + alpha * p, r - alpha * q
    # rho = r^H M r; without M, z is r itself, and both squares are one product
    z, squares = task.M(r), real(dot(r, r))
    now = squares if z is r else real(dot(r, z))
    # each of these quantities is positive for Hermitian positive definite A and M
    broken = ((curvature <= 0) & (rho != 0)) | (rho < 0) | (now < 0)
    xp = namespace(x)
    # NaN tells the driver of the breakdown
    size = xp.where(broken, float("nan"), xp.sqrt(squares))
    # p <- M r + (now / rho) p
    return x, size, r, z + quotient(now, rho) * p, now
