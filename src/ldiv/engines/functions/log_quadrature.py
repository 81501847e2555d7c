"""z^H log(A) z for a positive definite A by Gauss quadrature: Lanczos, reorthogonalized in full.

    A V = V T + beta v e_m^T,  V e_1 = z / |z|:    z^H log(A) z ~ |z|^2 e_1^T log(T) e_1
                                                 = |z|^2 sum_j |U_1j|^2 log theta_j,  T = U theta U^T

exact for polynomials of degree 2 m - 1. The error falls as rho^(-2 m), rho = (sqrt(kappa) + 1) /
(sqrt(kappa) - 1); it is estimated by what the last quarter of the steps changed. Every column of a
block has a Krylov space of its own: V is (*batch, k, m, n), vectors in rows. Memory: m blocks, of
which as many columns are taken at a time as fit into `ROOM`.
Reference: Golub and Meurant, Matrices, Moments and Quadrature (2010); Ubaru, Chen, Saad, SIAM J.
Matrix Anal. Appl. 38 (2017).
"""

from __future__ import annotations

from math import prod
from typing import Any

from ldiv.core.arrays.shapes import alike, conj, eps, put, real, transpose, writable
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.engines.accuracy.scaling import balanced_product
from ldiv.engines.iterative.krylov import quotient
from ldiv.engines.iterative.matrix_product import Product
from ldiv.errors import NotPositiveDefiniteError

NOISE = 4  # units of rounding of the largest value: less is not known to be positive
ROOM = 1 << 24  # numbers of a basis in memory at a time


def log_quadrature(A: Product, z: Array, steps: int) -> tuple[Array, Array]:
    """(z^H log(A) z, its change by the last quarter of the steps) for each column, (*batch, k)."""
    xp, n, k = namespace(z), z.shape[-2], z.shape[-1]
    steps = min(steps, n)
    # log(A) = log(t^2 A) - 2 log t: lengths of tiny or huge vectors would be 0 or infinite
    A, t = balanced_product(A, z[..., :1], axis=(-2, -1))
    # columns at a time: their basis vectors of all steps fit into ROOM
    width = max(1, ROOM // max(1, prod(z.shape[:-1]) * steps))
    parts = [_of_block(A, z[..., j : j + width], steps) for j in range(0, k, width)]
    values, changes = (xp.concat(column, axis=-1) for column in zip(*parts, strict=True))
    squares = xp.sum(real(conj(z) * z), axis=-2)
    return values - 2 * xp.log(t[..., 0]) * squares, changes


def _of_block(A: Product, z: Array, steps: int) -> tuple[Array, Array]:
    xp, n = namespace(z), z.shape[-2]
    size = xp.linalg.vector_norm(z, axis=-2)  # (*batch, k)
    alpha, beta = _lanczos(A, transpose(z / size[..., None, :]), steps)
    values = _quadrature(alpha, beta)
    if steps == n:  # all of the space: exact
        return size**2 * values, 0 * values
    before = max(1, 3 * steps // 4)
    change = values - _quadrature(alpha[..., :before], beta[..., :before])
    return size**2 * values, size**2 * change


def _lanczos(A: Product, first: Array, steps: int) -> tuple[Array, Array]:
    """The diagonals of T, (*batch, k, steps). Where a space is invariant T ends, and 1 follows."""
    xp = namespace(first)
    # V (*batch, k, steps, n), alpha and beta (*batch, k, steps)
    V = xp.zeros((*first.shape[:-1], steps, first.shape[-1]), **alike(first))
    alpha = beta = xp.zeros((*first.shape[:-1], steps), **alike(real(first)))
    alive = xp.ones_like(real(first[..., 0])) > 0

    def grows(state: Any) -> Any:
        return (state[0] < steps) & state[-1].any()

    def grow(state: Any) -> Any:
        j, V, alpha, beta, v, alive = state
        V = put(V, (..., j, slice(None)), v)
        # w = A v_j,  alpha_j = v_j^H w
        w = transpose(A(transpose(v)))
        length = xp.linalg.vector_norm(w, axis=-1)
        a = real(xp.sum(conj(v) * w, axis=-1))
        basis = V[..., : j + 1, :] if writable(V) else V  # new shapes would be compiled
        for _ in range(2):  # twice is enough (Kahan)
            # w <- w - V V^H w; V has its vectors in rows
            h = conj(xp.matmul(basis, conj(w)[..., None]))
            w = w - xp.matmul(transpose(basis), h)[..., 0]
        b = xp.linalg.vector_norm(w, axis=-1)
        alpha = put(alpha, (..., j), xp.where(alive, a, xp.ones_like(a)))
        # w below rounding of A v_j: the space is invariant, and T ends
        alive = alive & (b > 4 * eps(b) * length)
        b = xp.where(alive, b, xp.zeros_like(b))
        v = quotient(w * alive[..., None], b[..., None])
        return j + 1, V, alpha, put(beta, (..., j), b), v, alive

    _, _, alpha, beta, _, _ = frontend_of(first).loop(
        grows, grow, (0, V, alpha + 1, beta + 0, first, alive)
    )
    return alpha, beta


def _quadrature(alpha: Array, beta: Array) -> Array:
    """e_1^T log(T) e_1."""
    xp, m = namespace(alpha), alpha.shape[-1]
    one = xp.eye(m, **alike(alpha))
    below = xp.eye(m, k=-1, **alike(alpha))
    # beta_j below alpha_j: column j of the shifted identity
    lower = below * beta[..., None, :]
    theta, u = frontend_of(lower).dense.eigh(one * alpha[..., None, :] + lower + transpose(lower))
    # theta at the level of rounding has a logarithm that means nothing
    share = theta / xp.max(xp.abs(theta), axis=-1, keepdims=True)
    check_or_raise((share > NOISE * eps(alpha)).all(), _not_positive, xp.min(share))
    # e_1^T log(T) e_1 = sum_j U_1j^2 log theta_j
    weights = u[..., 0, :] ** 2
    return xp.sum(weights * xp.log(xp.where(theta > 0, theta, xp.ones_like(theta))), axis=-1)


def _not_positive(least: Any) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        "slq", f"a value z^H A z / z^H z of {float(least):.1e} of the largest"
    )
