"""op(T) Y + Y op(W) = F for upper triangular T and W, or quasi-triangular ones of real numbers.

LAPACK's xTRSYL takes one vector at a time. So the larger of the two matrices is split in the middle,
which leaves two smaller equations and a product, until the blocks are small.
cost         n m (n + m) operations, nearly all of them in products
reference    Jonsson and Kagstrom, ACM Trans. Math. Softw. 28 (2002)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.structure import view_dense
from ldiv.errors import SingularMatrixError

SMALL = 64  # order up to which xTRSYL is as fast as a product


def triangular_sylvester(t: HostArray, w: HostArray, f: HostArray, ops: str) -> HostArray:
    """Y; `ops` are those of T and W, each N or H."""
    y = np.array(f, order="F")
    trsyl = get_lapack_funcs("trsyl", (t, w, y))
    trana, tranb = ("C" if op == "H" else "N" for op in ops)

    def small(t: HostArray, w: HostArray, y: HostArray) -> None:
        found, scale, info = trsyl(t, w, y, trana=trana, tranb=tranb)
        if info:
            raise SingularMatrixError("Bartels-Stewart", "eigenvalues that add up to nothing")
        # xTRSYL solves for scale F, so that nothing overflows
        y[...] = found / scale

    def term(corner: HostArray, other: HostArray, y: HostArray, by_rows: bool) -> HostArray:
        return corner @ y if by_rows else y @ corner

    solve_by_halves(t, w, y, ops, SMALL, small, term)
    return y


def solve_by_halves(
    t: HostArray,
    w: HostArray,
    y: HostArray,
    ops: str,
    most: int,
    solve: Callable[[HostArray, HostArray, HostArray], None],
    term: Callable[[HostArray, HostArray, HostArray, bool], HostArray],
) -> None:
    """Replace F, which is in y, by Y, by the larger of T and W in two halves, up to order `most`.

    solve(t, w, y) does the same for small blocks. term(corner, other, y, by_rows) is what the half
    that is known adds to the left side of the other one. Its corner is op of the block that couples
    both, `other` the matrix that is not split.
    """
    n, m = y.shape
    if max(n, m) <= most:
        solve(t, w, y)
        return
    by_rows = n >= m
    split, other, op = (t, w, ops[0]) if by_rows else (w, t, ops[1])
    i = middle(split)
    halves = [slice(None, i), slice(i, None)]
    if (op == "N") == by_rows:  # the last rows of op(T), the first columns of op(W) stand alone
        halves.reverse()
    known: Any = None
    for half in halves:
        own = y[half] if by_rows else y[:, half]
        if known is not None:
            # F of this half, less what the known half adds to the left side
            own -= term(view_dense(split[:i, i:], op), other, known, by_rows)
        # the diagonal block of this half, beside all of the other matrix
        left, right = (split[half, half], w) if by_rows else (t, split[half, half])
        solve_by_halves(left, right, own, ops, most, solve, term)
        known = own


def middle(t: HostArray) -> int:
    """The row at which to split a (quasi-)triangle, not inside of a block of order 2."""
    i = len(t) // 2
    return i + 1 if t[i, i - 1] != 0 else i
