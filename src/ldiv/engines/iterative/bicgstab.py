"""BiCGSTAB: any square matrix, short recurrences; biconjugate gradients, stabilized.

Cost of a step: 2 products with A, 2 with M, 8 vectors. On a breakdown it restarts.
Reference: van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992); preconditioned from the right.
"""

from __future__ import annotations

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.engines.iterative.krylov import KrylovTask, State, dot, norm, quotient

RANK = 91


def start(task: KrylovTask, x: Array, r: Array) -> State:
    return x, norm(r), r, r, r, dot(r, r)


def step(task: KrylovTask, state: State) -> State:
    x, _, r, shadow, p, rho = state
    # a step of biconjugate gradients along p, preconditioned from the right
    p_hat = task.M(p)
    v = task.A(p_hat)
    alpha = quotient(rho, dot(shadow, v))
    s = r - alpha * v
    # then a step of least residual along s
    s_hat = task.M(s)
    t = task.A(s_hat)
    omega = quotient(dot(t, s), dot(t, t))
    x = x + alpha * p_hat + omega * s_hat
    r = s - omega * t
    now = dot(shadow, r)
    # (now / rho) (alpha / omega) as one quotient, which is 0 if a divisor is
    beta = quotient(now * alpha, rho * omega)
    # the next step divides by these: if one is zero, restart with a new shadow residual
    stuck = (now == 0) | (omega == 0) | (alpha == 0)
    xp = namespace(x)
    p = xp.where(stuck, r, r + beta * (p - omega * v))
    return x, norm(r), r, xp.where(stuck, r, shadow), p, xp.where(stuck, dot(r, r), now)
