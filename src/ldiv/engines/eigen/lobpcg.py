"""A X = B X Lam from products alone: the best X in span [X, P, W], the block, its last move and its preconditioned residual (LOBPCG).

    W = M (A X - B X Lam);   S = [X P W], S^H B S = I;   S^H A S = C Theta C^H;   X <- S C_k;   P <- what S C_k adds to the old X
All coordinates are small matrices: P is made orthonormal to X among them, W by projection and SVQB, twice. A direction that is
linearly dependent becomes zero and its Ritz value is put out of reach, so that shapes never change. Pairs that have arrived
give no more W. A P, B P, A X, B X follow the coordinates; every RENEW steps, and at the end, they are computed again.
Cost of a step: k products with A, B and M each, and about 45 n k^2 multiplications. Never differentiated.
Reference: Knyazev, SIAM J. Sci. Comput. 23 (2001); Stathopoulos and Wu, SIAM J. Sci. Comput. 23 (2002), for SVQB; Hetmaniuk and
Lehoucq, J. Comput. Phys. 218 (2006), and Duersch, Shao, Yang and Gu, SIAM J. Sci. Comput. 40 (2018), for the orthonormal basis.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import alike, astype, common_batch, conj, numpy_dtype, real, result_dtype, transpose, unbatched
from ldiv.core.closures import uncounted
from ldiv.core.dispatch import frontend_of, insist, namespace, on_host, traced
from ldiv.core.finite import all_finite, require_finite
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.engines.eigen_task import Task
from ldiv.engines.matrix_product import Product, assembled, require_hermitian
from ldiv.engines.scaling import balanced_product, magnitude
from ldiv.engines.solve_log import is_read, note
from ldiv.errors import ConvergenceError, NotPositiveDefiniteError, got

RANK = 30
ON_HOST = False
MOST = 500  # steps, unless maxiter says otherwise
RENEW = 100  # steps
ROUNDING = 32  # how many roundings of the entries of X a residual cannot be below

Pairs = tuple[tuple[Array, Array], ...]  # of V and B V, with V^H B V = I
State = tuple[Array, ...]  # steps, Q = [X P], A Q, B Q, lam, the sizes of the residuals, and those that are wanted


def supports(task: Task, dtype: Any, device: str) -> str | None:
    if task.sigma is not None or task.which not in ("LA", "SA"):
        return "finds pairs at one end of the spectrum: which='LA' or 'SA', without sigma"
    if task.k + task.constraints > task.n:
        return f"finds at most n - {task.constraints} = {task.n - task.constraints} pairs"
    return None


def others(task: Task) -> int:
    return max(min(max(task.guard, 1), task.n - task.constraints - task.k), 0)


def pairs(task: Task, pA: Tree, pB: Tree, aids: tuple[Tree, ...]) -> tuple[Array, Array, Array]:
    """One problem of the batch after the other; on the host where the matrix is sparse and the framework would trace every step."""
    flat, like = leaves((pA, pB, aids)), (task.A.core, task.B.core, task.aids_core)
    batch = common_batch(like, (pA, pB, aids))
    if any(map(traced, flat)) and task.A.unview()[0].pattern is not None and task.B.on_host and (task.M is None or task.M.on_host):
        dtype, m = result_dtype(pA, pB), task.k + others(task)
        sizes = (*batch, m), np.finfo(dtype).dtype
        return on_host(lambda *flat: pairs(task, *rebuild(like, flat)), (sizes, ((*batch, task.n, m), dtype), sizes), *flat)
    if not batch:
        return _pairs(task, pA, pB, aids)
    xp = namespace(flat[0])
    if 0 in batch:
        x = xp.zeros((*batch, task.n, task.k + others(task)), **alike(flat[0]))
        return real(x[..., 0, :]), x, real(x[..., 0, :])
    found = [_pairs(task, *one) for one in unbatched(like, (pA, pB, aids), batch)]
    return tuple(xp.reshape(xp.stack(y), (*batch, *y[0].shape)) for y in zip(*found, strict=True))


def _pairs(task: Task, pA: Tree, pB: Tree, aids: tuple[Tree, ...]) -> tuple[Array, Array, Array]:
    for name, structure, p in (("A", task.A, pA), ("B", task.B, pB)):
        require_finite(name, *leaves(structure.read(p)))
    near, start, Y = aids
    require_finite("X, Y", *leaves((start, Y)))
    X = _start(task, leaves(pA)[0], result_dtype(pA, pB), start)
    A, B = assembled(task.A, pA), None if task.standard else assembled(task.B, pB)
    for structure, product in ((task.A, A), (task.B, B)):
        if product is not None:
            require_hermitian(structure, product, X)
    M = None if task.M is None else _to_dtype(uncounted(assembled(task.M, near)))
    most, tol = MOST if task.maxiter is None else task.maxiter, task.tol or None
    xp = namespace(X)
    X = X / _or_one(magnitude(X, axis=-2))
    (A, t), (B, s) = balanced_product(A, X, (-2, -1)), (B, xp.ones_like(real(X[:1, :1]))) if B is None else balanced_product(B, X, (-2, -1))
    lam, X, size, steps = iterate(A, B, M, X, _cast(Y, X.dtype) if task.constraints else None, tol, most, task.which == "LA")
    enough = wanted(A, X, lam, tol)
    at = xp.argmax(size / _or_one(enough))
    insist((size <= enough).all(), partial(_not_converged, len(lam)), steps, (size <= enough).sum(), size[at], enough[at])
    if is_read() and not traced(X):
        note("lobpcg", int(steps), float(xp.max(size) / (xp.max(xp.abs(lam)) or 1)))
    order, doubt = task.order(lam), size + _rounding(A, X)
    lam, doubt = (y[order] / t[0] * s[0] / t[0] * s[0] for y in (lam, doubt))
    return lam, X[:, order] * s, doubt


def _start(task: Task, like: Array, dtype: np.dtype[Any], start: Tree) -> Array:
    """The block that is given, and random columns for what it lacks."""
    xp, m = namespace(like), task.k + others(task)
    given = start.shape[1] if task.start else 0
    more = xp.asarray(np.random.default_rng(task.n).standard_normal((task.n, max(m - given, 0))), **alike(like, dtype))
    return more if not given else xp.concat([_cast(start, dtype), more], axis=1)[:, :m]


def _cast(X: Array, dtype: Any) -> Array:
    """Columns that span the same, in another precision, in which they need not fit as they are."""
    return astype(X / _or_one(magnitude(X, axis=-2)), dtype)


def _to_dtype(product: Product) -> Product:
    return lambda x: namespace(x).astype(product(x), x.dtype, copy=False)


def _not_converged(k: int, steps: Any, done: Any, residual: Any, enough: Any) -> ConvergenceError:
    return ConvergenceError("lobpcg", int(steps), float(residual), float(enough), f"{int(done)} of {k} eigenpairs")


# -- the iteration --------------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """What a step is given; `sign` makes the wanted eigenvalues the lowest."""

    A: Product
    B: Product | None
    M: Product | None
    outside: Pairs
    tol: float | None
    sign: int


def iterate(
    A: Product, B: Product | None, M: Product | None, X: Array, Y: Array | None, tol: float | None, maxiter: int, largest: bool
) -> tuple[Array, Array, Array, Array]:
    """(lam (k,) ascending, X (n, k), the sizes of the residuals, steps): the lowest or largest pairs B-orthogonal to Y (n, c).

    Stops when all residuals are `wanted` or after maxiter steps: whether it has converged is for the caller to ask.
    """
    k, problem = X.shape[1], Problem(A, B, M, (), tol, -1 if largest else 1)
    if Y is not None:
        problem = problem._replace(outside=(_basis(problem, Y, ()),))
    xp, loop = namespace(X), frontend_of(X).loop
    zero, none, Q = xp.zeros((), **alike(X, np.dtype(np.int32))), real(X[0, :]) * 0, xp.concat([X, xp.zeros_like(X)], axis=1)

    def short(state: State) -> Array:
        return (state[0] < maxiter) & (state[5] > state[6]).any()

    def round_(state: State) -> State:
        """From products that are true; the last round finds nothing to do."""
        before, begun = state[0], _renew(problem, state[0], state[1][:, :k])
        return (*loop(lambda s: short(s) & (s[0] < before + RENEW), partial(_step, problem), begun), before)

    start = (zero, Q, Q * 0, Q * 0, none, none, none, zero - 1)
    steps, Q, _, _, lam, size, _, _ = loop(lambda s: s[0] > s[-1], round_, start)
    up = xp.argsort(lam)
    return lam[up], Q[:, :k][:, up], size[up], steps


def wanted(A: Product, X: Array, lam: Array, tol: float | None) -> Array:
    """tol max |lam| for each residual |A x - lam B x| |x|, or what a few roundings of the entries of x make of it."""
    tol = _eps(X) ** (2 / 3) if tol is None else tol
    return namespace(X).maximum(tol * namespace(X).max(namespace(X).abs(lam)), ROUNDING * _rounding(A, X))


def _rounding(A: Product, X: Array) -> Array:
    """|A (s x)| |x| eps for signs s that look random; rows of A that are huge where x is small do not count."""
    xp = namespace(X)
    at = xp.arange(X.shape[0], **(alike(X) | {"dtype": real(X).dtype}))[:, None]
    s = xp.where(xp.cos(at * at) > 0, xp.ones_like(at), -xp.ones_like(at))
    return _eps(X) * _norm(A(s * X)) * _norm(X)


def _renew(task: Problem, steps: Array, X: Array) -> State:
    """From X alone, with products that are true."""
    xp = namespace(X)
    X, _ = _basis(task, X, task.outside)
    AX, BX = task.A(X), X if task.B is None else task.B(X)
    rank = (_squares(X, BX) > 0.5).sum()
    insist(rank == X.shape[1], partial(_dependent, X.shape[1]), rank)
    lam, C = _ritz(task, X, AX, BX, X.shape[1])
    X, AX, BX = X @ C, AX @ C, BX @ C
    Q, AQ, BQ = (xp.concat([V, xp.zeros_like(V)], axis=1) for V in (X, AX, BX))
    return steps, Q, AQ, BQ, lam, _sizes(task, X, AX, BX, lam), wanted(task.A, X, lam, task.tol)


def _step(task: Problem, state: State) -> State:
    steps, Q, AQ, BQ, lam, size, enough = state
    xp, k = namespace(Q), Q.shape[1] // 2
    W = xp.where(size > enough, _residual(task, AQ[:, :k], BQ[:, :k], lam), 0)
    W = W if task.M is None else task.M(W)
    insist(all_finite(W), _not_finite)
    W, BW = _basis(task, W, (*task.outside, (Q, BQ)))
    S, AS = xp.concat([Q, W], axis=1), xp.concat([AQ, task.A(W)], axis=1)
    BS = S if task.B is None else xp.concat([BQ, BW], axis=1)
    lam, C = _ritz(task, S, AS, BS, k)
    moved = xp.concat([xp.zeros_like(C[:k, :]), C[k:, :]], axis=0)
    C = xp.concat([C, _orthonormal(moved, ((C, C),))], axis=1)
    Q, AQ = S @ C, AS @ C
    BQ = Q if task.B is None else BS @ C
    return steps + 1, Q, AQ, BQ, lam, _sizes(task, Q[:, :k], AQ[:, :k], BQ[:, :k], lam), enough


def _ritz(task: Problem, S: Array, AS: Array, BS: Array, k: int) -> tuple[Array, Array]:
    """The k lowest Ritz values and their coordinates in S, whose columns are orthonormal or zero."""
    xp, H = namespace(S), task.sign * _gram(S, AS)
    there = _squares(S, BS) > 0.5
    reach = xp.linalg.matrix_norm(H)
    insist(xp.isfinite(reach), _not_finite)
    beyond = xp.where(there, xp.zeros_like(reach), _or_one(3 * reach))
    theta, C = xp.linalg.eigh((H + conj(transpose(H))) / 2 + xp.eye(S.shape[1], **alike(S)) * beyond)
    return task.sign * theta[:k], xp.where(there[:, None], C[:, :k], 0)


def _sizes(task: Problem, X: Array, AX: Array, BX: Array, lam: Array) -> Array:
    """|A x - lam B x| |x|; with constraints, of the problem on their complement."""
    return _norm(_residual(task, AX, BX, lam)) * _norm(X)


def _residual(task: Problem, AX: Array, BX: Array, lam: Array) -> Array:
    """A X - B X Lam, without what the constraints hold against."""
    R = AX - BX * lam
    for Y, BY in task.outside:
        R = R - BY @ _gram(Y, R)
    return R


# -- orthonormal or zero --------------------------------------------------------------------------------------------------------


def _basis(task: Problem, W: Array, outside: Pairs) -> tuple[Array, Array]:
    """A B-orthonormal basis of W, B-orthogonal to those outside, and B times it: one product, of columns that are orthonormal."""
    W = _orthonormal(W, outside)
    if task.B is None:
        return W, W
    BW = task.B(W)
    for cut in (10 * W.shape[1] * _eps(W), 0.25):
        G = _gram(W, BW)
        insist((real(G.diagonal()) >= 0).all(), lambda: NotPositiveDefiniteError("lobpcg", "that B of A x = lambda B x is not"))
        T = _svqb(G, 0.0, cut)
        W, BW = W @ T, BW @ T
    for V, BV in outside:
        T = _gram(BV, W)
        W, BW = W - V @ T, BW - BV @ T
    return W, BW


def _orthonormal(W: Array, outside: Pairs) -> Array:
    """The second time, what is left of rounding after the projection is seen by its size."""
    W = W / _or_one(namespace(W).max(namespace(W).abs(W), axis=0))  # the squares of a norm may overflow
    W = W / _or_one(_norm(W))
    for least, cut in ((100 * _eps(W), 10 * W.shape[1] * _eps(W)), (0.5, 0.25)):
        for V, BV in (*outside, *outside):
            W = W - V @ _gram(BV, W)
        W = W @ _svqb(_gram(W, W), least, cut)
    return W


def _svqb(G: Array, least: float, cut: float) -> Array:
    """T with T^H G T = I, zeros for columns of a size up to `least`, and for eigenvalues of the scaled G up to `cut`."""
    xp, size = namespace(G), namespace(G).sqrt(real(G.diagonal()))
    scale = xp.where(size > least, 1 / _or_one(size), 0)
    theta, U = xp.linalg.eigh(scale[:, None] * (G + conj(transpose(G))) / 2 * scale)
    return scale[:, None] * U * xp.where(theta > cut, 1 / xp.sqrt(xp.where(theta > cut, theta, 1)), 0)


def _gram(V: Array, W: Array) -> Array:
    return conj(transpose(V)) @ W


def _squares(S: Array, BS: Array) -> Array:
    """s^H B s of each column."""
    return namespace(S).sum(real(conj(S) * BS), axis=0)


def _norm(X: Array) -> Array:
    return namespace(X).linalg.vector_norm(X, axis=0)


def _or_one(x: Array) -> Array:
    return namespace(x).where(x == 0, 1, x)


def _eps(X: Array) -> float:
    return float(np.finfo(numpy_dtype(X)).eps)


def _dependent(k: int, rank: Any) -> ValueError:
    advice = "Start from random columns; there can be no more of them than rows, less the columns of Y."
    return ValueError(got("X", f"{k} columns linearly independent of each other and of Y", f"rank {int(rank)}", advice))


def _not_finite() -> ValueError:
    return ValueError(got("A, B, M", "products that are finite", "NaN or infinity", "Look at their entries, or at what their functions return."))
