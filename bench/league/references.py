"""Functions and equations of matrices in mpmath: Y of (A, b).

Riccati equations by structure-preserving doubling (Chu, Fan, Lin 2005), which needs nothing but small inverses;
the continuous one becomes a discrete one by Cayley's transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

SMALL = 2.0**-30  # Q of Riccati equations beside R = 1
BOX = 1 / 32  # the bounds of quadratic programs: some bind, some do not
ROUNDS = 9  # the error is squared in each
SMALLER, SHIFT = [[1.0, 0.5], [0.5, 2.0]], 0.5  # of kron(A, SMALLER) + SHIFT I


def box_program(A: Any, b: Any) -> Any:
    """argmin x^H A x / 2 - b^H x with |x_i| <= BOX, for real numbers: at a bound is what leaves it, or is
    pushed against it, until nothing changes.
    """
    n, at = A.rows, [0] * A.rows
    while True:
        free = [i for i in range(n) if not at[i]]
        x = mp.matrix([BOX * side for side in at])
        if free:
            inner = mp.matrix([[A[i, j] for j in free] for i in free])
            found = mp.lu_solve(inner, mp.matrix([(b - A * x)[i] for i in free]))
            for i, value in zip(free, found, strict=True):
                x[i] = value
        force = b - A * x
        before = at
        at = [
            (s if _sign(force[i] * s) > 0 else 0) if s else _beyond(x[i]) for i, s in enumerate(at)
        ]
        if at == before:
            return x


def _sign(x: Any) -> int:
    return int(mp.sign(mp.re(x)))


def _beyond(x: Any) -> int:
    return _sign(x) if abs(x) > BOX else 0


def marginal(A: Any, b: Any) -> Any:
    """log of Laplace's approximation to the integral of exp(-f), f = x^T A x / 2 - b^T x + sum exp(x)."""
    n, x = A.rows, mp.zeros(A.rows, 1)
    for _ in range(ROUNDS):  # Newton's method: H = A + diag(exp x)
        growth = [mp.exp(y) for y in x]
        H = A + mp.diag(growth)
        x -= mp.lu_solve(H, A * x - b + mp.matrix(growth))
    f = (x.T * A * x)[0] / 2 - (b.T * x)[0] + sum(mp.exp(y) for y in x)
    H = A + mp.diag([mp.exp(y) for y in x])
    return -f - mp.log(mp.det(H)) / 2 + n * mp.log(2 * mp.pi) / 2


def sylvester(A: Any, b: Any) -> Any:
    """A Y + Y A^T = b b^T, entry by entry."""
    n = A.rows
    K, side = mp.zeros(n * n), mp.zeros(n * n, 1)
    for i in range(n):
        for j in range(n):
            side[i * n + j] = b[i] * b[j]
            for k in range(n):
                K[i * n + j, k * n + j] += A[i, k]
                K[i * n + j, i * n + k] += A[j, k]
    y = mp.lu_solve(K, side)
    return mp.matrix([[y[i * n + j] for j in range(n)] for i in range(n)])


def discrete_riccati(A: Any, b: Any) -> Any:
    """A^H Y A - Y - A^H Y b (1 + b^H Y b)^-1 b^H Y A + I = 0."""
    return _doubled(A, b * b.H, mp.eye(A.rows))


def with_small_q(A: Any, b: Any) -> Any:
    """Y / SMALL of the same equation with SMALL I in place of I."""
    return _doubled(A, b * b.H, SMALL * mp.eye(A.rows)) / SMALL


def continuous_riccati(A: Any, b: Any) -> Any:
    """A^H Y + Y A - Y b b^H Y + I = 0; A is stable."""
    eye, twice = mp.eye(A.rows), 2 * mp.norm(A, 1)
    G = b * b.H
    shifted = mp.inverse(A - twice / 2 * eye)
    W = mp.inverse(A.H - twice / 2 * eye + shifted * G)
    return _doubled(eye + twice * W.H, twice * shifted * G * W, twice * W * shifted)


def _doubled(A: Any, G: Any, H: Any) -> Any:
    eye = mp.eye(A.rows)
    for _ in range(ROUNDS):
        W = mp.inverse(eye + G * H)
        A, G, H = A * W * A, G + A * W * G * A.H, H + A.H * H * W * A
    return H


MATRICES: dict[str, Callable[[Any, Any], Any]] = {
    "expm": lambda A, b: mp.expm(A),
    "logm": lambda A, b: mp.logm(A),
    "sqrtm": lambda A, b: mp.sqrtm(A),
    "sylvester": sylvester,
    # made of eigenpairs and of singular triplets
    "rebuilt": lambda A, b: A * A,
    "triplets": lambda A, b: A * A.H,
    "small": with_small_q,
    "care": continuous_riccati,
    "dare": discrete_riccati,
}
