"""MINRES: Hermitian, possibly indefinite; minimizes the residual over the Krylov space.

    A V = V T,   T = Q R by one Givens rotation (c, s) per step;   directions W = V R^-1;
    r_k = s_k^2 r_{k-1} - phi_k c_k v_{k+1}
M must be Hermitian positive definite. The residual that is monitored is the true one, not that in
the norm of M.
Cost of a step: 1 product with A, 1 with M, 8 vectors. Reference: Paige and Saunders, SIAM J. Numer.
Anal. 12 (1975); Choi, Paige and Saunders, SIAM J. Sci. Comput. 33 (2011), for the residual.
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.krylov import KrylovTask, State, dot, norm, quotient
from ldiv.errors import NotPositiveDefiniteError

RANK = 81
HERMITIAN_M = True


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return (
        None
        if structure.view("H") == structure
        else "wants a Hermitian matrix: assume_a='her' ('sym' for real ones)"
    )


def BROKEN() -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError("minres", "a preconditioner M with r^H M r < 0")


def start(task: KrylovTask, x: Array, r: Array) -> State:
    xp, z = namespace(r), task.M(r)
    gamma = xp.sqrt(real(dot(r, z)))  # NaN if M is not positive definite
    zero, zeros = xp.zeros_like(gamma), xp.zeros_like(r)
    # r, v_before, v, z, w_before, w
    vectors = r, zeros, r, z, zeros, zeros
    # gamma_before, gamma, eta; s_before, s; c_before, c
    scalars = xp.ones_like(gamma), gamma, gamma, zero, zero, zero + 1, zero + 1
    # the NaN of gamma enters the norm, where the driver looks for a breakdown
    return (x, norm(r) + 0 * gamma, *vectors, *scalars)


def step(task: KrylovTask, state: State) -> State:
    x, _, r, v_before, v, z, w_before, w, gamma_before, gamma, eta, s_before, s, c_before, c = state
    xp = namespace(x)
    # Lanczos in the inner product of M, with z = M v and gamma^2 = v^H z
    z = quotient(z, gamma)
    q = task.A(z)
    delta = real(dot(z, q))
    v_next = q - quotient(delta, gamma) * v - quotient(gamma, gamma_before) * v_before
    z_next = task.M(v_next)
    gamma_next = xp.sqrt(real(dot(v_next, z_next)))
    # the last column of T under the two rotations before, and a new one that makes T upper
    alpha = c * delta - c_before * s * gamma
    length = xp.sqrt(alpha**2 + gamma_next**2)
    w_next = quotient(
        z - s_before * gamma * w_before - (s * delta + c_before * c * gamma) * w, length
    )
    c_next, s_next = quotient(alpha, length), quotient(gamma_next, length)
    # update the solution, and the residual by its recurrence
    x = x + c_next * eta * w_next
    # phi = -s_next eta, and v_(k+1) = v_next / gamma_next
    r = s_next**2 * r - quotient(s_next * c_next * eta, gamma_next) * -v_next
    vectors = r, v, v_next, z_next, w, w_next
    scalars = gamma, gamma_next, -s_next * eta, s, s_next, c, c_next
    return (x, norm(r), *vectors, *scalars)
