"""A X = B X Lam by products alone: LOBPCG, Rayleigh-Ritz on span [X, P, W].

X is the block, P its last step, W its preconditioned residual:
    W = M (A X - B X Lam);   S = [X P W], S^H B S = I;   S^H A S = C Theta C^H;
    X <- S C_k;   P <- the part of S C_k that is not in the old X
Coordinates in S are small matrices: P is made orthonormal to X among them, and W by projection. A
direction that became zero gets a Ritz value too large to be chosen. Converged columns are frozen:
they have no W. A P, B P, A X, B X and Q^H A Q of Q = [X P] are updated by the coordinates, and
recomputed every RENEW steps and at the end.
Cost of a step: k products with A, B and M each, and about 29 n k^2 multiplications, 47 with B. Never
differentiated.
Reference: Knyazev, SIAM J. Sci. Comput. 23 (2001); Hetmaniuk and Lehoucq, J. Comput. Phys. 218
(2006), and Duersch, Shao, Yang and Gu, SIAM J. Sci. Comput. 40 (2018), for the orthonormal basis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, eps, or_one, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace, traced
from ldiv.core.frameworks.looks import all_decided, is_elsewhere, is_pending
from ldiv.core.rules.finite import all_finite
from ldiv.engines.eigen.orthonormal import (
    Pairs,
    gram,
    norm,
    orthonormal,
    orthonormal_basis,
    squares,
)
from ldiv.engines.iterative.krylov import BETWEEN_LOOKS, SMALL
from ldiv.engines.iterative.matrix_product import Product
from ldiv.errors import value_error

RENEW = 100  # steps between recomputations
ROUNDING = 32  # units of rounding in the entries of X: no residual can be required to be smaller


class State(NamedTuple):
    """State of the iteration.

    Q = [X P] (n, 2 k) has its products, H = Q^H A Q, and a mask `there` of its nonzero columns.
    R = A X - B X Lam has the norms `size`, of which those `enough` are wanted. `renewed` is the step of
    the last recomputation, `before` the largest norm then, or 0 if that had not been halved.
    """

    steps: Array
    Q: Array
    AQ: Array
    BQ: Array
    H: Array
    there: Array
    R: Array
    lam: Array
    size: Array
    enough: Array
    renewed: Array
    before: Array


class Problem(NamedTuple):
    """The data of all steps; `sign` makes the wanted eigenvalues the lowest."""

    A: Product
    B: Product | None
    M: Product | None
    outside: Pairs
    tol: float | None
    sign: int
    needed: int  # pairs that must converge


def iterate(
    A: Product,
    B: Product | None,
    M: Product | None,
    X: Array,
    Y: Array | None,
    tol: float | None,
    maxiter: int,
    largest: bool,
    count: int | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """(lam ascending, X, residual norms, steps, wanted norms) of the `count` lowest, or `largest`.

    All of them by default. They are B-orthogonal to Y (n, c). X has as many columns, or more: how
    fast the last pair converges depends on its distance to the first one beyond the block.
    Stops when all residuals are as small as `wanted`, or after maxiter steps; the caller checks
    which it was. Residuals that RENEW steps have not halved are wanted no smaller than the rounding
    of A: those of an eigenvalue 0 never get below it.
    """
    k = X.shape[1]
    count = k if count is None else count
    problem = Problem(A, B, M, (), tol, -1 if largest else 1, count)
    if Y is not None:
        problem = problem._replace(outside=(orthonormal_basis(problem.B, Y, ()),))
    xp, loop = namespace(X), frontend_of(X).loop
    zero, none, H = (
        xp.zeros((), **alike(X, np.dtype(np.int32))),
        real(X[0, :]) * 0,
        xp.zeros((2 * k, 2 * k), **alike(X)),
    )
    Q, there = xp.concat([X, xp.zeros_like(X)], axis=1), xp.concat([none, none]) > 0

    def not_converged(s: State) -> Array:
        return (s.steps < maxiter) & (s.size > s.enough)[:count].any()

    def going(state: Any) -> Array:
        s = State(*state)
        return not_converged(s) & (s.steps < s.renewed + RENEW)

    def step(state: Any) -> State:
        return _step(problem, State(*state))

    def restart(state: Any) -> Any:
        """Steps from recomputed products; converged if a restart finds nothing to do."""
        return loop(going, step, _renew(problem, State(*state)))

    # a first norm of infinity is no stall; -1 steps at the last restart let the loop begin
    start = State(
        zero, Q, Q * 0, Q * 0, H, there, X * 0, none, none, none, zero - 1, none[0] + np.inf
    )
    if is_pending(X):
        end = _in_blocks(going, step, partial(_renew, problem), start)
    else:
        end = State(*loop(lambda s: State(*s).steps > State(*s).renewed, restart, start))
    up = xp.argsort(end.lam[:count])
    return end.lam[up], end.Q[:, up], end.size[up], end.steps, end.enough[up]


def _in_blocks(
    going: Callable[[State], Array],
    step: Callable[[State], State],
    renewed: Callable[[State], State],
    state: State,
) -> State:
    """Iterate on a device, which is read after blocks of steps: surplus steps change nothing."""
    xp, block = (
        namespace(state.Q),
        BETWEEN_LOOKS if np.prod(state.Q.shape, dtype=int) <= SMALL else 2,
    )
    while True:
        state, goes_on = renewed(state), True
        while goes_on:
            for _ in range(block):
                # each step is computed, and dropped where the iteration had ended before it
                on = going(state)
                pairs = zip(step(state), state, strict=True)
                state = State(*[xp.where(on, now, then) for now, then in pairs])
            goes_on, is_new = all_decided((going(state), state.steps > state.renewed))
            # a restart mostly finds nothing to do, so that its first look comes after one step
            block = BETWEEN_LOOKS if goes_on else 1
        if not is_new:
            return state


def wanted(
    A: Product, B: Product | None, X: Array, lam: Array, tol: float | None, needed: int
) -> Array:
    """The bound on each residual |A x - lam B x| |x|: tol max |lam|, but not below rounding."""
    xp, tol = namespace(X), eps(X) ** (2 / 3) if tol is None else tol
    return xp.maximum(
        tol * xp.max(xp.abs(lam[:needed])), ROUNDING * rounding_of_residual(A, B, X, lam)
    )


def rounding_of_residual(A: Product, B: Product | None, X: Array, lam: Array) -> Array:
    """The rounding of A x, and that of lam B x: x may lie where B is small, and |lam| |B| large."""
    of_A = rounding(A, X)
    return of_A if B is None else of_A + namespace(X).abs(lam) * rounding(B, X)


def rounding(A: Product, X: Array) -> Array:
    """|A (s x)| |x| eps for random signs s: the rounding of A x.

    Unlike |A| |x| eps it ignores rows of A that are huge where x is small.
    """
    xp = namespace(X)
    # signs of cos(j^2), which have no short period
    at = xp.arange(X.shape[0], **(alike(X) | {"dtype": real(X).dtype}))[:, None]
    s = xp.where(xp.cos(at * at) > 0, xp.ones_like(at), -xp.ones_like(at))
    return eps(X) * norm(A(s * X)) * norm(X)


def _rounding_of_matrix(A: Product, X: Array) -> Array:
    """|A| |x|^2 eps, with |A s| |s|^-1 of random signs for |A|."""
    xp, n = namespace(X), X.shape[0]
    return rounding(A, xp.ones((n, 1), **alike(X)) / n**0.5) * norm(X) ** 2


def _renew(task: Problem, state: State) -> State:
    """The state recomputed from X alone."""
    k = state.R.shape[1]
    xp, X = namespace(state.Q), state.Q[:, :k]
    # X^H B X = I, then Rayleigh-Ritz on span X
    X, _ = orthonormal_basis(task.B, X, task.outside)
    AX, BX = task.A(X), X if task.B is None else task.B(X)
    # x^H B x is 1, and 0 for a column that depended on others
    there = squares(X, BX) > 0.5
    check_or_raise(there.all(), _dependent, (~there).sum())
    lam, C = _ritz(task, gram(X, AX), there, k)
    X, AX, BX = X @ C, AX @ C, BX @ C
    Q, AQ, BQ = (xp.concat([V, xp.zeros_like(V)], axis=1) for V in (X, AX, BX))
    R, size = _residuals(task, X, AX, BX, lam)
    enough = wanted(task.A, task.B, X, lam, task.tol, task.needed)
    # the largest residual was not halved in RENEW steps: rounding of A is allowed
    most = xp.max(size[: task.needed])
    stalled = most > state.before / 2
    at_least = xp.where(stalled, ROUNDING * _rounding_of_matrix(task.A, X), 0 * size)
    before = xp.where(stalled, 0 * most, most)  # once is for good
    H, there = gram(Q, AQ), xp.concat([there, there & False])
    enough, steps = xp.maximum(enough, at_least), state.steps
    return State(steps, Q, AQ, BQ, H, there, R, lam, size, enough, steps, before)


def _step(task: Problem, state: State) -> State:
    xp, Q, k = namespace(state.Q), state.Q, state.R.shape[1]
    # W = M (A X - B X Lam), without the columns that have converged
    W = _moving(state.R, state.size > state.enough)
    W = W if task.M is None else task.M(W)
    check_or_raise(all_finite(W), _not_finite)
    # S = [X P W], S^H B S = I
    W, BW = orthonormal_basis(task.B, W, (*task.outside, (Q, state.BQ)))
    AW = task.A(W)
    S, AS = xp.concat([Q, W], axis=1), xp.concat([state.AQ, AW], axis=1)
    BS = S if task.B is None else xp.concat([state.BQ, BW], axis=1)
    # S^H A S = [Q^H A Q, Q^H A W; W^H A Q, W^H A W]
    of_W = gram(S, AW)
    H = xp.concat([xp.concat([state.H, adjoint(of_W[: 2 * k, :])], axis=0), of_W], axis=1)
    # S^H A S C = C Theta: C (3 k, k) are the coordinates of the new X
    there = xp.concat([state.there, squares(W, BW) > 0.5])
    lam, C = _ritz(task, H, there, k)
    # P: what the new X has along P and W, made orthonormal to X in coordinates
    step_coordinates = xp.concat([xp.zeros_like(C[:k, :]), C[k:, :]], axis=0)
    # [X P] <- S C
    C = xp.concat([C, orthonormal(step_coordinates, ((C, C),))], axis=1)
    Q, AQ = S @ C, AS @ C
    BQ = Q if task.B is None else BS @ C
    R, size = _residuals(task, Q[:, :k], AQ[:, :k], BQ[:, :k], lam)
    H, there = gram(C, H @ C), squares(C, C) > 0.5
    changed = state._replace(Q=Q, AQ=AQ, BQ=BQ, H=H, there=there, R=R, lam=lam, size=size)
    return changed._replace(steps=state.steps + 1)


def _moving(R: Array, moving: Array) -> Array:
    """The residuals of columns that have not converged; others are zero where shapes may not depend
    on values, and left out elsewhere.
    """
    if traced(R) or is_elsewhere(R):
        return namespace(R).where(moving, R, 0)
    return R if bool(moving.all()) else R[:, namespace(R).nonzero(moving)[0]]


def _ritz(task: Problem, H: Array, there: Array, k: int) -> tuple[Array, Array]:
    """The k lowest Ritz values of H = S^H A S, with coordinates in S, whose columns are orthonormal, or
    zero where they are not `there`.
    """
    # the wanted eigenvalues lowest
    xp, H = namespace(H), task.sign * H
    size = xp.linalg.matrix_norm(H)
    check_or_raise(xp.isfinite(size), _not_finite)
    # zero columns of S would have the Ritz value 0: move it beyond the spectrum
    penalty = xp.where(there, xp.zeros_like(size), or_one(3 * size))
    theta, C = frontend_of(H).dense.eigh(
        (H + adjoint(H)) / 2 + xp.eye(H.shape[0], **alike(H)) * penalty
    )
    # coordinates along zero columns of S are rounding
    return task.sign * theta[:k], xp.where(there[:, None], C[:, :k], 0)


def _residuals(task: Problem, X: Array, AX: Array, BX: Array, lam: Array) -> tuple[Array, Array]:
    """A X - B X Lam, without its components along the constraints, and |A x - lam B x| |x|."""
    R = AX - BX * lam
    # R <- (I - B Y Y^H) R
    for Y, BY in task.outside:
        R = R - BY @ gram(Y, R)
    return R, norm(R) if task.B is None else norm(R) * norm(X)


def _dependent(count: Any) -> ValueError:
    what, came = "columns linearly independent of each other and of Y", f"{int(count)} dependent"
    advice = (
        "Start from random columns; there can be no more of them than rows, less the columns of Y."
    )
    return value_error("X", what, came, advice)


def _not_finite() -> ValueError:
    return value_error(
        "A, B, M",
        "products that are finite",
        "NaN or infinity",
        "Look at their entries, or at what their functions return.",
    )
