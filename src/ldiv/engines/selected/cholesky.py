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
def solve(tree: tuple[Array, ...], rows: Array, panels: Array, b: Array) -> None:
    """L^-T L^-1 b in place of b (n, k), stored by rows; `rows` are those below the supernodes."""
    starts, row_starts, panel_starts, above, _ = tree
    k = b.shape[1]
    for s in range(len(above)):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        first, below = starts[s], row_starts[s]
        for j in range(c):
            column = a + j * (c + r)
            for q in range(k):
                b[first + j, q] /= panels[column + j]
            for i in range(j + 1, c):
                for q in range(k):
                    b[first + i, q] -= panels[column + i] * b[first + j, q]
            for i in range(r):
                for q in range(k):
                    b[rows[below + i], q] -= panels[column + c + i] * b[first + j, q]
    for s in range(len(above) - 1, -1, -1):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        first, below = starts[s], row_starts[s]
        for j in range(c - 1, -1, -1):
            column = a + j * (c + r)
            for i in range(r):
                for q in range(k):
                    b[first + j, q] -= panels[column + c + i] * b[rows[below + i], q]
            for i in range(j + 1, c):
                for q in range(k):
                    b[first + j, q] -= panels[column + i] * b[first + i, q]
            for q in range(k):
                b[first + j, q] /= panels[column + j]
