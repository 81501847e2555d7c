"""S = A_kk - A_kr A_rr^-1 A_rk, for the unknowns k that are kept and the rest r."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import take, transpose
from ldiv.core.arrays.typing import AnyArray, Assumption
from ldiv.core.arrays.validate import require_square
from ldiv.core.calls.public import public
from ldiv.errors import shown, type_error, value_error
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.matrix import MatrixLike, as_matrix
from ldiv.structures.dense import Dense


@public
def schur_complement(A: MatrixLike, keep: AnyArray, *, assume_a: Assumption = "gen") -> AnyArray:
    """Eliminate unknowns of a linear system, differentiably.

        S = A_kk - A_kr A_rr^-1 A_rk

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray, or a matrix whose entries are stored
        The matrix.
    keep : array of m integers, or of n booleans
        The unknowns k that are kept, in the order of the rows of S; r are the others. Constants.
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        What holds for A_rr, as in `solve`.

    Returns
    -------
    S : array (*batch, m, m)
        The Schur complement, dense.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError
        For A_rr, as `solve`.
    ValueError
        For shapes, and for unknowns that do not exist or are named twice.
    TypeError
        For mixed frameworks, and for matrices whose entries are not stored.

    Notes
    -----
    Differentiable in A in every mode and order; A_bar is on the pattern of A.
    Cost: 1 factorization of A_rr, and m solves with it; a derivative m solves more.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.full(3, 2.0), -np.ones(2), -np.ones(2)], offsets=[0, 1, -1])
    >>> ldiv.schur_complement(A, [0, 2])
    array([[ 1.5, -0.5],
           [-0.5,  1.5]])
    """
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    n = matrix.structure.shape[0]
    k = _unknowns(keep, n)
    r = np.setdiff1d(np.arange(n), k)
    if isinstance(matrix.structure, Dense):
        order, m = np.concatenate([k, r]), len(k)
        a: Any = take(transpose(take(transpose(matrix.params), order)), order)
        kk, kr, rk, rr = a[..., :m, :m], a[..., :m, m:], a[..., m:, :m], a[..., m:, m:]
        return kk - kr @ solve(rr, rk, assume_a=assume_a) if len(r) else kk
    whole: Any = matrix.tosparse().tocsr()
    kk, kr, rk, rr = (whole[i][:, j] for i in (k, r) for j in (k, r))
    if not len(r):
        return kk.toarray()
    return kk.toarray() - kr @ solve(rr, rk.toarray(), assume_a=assume_a)


def _unknowns(keep: Any, n: int) -> np.ndarray[Any, Any]:
    """The kept unknowns as integers, each of which exists and is named once."""
    try:
        k = np.asarray(keep)
    except Exception as error:
        raise type_error(
            "keep", "integers or booleans, constants", shown(keep), "Pass a list."
        ) from error
    if k.ndim == 1 and k.size == 0:
        k = k.astype(int)
    if k.ndim != 1 or k.dtype.kind not in "iub" or (k.dtype.kind == "b" and len(k) != n):
        what = f"a row of integers, or {n} booleans"
        came = f"shape {k.shape} of {k.dtype}"
        raise value_error("keep", what, came, "Name the unknowns that stay.")
    k = np.flatnonzero(k) if k.dtype.kind == "b" else k.astype(np.int64)
    inside = (k >= -n) & (k < n)
    if not inside.all() or len(np.unique(k % max(n, 1))) < len(k):
        advice = "Each is named once."
        raise value_error("keep", f"different unknowns below {n}", shown(keep), advice)
    return k % max(n, 1)
