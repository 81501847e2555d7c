"""B <- op(T)^-1 B in the memory of B.

BLAS expects matrices stored by columns. A matrix stored by rows is its transpose stored by columns:
B is then solved from the right, B^T op(T)^-T, and T is the other triangle of A^T. A conjugate is
moved to B, conj(T)^-1 B = conj(T^-1 conj(B)).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.buffers import Buffer
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.core.rules.structure import VIEWS, view_dense
from ldiv.inplace.workspace import Workspace, conjugate


def trsm(workspace: Workspace, a: Buffer, b: Buffer, lower: bool, op: str, unit: bool) -> None:
    """Solve in place, by BLAS for NumPy arrays, else by the framework's kernel and a copy."""
    transposed, conjugated = VIEWS[op]
    if not isinstance(b, np.ndarray):
        b[...] = frontend_of(b).dense.solve_triangular(
            view_dense(a, op), b, bool(lower) != transposed, unit
        )
    elif b.size:
        for i in np.ndindex(*b.shape[:-2]):
            with ExitStack() as stack:
                x = (
                    b[i]
                    if _ordered(b[i])
                    else stack.enter_context(workspace.scratch(b, b[i].shape))
                )
                t = (
                    a[i]
                    if _ordered(a[i])
                    else stack.enter_context(workspace.scratch(a, a[i].shape))
                )
                _copied(x, b[i])
                _copied(t, a[i])
                _by_columns(t, x, lower, transposed, conjugated, unit)
                _copied(b[i], x)


def _copied(to: Any, x: Any) -> None:
    if to.ctypes.data != x.ctypes.data:
        to[...] = x


def _ordered(x: Any) -> bool:
    return bool(x.flags.c_contiguous or x.flags.f_contiguous)


def _by_columns(
    t: Any, x: Any, lower: bool, transposed: bool, conjugated: bool, unit: bool
) -> None:
    right = not x.flags.f_contiguous
    by_rows = not t.flags.f_contiguous
    solve = scipy.linalg.get_blas_funcs("trsm", (t, x))
    if conjugated:
        conjugate(x)
    t, lower, transposed = (t.T, not lower, not transposed) if by_rows else (t, lower, transposed)
    solve(
        1.0,
        t,
        x.T if right else x,
        side=right,
        lower=lower,
        trans_a=transposed != right,
        diag=unit,
        overwrite_b=True,
    )
    if conjugated:
        conjugate(x)
