"""Y - op(T) Y op(W) = F for upper triangular T and W.

The larger of the two is split in the middle, as in `triangular_sylvester`; small blocks are solved
column by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.structure import view_dense
from ldiv.engines.functions.triangular_sylvester import middle

SMALL = 32


def triangular_stein(t: HostArray, w: HostArray, f: HostArray, ops: str) -> HostArray:
    """Y; `ops` are those of T and W, each N or H."""
    y = np.array(f, np.result_type(t, w, f), order="F")
    _solve(t, w, y, ops, get_lapack_funcs("trtrs", (t, y)))
    return y


def _solve(t: HostArray, w: HostArray, y: HostArray, ops: str, trtrs: Any) -> None:
    """Replace F, which is in y, by Y."""
    n, m = y.shape
    if max(n, m) <= SMALL:
        _columns(t, w, y, ops, trtrs)
    elif n >= m:
        i = middle(t)
        blocks = [(t[:i, :i], y[:i]), (t[i:, i:], y[i:])]
        if ops[0] == "N":  # the last rows stand alone
            blocks.reverse()
        (one, y_one), (two, y_two) = blocks
        _solve(one, w, y_one, ops, trtrs)
        y_two += view_dense(t[:i, i:], ops[0]) @ (y_one @ view_dense(w, ops[1]))
        _solve(two, w, y_two, ops, trtrs)
    else:
        i = middle(w)
        blocks = [(w[:i, :i], y[:, :i]), (w[i:, i:], y[:, i:])]
        if ops[1] == "H":  # the last columns stand alone
            blocks.reverse()
        (one, y_one), (two, y_two) = blocks
        _solve(t, one, y_one, ops, trtrs)
        y_two += view_dense(t, ops[0]) @ (y_one @ view_dense(w[:i, i:], ops[1]))
        _solve(t, two, y_two, ops, trtrs)


def _columns(t: HostArray, w: HostArray, y: HostArray, ops: str, trtrs: Any) -> None:
    """(I - w_jj op(T)) y_j = f_j + op(T) times the columns known, combined as op(W) says."""
    (n, m), (t, w) = y.shape, (view_dense(x, op) for x, op in zip((t, w), ops, strict=True))
    identity, lower = np.eye(n, dtype=y.dtype), ops[0] == "H"
    order = list(range(m) if ops[1] == "N" else reversed(range(m)))
    for at, j in enumerate(order):
        earlier = order[:at]
        right = y[:, j] + t @ (y[:, earlier] @ w[earlier, j])
        y[:, j] = trtrs(np.asfortranarray(identity - w[j, j] * t), right, lower=lower)[0]
