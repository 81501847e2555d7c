"""GMRES: any square matrix; minimizes the residual over x_0 + M span(r, A M r, ...), restarted.

    A M V_j = V_{j+1} H,   y = argmin |beta e_1 - H y|,   x = x_0 + M V_j y
A call of `step` is a whole cycle of `restart` products. Within it the residual norm is beta / |u|
with u^H H = 0, u_0 = 1: a recurrence, without least-squares problems. V is
(*batch, k, length + 1, n), basis vectors in rows, and H is (*batch, k, length + 1, length).
Cost of a cycle: `restart` products with A, one more with M, 2 restart^2 vectors; memory for
restart + 1 blocks.
Reference: Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986), from the right; Ayachour, J.
Comput. Appl. Math. 159 (2003).
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import alike, conj, put, transpose, writable
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.looks import decided, is_pending
from ldiv.engines.iterative.krylov import BETWEEN_LOOKS, KrylovTask, State, norm, quotient

Inner = tuple[int, Array, Array, Array, Array]
RANK = 90


def cycle(restart: int, n: int) -> int:
    """The number of products per step."""
    return min(restart, n)


def start(task: KrylovTask, x: Array, r: Array) -> State:
    return x, norm(r), r


def step(task: KrylovTask, state: State) -> State:
    x, beta, r = state
    xp, m = namespace(x), cycle(task.restart, x.shape[-2])
    beta, wanted = beta[..., 0, :], task.wanted[..., 0, :]
    # v_1 = r / |r|
    first = transpose(quotient(r, norm(r)))
    zeros = xp.zeros((*beta.shape, m + 1, first.shape[-1] + m + 1), **alike(x))
    # V, H and u share one array of zeros, so that a loop carries their shapes
    V, H, u = zeros[..., : first.shape[-1]], zeros[..., first.shape[-1] : -1], zeros[..., -1]
    V, u = put(V, (..., 0, slice(None)), first), put(u, (..., 0), 1)

    def grows(state: Inner) -> Any:
        # the residual norm after j products is beta / |u|
        j, _, _, u, length = state
        return (j < m) & ((length > 0) & (beta > xp.linalg.vector_norm(u, axis=-1) * wanted)).any()

    def grow(state: Inner) -> Inner:
        j, V, H, u, _ = state
        # Arnoldi: one product, orthogonalized against the basis
        h, w = _orthogonalized(_filled(V, j), transpose(task.A(task.M(transpose(V[..., j, :])))))
        length = xp.linalg.vector_norm(w, axis=-1)
        V = put(V, (..., j + 1, slice(None)), quotient(w, length[..., None]))
        H = put(put(H, (..., slice(h.shape[-1]), j), h), (..., j + 1, j), length)
        # extend u by u^H H = 0, column j of H
        along = xp.sum(u[..., : h.shape[-1]] * conj(h), axis=-1)
        return j + 1, V, H, put(u, (..., j + 1), -quotient(along, length)), length

    inner: Inner = (0, V, H, u, xp.ones_like(beta))
    if is_pending(beta):  # products that are too many only make the residual smaller
        while (j := inner[0]) < m and (j == 0 or decided(grows(inner))):
            for _ in range(min(max(j, task.between_looks), BETWEEN_LOOKS, m - j)):
                inner = grow(inner)
    else:
        inner = frontend_of(x).loop(grows, grow, inner)
    _, V, H, _, _ = inner
    # y = argmin |beta e_1 - H y|,  rho = beta e_1 - H y
    y, rho = _least(H, beta)
    # x <- x + M V_m y,  r = V_(m+1) rho
    x = x + task.M(_combined(V[..., :m, :], y))
    r = _combined(V, rho)
    return x, norm(r), r


def _filled(V: Array, j: int) -> Array:
    """The basis so far; padded with zeros where every new shape would be compiled."""
    return V[..., : j + 1, :] if writable(V) else V


def _orthogonalized(V: Array, w: Array) -> tuple[Array, Array]:
    """(V^H w, w - V V^H w) for vectors in rows; twice is enough (Kahan)."""
    xp, w = namespace(w), w[..., None]
    total: Any = 0
    for _ in range(2):
        # h = V^H w,  w <- w - V h; V has its vectors in rows
        h = conj(xp.matmul(V, conj(w)))
        w, total = w - xp.matmul(transpose(V), h), total + h
    return total[..., 0], w[..., 0]


def _combined(V: Array, y: Array) -> Array:
    """sum of y_j v_j, (*batch, n, k)."""
    return transpose(namespace(V).matmul(transpose(V), y)[..., 0])


def _least(H: Array, beta: Array) -> tuple[Array, Array]:
    """(y, beta e_1 - H y) for the y with the least residual, each (*batch, k, *, 1)."""
    xp, (rows, columns) = namespace(H), H.shape[-2:]
    # Columns after the residual vanished are zero: a one below the diagonal keeps R
    # nonsingular, and makes their y zero.
    unused = (xp.max(xp.abs(H), axis=-2, keepdims=True) == 0) & (
        xp.eye(rows, columns, k=-1, **alike(beta)) != 0
    )
    H = xp.where(unused, xp.ones_like(H), H)
    q, r = frontend_of(H).dense.qr(H)
    # R y = Q^H beta e_1 = beta conj(row 0 of Q)
    y = frontend_of(H).dense.solve_triangular(
        r, conj(q[..., 0, :])[..., None] * beta[..., None, None], False
    )
    first = xp.eye(rows, 1, **alike(beta))
    return y, first * beta[..., None, None] - xp.matmul(H, y)
