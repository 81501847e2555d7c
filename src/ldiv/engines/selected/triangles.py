"""A = L L^H on the pattern of L: the algebra of its derivatives, one supernode at a time, by NumPy.

    tangent      T(l, e):    T L^H + L T^H = E,  T lower
    cotangent    C(l, y):    its adjoint
    product      Q(x, y):    X Y^H + Y X^H
    restricted   R(g, x):    its adjoint in y, tril(2 G X)

All arguments are vectors of the entries in the places of L, in the order of `Fronts.factor_entries`;
of a Hermitian matrix the lower triangle. Adjoints are those of vectors, in which an entry off the
diagonal of a Hermitian matrix counts twice. No entry outside of these places is needed: the rows of
a column of L are a clique.
Per supernode with the columns C (c, c) and the rows L21 (r, c) below:

    dC = C half(C^-1 F11 C^-H),  dL21 = (F21 - L21 dC^H) C^-H,  F22 - dL21 L21^H - L21 dL21^H goes up

Reference: Smith, Differentiation of the Cholesky algorithm, J. Comput. Graph. Stat. 4 (1995).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import solve_triangular

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.selected.fronts import Fronts


def tangent(fronts: Fronts, l: HostArray, e: HostArray) -> HostArray:
    """T(l, e)."""
    blocks, result = _triangle(fronts, l), _empty(fronts, l, e)

    def step(s: int, front: HostArray) -> HostArray:
        c, _ = _sizes(fronts, s)
        d, l21 = blocks[s][:c], blocks[s][c:]
        # F11 is Hermitian, and given by its lower triangle
        f11 = np.tril(front[:c, :c], -1)
        f11 = f11 + f11.conj().T + np.diag(front[:c, :c].diagonal().real)
        # dC = C half(C^-1 F11 C^-H)
        dd = d @ _half(_left(d, _left(d, f11).conj().T).conj().T)
        # dL21 = (F21 - L21 dC^H) C^-H
        dl = _left(d, (front[c:, :c] - l21 @ dd.conj().T).conj().T).conj().T
        result[s][:c], result[s][c:] = dd, dl
        # F22 - dL21 L21^H - L21 dL21^H
        product = dl @ l21.conj().T
        return front[c:, c:] - product - product.conj().T

    _leaves_to_roots(fronts, _panels(fronts, e), step)
    return _entries(fronts, result)


def cotangent(fronts: Fronts, l: HostArray, y: HostArray) -> HostArray:
    """C(l, y)."""
    blocks, given, result = _triangle(fronts, l), _panels(fronts, y), _empty(fronts, l, y)

    def step(s: int, w: HostArray) -> HostArray:
        c, m = _sizes(fronts, s)
        d, l21 = blocks[s][:c], blocks[s][c:]
        front = np.empty((m, m), result[s].dtype)
        # K = (Y21 - 2 W L21) C^-1, the cotangent of F21
        k = _right_adjoint(d, given[s][c:] - 2 * w @ l21)
        # C_bar = tril(Y11 - K^H L21), since dL21 has the term -L21 dC^H C^-H
        d_bar = np.tril(given[s][:c] - k.conj().T @ l21)
        # F11_bar is the Hermitian part of C^-H half(C^H C_bar) C^-1
        p = _half(d.conj().T @ d_bar)
        x = _right_adjoint(d, _left_adjoint(d, p))
        # K / 2 for F21, as much for its mirror image
        front[:c, :c], front[c:, :c] = (x + x.conj().T) / 2, k / 2
        front[:c, c:], front[c:, c:] = k.conj().T / 2, w
        result[s][:] = front[:, :c]
        return front

    _roots_to_leaves(fronts, step, result)
    return _doubled(fronts, _entries(fronts, result))


def product(fronts: Fronts, x: HostArray, y: HostArray) -> HostArray:
    """Q(x, y)."""
    one, two, result = _panels(fronts, x), _panels(fronts, y), _empty(fronts, x, y)

    def step(s: int, front: HostArray) -> HostArray:
        c, _ = _sizes(fronts, s)
        # the columns of s add X_s Y_s^H + Y_s X_s^H to the front
        half = one[s] @ two[s].conj().T
        front = front + half + half.conj().T
        result[s][:] = front[:, :c]
        return front[c:, c:]

    _leaves_to_roots(fronts, [np.zeros_like(b) for b in result], step)
    return _entries(fronts, result)


def restricted(fronts: Fronts, g: HostArray, x: HostArray) -> HostArray:
    """R(g, x)."""
    # an entry off the diagonal counts twice in g
    halves = _panels(fronts, _doubled(fronts, g, 0.5))
    blocks, result = _panels(fronts, x), _empty(fronts, g, x)

    def step(s: int, w: HostArray) -> HostArray:
        c, m = _sizes(fronts, s)
        front = np.empty((m, m), result[s].dtype)
        # the front of G, Hermitian: its own columns, and W from the parent
        low, own = halves[s][c:], np.tril(halves[s][:c], -1)
        front[:c, :c] = own + own.conj().T + np.diag(halves[s][:c].diagonal().real)
        front[c:, :c], front[:c, c:], front[c:, c:] = low, low.conj().T, w
        # 2 G X in the columns of s
        result[s][:] = 2 * front @ blocks[s]
        return front

    _roots_to_leaves(fronts, step, result)
    return _entries(fronts, result)


# -- the tree -------------------------------------------------------------------------------------


def _leaves_to_roots(
    fronts: Fronts, panels: list[HostArray], step: Callable[[int, HostArray], HostArray]
) -> None:
    """step(s, front) = what goes to the front of the parent, from the leaves to the roots."""
    waiting: list[list[tuple[HostArray, HostArray]]] = [[] for _ in range(fronts.count)]
    for s, parent in enumerate(fronts.parent.tolist()):
        c, m = _sizes(fronts, s)
        front = np.zeros((m, m), panels[s].dtype)
        front[:, :c] = panels[s]
        for to, update in waiting[s]:
            front[to[:, None], to] += update
        waiting[s] = []
        update = step(s, front)
        if parent >= 0:
            waiting[parent].append((_relative(fronts, s), update))


def _roots_to_leaves(
    fronts: Fronts, step: Callable[[int, HostArray], HostArray], like: list[HostArray]
) -> None:
    """step(s, W) = the front of s, W its part below, from the front of the parent."""
    kept: list[HostArray | None] = [None] * fronts.count
    children = np.bincount(fronts.parent[fronts.parent >= 0], minlength=fronts.count).tolist()
    for s in range(fronts.count - 1, -1, -1):
        c, m = _sizes(fronts, s)
        parent, w = int(fronts.parent[s]), np.zeros((m - c, m - c), like[s].dtype)
        if parent >= 0:
            of_parent, to = kept[parent], _relative(fronts, s)
            assert of_parent is not None
            # W: the rows below s in the front of the parent
            w = of_parent[to[:, None], to]
            # a front is dropped after its last child
            children[parent] -= 1
            if not children[parent]:
                kept[parent] = None
        front = step(s, w)
        if children[s]:
            kept[s] = front


def _sizes(fronts: Fronts, s: int) -> tuple[int, int]:
    """(c, c + r)."""
    width = int(fronts.width[s])
    return width, width + int(fronts.below[s])


def _relative(fronts: Fronts, s: int) -> HostArray:
    return fronts.relative[slice(*fronts.row_starts[s : s + 2].tolist())]


# -- panels and vectors of entries ----------------------------------------------------------------


def _panels(fronts: Fronts, x: HostArray) -> list[HostArray]:
    """The columns of each supernode, zeros above the diagonal."""
    flat = np.zeros(fronts.entries, x.dtype)
    flat[fronts.factor_entries[0]] = x
    return list(_split(fronts, flat))


def _triangle(fronts: Fronts, l: HostArray) -> list[HostArray]:
    """The panels of L, whose diagonal is real."""
    _, rows, cols = fronts.factor_entries
    return _panels(fronts, np.where(rows == cols, l.real, l))


def _empty(fronts: Fronts, *like: HostArray) -> list[HostArray]:
    return list(_split(fronts, np.zeros(fronts.entries, np.result_type(*like))))


def _split(fronts: Fronts, flat: HostArray) -> Iterator[HostArray]:
    starts = fronts.panel_starts.tolist()
    for s in range(fronts.count):
        c, m = _sizes(fronts, s)
        yield flat[starts[s] : starts[s + 1]].reshape((m, c), order="F")


def _entries(fronts: Fronts, panels: list[HostArray]) -> HostArray:
    flat = np.concatenate([p.ravel(order="F") for p in panels])
    return flat[fronts.factor_entries[0]]


def _doubled(fronts: Fronts, x: HostArray, by: float = 2.0) -> HostArray:
    _, rows, cols = fronts.factor_entries
    return np.where(rows == cols, x, by * x)


# -- triangles ------------------------------------------------------------------------------------


def _half(x: HostArray) -> HostArray:
    """tril(X) with half of the diagonal, which is real."""
    return np.tril(x, -1) + np.diag(x.diagonal().real / 2)


def _left(d: HostArray, x: HostArray) -> HostArray:
    """D^-1 X."""
    return solve_triangular(d, x, lower=True, check_finite=False) if x.size else x


def _left_adjoint(d: HostArray, x: HostArray) -> HostArray:
    """D^-H X."""
    return solve_triangular(d, x, lower=True, trans="C", check_finite=False) if x.size else x


def _right_adjoint(d: HostArray, x: HostArray) -> HostArray:
    """X D^-1."""
    return _left_adjoint(d, x.conj().T).conj().T
