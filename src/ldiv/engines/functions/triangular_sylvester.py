"""op(T) Y + Y op(W) = F for upper triangular T and W, or quasi-triangular ones of real numbers.

LAPACK's xTRSYL takes one vector at a time. So the larger of the two matrices is split in the middle,
which leaves two smaller equations and a product, until the blocks are small.
cost         n m (n + m) operations, nearly all of them in products
reference    Jonsson and Kagstrom, ACM Trans. Math. Softw. 28 (2002)
"""

from __future__ import annotations

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
    _solve(t, w, y, ops, get_lapack_funcs("trsyl", (t, w, y)))
    return y


def _solve(t: HostArray, w: HostArray, y: HostArray, ops: str, trsyl: Any) -> None:
    """Replace F, which is in y, by Y."""
    n, m = y.shape
    if max(n, m) <= SMALL:
        trana, tranb = ("C" if op == "H" else "N" for op in ops)
        found, scale, info = trsyl(t, w, y, trana=trana, tranb=tranb)
        if info:
            raise SingularMatrixError("Bartels-Stewart", "eigenvalues that add up to nothing")
        y[...] = found / scale
    elif n >= m:
        i = middle(t)
        blocks = [(t[:i, :i], y[:i]), (t[i:, i:], y[i:])]
        if ops[0] == "N":  # the last rows stand alone
            blocks.reverse()
        (one, y_one), (two, y_two) = blocks
        _solve(one, w, y_one, ops, trsyl)
        y_two -= view_dense(t[:i, i:], ops[0]) @ y_one
        _solve(two, w, y_two, ops, trsyl)
    else:
        i = middle(w)
        blocks = [(w[:i, :i], y[:, :i]), (w[i:, i:], y[:, i:])]
        if ops[1] == "H":  # the last columns stand alone
            blocks.reverse()
        (one, y_one), (two, y_two) = blocks
        _solve(t, one, y_one, ops, trsyl)
        y_two -= y_one @ view_dense(w[:i, i:], ops[1])
        _solve(t, two, y_two, ops, trsyl)


def middle(t: HostArray) -> int:
    """The row at which to split a (quasi-)triangle, not inside of a block of order 2."""
    i = len(t) // 2
    return i + 1 if t[i, i - 1] != 0 else i
