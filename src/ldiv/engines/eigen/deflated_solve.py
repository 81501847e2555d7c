"""w_i = S_i r_i, the reduced resolvent: (A - theta_i B) w_i = (I - B X X^H) r_i, X^H B w_i = 0.

X^H B X = I, A X = B X Lam. The part in the span of the guard pairs G is known in closed form,
w = G (G^H r) / (gam - theta), and is deflated, too. For the rest there are two methods. With the
factor F = (A - sigma B)^-1 of the forward pass, one Krylov space serves all i:
    (I - delta_i F B) w_i = F r_i,    delta_i = theta_i - sigma.
Where that space would be large, as many eigenvalues are about as far from sigma, one more factor
serves, for a sigma among the theta_i. Without a factor the method is MINRES, preconditioned by M.
The full eigenbasis of a large matrix is never computed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    alike,
    batch_of,
    common_batch,
    eps,
    fold,
    join,
    numpy_dtype,
    of_each,
    or_one,
    result_dtype,
    unfold,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, host, namespace, on_host
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import matmul
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines import registry
from ldiv.engines.eigen import shift_invert, shifted_krylov
from ldiv.engines.eigen.orthonormal import gram, orthonormal_basis
from ldiv.engines.eigen.task import EigenTask, choose
from ldiv.engines.iterative import krylov
from ldiv.engines.iterative.matrix_product import assembled
from ldiv.engines.iterative.options import Options
from ldiv.errors import OF_BLOCKS_OF_EIGENPAIRS, ConvergenceError

ROUNDS = 4  # with the factor of the forward pass, and as many with one closer by
GAIN = 10  # by which a round must shorten the residual, or the other factor is taken
OFF = 0.0618  # of their spread, from the mean of the eigenvalues
NOISE = 100  # eps times this, relative to r: what deflation leaves below it is rounding
ACCURATE = 2 / 3  # of the digits: the accuracy required of these systems
# the preconditioned system is solved to a tolerance; the residual of the original one may be this
# many times larger
ENOUGH = 100


def reduced(
    task: EigenTask,
    params: tuple[Tree, ...],
    theta: Array,
    r: Array,
    X: Array,
    guard: tuple[Array, Array, Array],
) -> Array:
    """S_i r_i for theta (*batch, k), r (*batch, n, k), deflated by the span of X.

    `guard`: the guard pairs gam and G, and the distance up to which gam and theta count as equal.
    """
    if (by_itself := choose(task, *params[:2]).reduced) is not None:
        return by_itself(task, params, theta, r, X, guard)
    pB, xp, (gam, G, tolerance) = params[1], namespace(r), guard
    noise = NOISE * eps(r) * krylov.norm(r)
    # r <- (I - B X X^H) r
    r = r - matmul(task.B, pB, xp.matmul(X, gram(X, r)))
    # w_G = (G^H r) / (gam - theta), and 0 where both belong to one cluster
    gap = gam[..., :, None] - theta[..., None, :]
    same = xp.abs(gap) <= tolerance
    part = gram(G, r)
    w = xp.matmul(G, xp.where(same, 0, part / xp.where(same, 1, gap)))
    # X, G and the constraints span the whole space: nothing is left
    if X.shape[-1] + G.shape[-1] + task.constraints == task.n:
        return w
    # r <- r - B G G^H r
    r = r - matmul(task.B, pB, xp.matmul(G, part))
    # if r was in the span of X and G, the rest is rounding
    r = xp.where(krylov.norm(r) <= noise, xp.zeros_like(r), r)
    return w + _solve_rest(task, params, theta, r, join(X, G, 1))


def _solve_rest(
    task: EigenTask, params: tuple[Tree, ...], theta: Array, r: Array, V: Array
) -> Array:
    """Solutions of the systems deflated by V, for r orthogonal to V."""
    # one matrix: a batch of right-hand sides is one wider block
    if not common_batch((task.A.core, task.B.core, 2), (*params[:2], V)):
        wide = batch_of(r, 2)
        count = int(np.prod(wide, dtype=int))
        theta = namespace(r).reshape(
            namespace(r).broadcast_to(theta, (*wide, theta.shape[-1])), (count * theta.shape[-1],)
        )
        return unfold(_solve_one(task, params, theta, fold(r), V), wide, r.shape[-1])
    return _each(task, params, theta, r, V)


def _solve_one(
    task: EigenTask, params: tuple[Tree, ...], theta: Array, r: Array, V: Array
) -> Array:
    on_engine = choose(task, *params[:2])
    if not on_engine.ON_HOST or not task.A.on_host:
        return _by_minres(task, params, theta, r, V)
    dtype = result_dtype(params[:2], r)
    like = (task.core, 1, 2, 2)
    return on_host(
        partial(_on_host, task, like), ((tuple(r.shape), dtype),), *leaves((params, theta, r, V))
    )[0]


def _each(task: EigenTask, params: tuple[Tree, ...], theta: Array, r: Array, V: Array) -> Array:
    """The problems of a batch, one after the other."""
    like, args, xp = (task.core, 1, 2, 2), (params, theta, r, V), namespace(r)
    batch = common_batch(like, args)
    if 0 in batch:
        return xp.zeros((*batch, *r.shape[-2:]), **alike(r))
    return of_each(lambda *one: (_solve_one(task, *one),), like, args)[0]


def _on_host(task: EigenTask, like: Any, *flat: Any) -> tuple[Any]:
    params, theta, r, V = rebuild(like, flat)
    if task.sigma is None:
        return (_by_minres(task, params, theta, r, V),)
    return (_by_factor(task, params, theta, r, V),)


# -- with the factor of the forward pass --------------------------------------


def _by_factor(task: EigenTask, params: tuple[Tree, ...], theta: Any, r: Any, V: Any) -> Any:
    pA, pB, (*_, unit) = params
    task = task.in_unit(unit)
    assert task.sigma is not None
    A, B = assembled(task.A, pA), assembled(task.B, pB)
    BV = B(V)
    accuracy, t = eps(r) ** ACCURATE, balance(magnitude(r, axis=0))
    # powers of two: r near 1, so that nothing over- or underflows
    r = r * t * t
    # w grows by corrections; `left` is the residual, `size` is |r|
    w, left, size = np.zeros_like(r), r, np.linalg.norm(r, axis=0)
    steps, worst = 0, np.inf
    # the second sigma lies among theta: deltas are smaller, and so is the Krylov space
    for sigma in (task.sigma, _among(theta, task.sigma)):
        F = shift_invert.shift_inverse(task.A, task.B, pA, pB, sigma)
        for _ in range(ROUNDS):
            w = w + shifted_krylov.solve(F, B, V, theta - sigma, left, accuracy)
            # the residual of the original system, not of the preconditioned one, decides
            Aw, Bw = A(w), B(w) * theta
            # left = (I - B V V^H) (r - A w + B w Theta)
            left = r - Aw + Bw
            left = left - BV @ gram(V, left)
            # relative to |r| + |A w| + |B w Theta|, whose rounding no residual can beat
            whole = size + np.linalg.norm(Aw, axis=0) + np.linalg.norm(Bw, axis=0)
            reached = np.linalg.norm(left, axis=0) / or_one(whole)
            if (reached <= ENOUGH * accuracy).all():
                for observe in task.observers:
                    observe("shifted Krylov", 0, w, reached)
                # w <- (I - V V^H B) w, in the units of r
                return (w - V @ gram(BV, w)) / t / t
            steps, before, worst = steps + 1, worst, float(reached.max())
            # the next sigma serves better where a round gains less than GAIN
            if worst > before / GAIN:
                break
    raise ConvergenceError(
        "the adjoint of eigenpairs",
        steps,
        worst,
        ENOUGH * accuracy,
        "the residual of the deflated systems",
        OF_BLOCKS_OF_EIGENPAIRS,
    )


def _among(theta: Any, sigma: float) -> float:
    """A shift that is far from none of the eigenvalues, and meets none but by chance."""
    # theta may be one point: then its distance from sigma gives the scale
    spread = float(np.ptp(theta)) or OFF * float(np.abs(theta - sigma).max())
    return float(theta.mean()) + OFF * spread


# -- without a factor ---------------------------------------------------------


def _by_minres(
    task: EigenTask, params: tuple[Tree, ...], theta: Array, r: Array, V: Array
) -> Array:
    pA, pB, (pM, _, Y, _) = params
    A, B, xp = assembled(task.A, pA), assembled(task.B, pB), namespace(r)
    # constraints are deflated as V is: their B-orthonormal basis joins it
    if task.constraints:
        V = xp.concat([V, orthonormal_basis(B, xp.astype(Y, V.dtype), ())[0]], axis=-1)
    BV = B(V)
    near = _preconditioner(task, pB, pM)

    # the projections I - B V V^H, of residuals, and I - V V^H B, of solutions
    def out(x: Array) -> Array:
        return x - xp.matmul(BV, gram(V, x))

    def inside(x: Array) -> Array:
        return x - xp.matmul(V, gram(BV, x))

    def shifted_product(w: Array) -> Array:
        return out(A(w) - B(w) * theta)

    options = Options(rtol=eps(r) ** ACCURATE)
    b = out(r)
    # M between projections: w <- (I - V V^H B) M (I - B V V^H) r
    w = inside(
        krylov.run(
            registry.engines()["minres"],
            shifted_product,
            lambda x: inside(near(out(x))),
            b,
            options,
        )
    )
    for observe in task.observers:
        observe("minres", 0, w, krylov.norm(b - shifted_product(w)) / or_one(krylov.norm(b)))
    return w


def _preconditioner(task: EigenTask, pB: Tree, pM: Tree) -> Any:
    """The user's M, else B^-1 if it can be factored, else none."""
    if task.M is not None:
        return krylov.preconditioner(task.M, pM)
    if task.standard or not shift_invert.factors(task.B, task.B) or not all(map(host, leaves(pB))):
        return krylov.identity
    F = shift_invert.inverse(task.B, rebuild(task.B.core, [asnumpy(x) for x in leaves(pB)]))
    return lambda x: on_host(lambda y: (F(y),), ((tuple(x.shape), numpy_dtype(x)),), x)[0]
