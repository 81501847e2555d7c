"""A = L L^T, supernode by supernode, in compiled code; solves with L and L^T.

    L11 L11^T = F11,  L21 = F21 L11^-T,  F22 -= L21 L21^T

Right-looking: what a supernode subtracts from F22 is added to the panels of its ancestors at once.
A row keeps its position in the front of the parent, of the parent's parent, and so on: following
`relative` up the tree finds the place of every number, without fronts of their own.
Reference: Ng and Peyton, SIAM J. Sci. Comput. 14 (1993).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.engines.selected import blas
from ldiv.engines.selected.compiled import jit

Array = np.ndarray[Any, np.dtype[Any]]

NARROW = 4  # columns up to which loops are faster than BLAS
SHORT = 6  # rows


@jit
def ascend(
    tree: tuple[Array, ...], s: int, panels: Array, block: Array, index: Array, up: bool
) -> None:
    """Add the lower triangle of `block` to the panels of the ancestors of s, or read it from them.

    `block` (r, r) belongs to the rows below s. `tree`: starts, row_starts, panel_starts, above and
    relative of the fronts.
    """
    starts, row_starts, panel_starts, above, relative = tree
    first = row_starts[s]
    r = row_starts[s + 1] - first
    for i in range(r):
        index[i] = relative[first + i]
    parent = above[s]
    begin = 0
    while begin < r:
        width = starts[parent + 1] - starts[parent]
        height = width + row_starts[parent + 1] - row_starts[parent]
        end = begin
        while end < r and index[end] < width:  # these rows are columns of this ancestor
            end += 1
        for j in range(begin, end):
            column, own = panel_starts[parent] + index[j] * height, j * r
            if up:
                for i in range(j, r):
                    panels[column + index[i]] += block[own + i]
            else:
                for i in range(j, r):
                    block[own + i] = panels[column + index[i]]
        rest = row_starts[parent] - width
        for i in range(end, r):
            index[i] = relative[rest + index[i]]
        begin = end
        parent = above[parent]


@jit
def factor(tree: tuple[Array, ...], panels: Array, block: Array, index: Array, w: Any) -> int:
    """L in place of A, both in `panels`; -1, or a supernode that is not positive definite."""
    starts, row_starts, panel_starts, above, _ = tree
    for s in range(len(above)):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        m = c + r
        if c <= NARROW:
            for j in range(c):
                column = a + j * m
                for k in range(j):
                    before = a + k * m
                    factor_jk = panels[before + j]
                    for i in range(j, m):
                        panels[column + i] -= factor_jk * panels[before + i]
                pivot = panels[column + j]
                if not pivot > 0:
                    return s
                root = np.sqrt(pivot)
                panels[column + j] = root
                for i in range(j + 1, m):
                    panels[column + i] /= root
        else:
            if blas.potrf(w, c, blas.at(panels, a), m) != 0:
                return s
            if r > 0:
                blas.right_solve(w, r, c, blas.at(panels, a), m, blas.at(panels, a + c), m, True)
        if r == 0:
            continue
        if c <= 2 or r <= SHORT:
            for j in range(r):
                for i in range(j, r):
                    block[j * r + i] = 0
                for k in range(c):
                    column = a + k * m + c
                    factor_jk = panels[column + j]
                    for i in range(j, r):
                        block[j * r + i] -= factor_jk * panels[column + i]
        else:
            blas.square(w, r, c, blas.at(panels, a + c), m, blas.at(block, 0), r)
        ascend(tree, s, panels, block, index, True)
    return -1


@jit
def solve(
    tree: tuple[Array, ...], rows: Array, panels: Array, b: Array, k: int, block: Array, w: Any
) -> None:
    """L^-T L^-1 B in place of B (n, k), stored by columns; `rows` are those below the supernodes.

    `block` is scratch for the rows below one supernode, k columns of them.
    """
    starts, row_starts, panel_starts, above, _ = tree
    n = starts[-1]
    for s in range(len(above)):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        m, first, below = c + r, starts[s], row_starts[s]
        block[: r * k] = 0
        if c <= NARROW:
            for q in range(k):
                x = q * n + first
                for j in range(c):
                    column = a + j * m
                    b[x + j] /= panels[column + j]
                    factor_j = b[x + j]
                    for i in range(j + 1, c):
                        b[x + i] -= panels[column + i] * factor_j
                    for i in range(r):
                        block[q * r + i] -= panels[column + c + i] * factor_j
        else:
            at, here = blas.at(panels, a), blas.at(b, first)
            blas.left_solve(w, c, k, at, m, here, n, False)
            if r > 0:
                below_at = blas.at(panels, a + c)
                blas.times(w, False, r, k, c, below_at, m, here, n, blas.at(block, 0), r)
        for q in range(k):
            for i in range(r):
                b[q * n + rows[below + i]] += block[q * r + i]
    for s in range(len(above) - 1, -1, -1):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        m, first, below = c + r, starts[s], row_starts[s]
        for q in range(k):
            for i in range(r):
                block[q * r + i] = b[q * n + rows[below + i]]
        if c <= NARROW:
            for q in range(k):
                x = q * n + first
                for j in range(c - 1, -1, -1):
                    column = a + j * m
                    total = b[x + j]
                    for i in range(r):
                        total -= panels[column + c + i] * block[q * r + i]
                    for i in range(j + 1, c):
                        total -= panels[column + i] * b[x + i]
                    b[x + j] = total / panels[column + j]
        else:
            at, here = blas.at(panels, a), blas.at(b, first)
            if r > 0:
                below_at = blas.at(panels, a + c)
                blas.times(w, True, c, k, r, below_at, m, blas.at(block, 0), r, here, n)
            blas.left_solve(w, c, k, at, m, here, n, True)
