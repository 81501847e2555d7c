"""Y - op(T) Y op(W) = F for upper triangular T and W.

The larger of the two is split in the middle, as in `triangular_sylvester`; small blocks are solved
column by column.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.structure import view_dense
from ldiv.engines.functions.triangular_sylvester import solve_by_halves

SMALL = 32


def triangular_stein(t: HostArray, w: HostArray, f: HostArray, ops: str) -> HostArray:
    """Y; `ops` are those of T and W, each N or H."""
    y = np.array(f, np.result_type(t, w, f), order="F")
    trtrs = get_lapack_funcs("trtrs", (t, y))

    def columns(t: HostArray, w: HostArray, y: HostArray) -> None:
        """(I - w_jj op(T)) y_j = f_j + op(T) times the columns known, combined as op(W) says."""
        (n, m), (t, w) = y.shape, (view_dense(x, op) for x, op in zip((t, w), ops, strict=True))
        identity, lower = np.eye(n, dtype=y.dtype), ops[0] == "H"
        order = list(range(m) if ops[1] == "N" else reversed(range(m)))
        # the order in which op(W) couples columns: it is upper for N, lower for H
        for at, j in enumerate(order):
            earlier = order[:at]
            right = y[:, j] + t @ (y[:, earlier] @ w[earlier, j])
            y[:, j] = trtrs(np.asfortranarray(identity - w[j, j] * t), right, lower=lower)[0]

    def term(corner: HostArray, other: HostArray, y: HostArray, by_rows: bool) -> HostArray:
        # the coupling term on the left side, - op(T) Y op(W)
        if by_rows:
            return -(corner @ (y @ view_dense(other, ops[1])))
        return -(view_dense(other, ops[0]) @ (y @ corner))

    solve_by_halves(t, w, y, ops, SMALL, columns, term)
    return y
