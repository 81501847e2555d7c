"""A = P L U under SciPy's names: functions that validate and call the rule."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any, Literal, overload

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, real, spread
from ldiv.core.arrays.typing import AnyArray, ArrayT, Trans
from ldiv.core.arrays.validate import (
    as_integers,
    require_flag,
    require_pair,
    together,
    transposition,
)
from ldiv.core.calls.call import plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import VIEWS
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array, require_system
from ldiv.rules.lu import LU, rows
from ldiv.rules.row_order import row_order
from ldiv.rules.triangular_quotients import eye, left_solve, lower, upper

FACTORIZED = "ldiv.factorized(A), SciPy's splu, holds sparse factors."


@public
@planned
def lu_factor(
    a: ArrayT, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[ArrayT, ArrayT]:
    """Factor a matrix by Gaussian elimination with partial pivoting, differentiably.

        A = P L U,    L unit lower triangular, U upper triangular, packed in one array

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix: square, tall or wide.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    lu : array (*batch, m, n)
        L below the diagonal, U on and above it.
    piv : array of integers (*batch, min(m, n))
        The exchanges of rows, counted from 0, as in SciPy.

    Raises
    ------
    NotDifferentiableError
        In the derivative, for a zero pivot before the last, or of a tall matrix for any.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    A zero pivot is no error here; `lu_factor_ex` says where it is.
    Differentiable in a in every mode and order, not in piv, which is constant near A; also where
    the last pivot is exactly zero.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 1 product.

    References
    ----------
    de Hoog, Anderssen and Lukas (2011); Golub and Van Loan, section 3.4.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> lu, piv = ldiv.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> lu, piv
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1], dtype=int32))
    """
    return plan(LU(), [require_matrix_array("a", a, instead=FACTORIZED)], itemgetter(0, 1))


@public
def lu_factor_ex(a: ArrayT) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Factor a matrix as `lu_factor` does, and say which pivot is the first that is exactly zero.

        info = min {i : U_ii = 0}, counted from 1 as in LAPACK, or 0 where there is none

    Parameters
    ----------
    a : array (*batch, m, n)
        As in `lu_factor`.

    Returns
    -------
    lu, piv : array
        As `lu_factor` returns them.
    info : array of integers (*batch,)
        0, or the number of that pivot.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `lu_factor`.

    Notes
    -----
    Differentiable as `lu_factor` is; info is constant.
    Cost: that of `lu_factor`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> int(ldiv.lu_factor_ex(np.ones((2, 2)))[2])
    2
    """
    packed, exchanges = lu_factor(a)
    return packed, exchanges, _first_zero_pivot(packed, exchanges)


def _first_zero_pivot(packed: Any, exchanges: Any) -> Any:
    """Return the number of the first zero pivot, counted from 1; 0 if there is none."""
    xp, k = namespace(packed), exchanges.shape[-1]
    if not k:
        return xp.sum(exchanges, axis=-1)
    number = 0 * exchanges + xp.arange(1, k + 1, **alike(exchanges))
    # the first zero is the one with the most pivots from it to the end
    remaining = xp.where(xp.linalg.diagonal(packed) == 0, k + 1 - number, 0 * number)
    most = xp.max(remaining, axis=-1)
    return xp.where(most > 0, k + 1 - most, 0 * most)


@overload
def lu(
    a: ArrayT,
    permute_l: Literal[False] = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
    *,
    pivot: bool = True,
) -> tuple[ArrayT, ArrayT, ArrayT]: ...
@overload
def lu(
    a: ArrayT,
    permute_l: Literal[True],
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
    *,
    pivot: bool = True,
) -> tuple[ArrayT, ArrayT]: ...
@public
def lu(
    a: ArrayT,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
    *,
    pivot: bool = True,
) -> tuple[ArrayT, ArrayT, ArrayT] | tuple[ArrayT, ArrayT]:
    """Factor a matrix into a permutation, a lower and an upper triangle, differentiably.

        A = P L U,    k = min(m, n)

    Parameters
    ----------
    a : array (*batch, m, n)
        As in `lu_factor`.
    permute_l : bool, default False
        Return P L and U.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    p_indices : bool, default False
        Return the permutation as indices p: A = L[p] U.
    pivot : bool, default True
        Exchange rows, so that no multiplier is above 1. Without, P is the identity, and L and U are
        those of A as it is, which not every regular matrix has.

    Returns
    -------
    P : array (*batch, m, m), or of integers (*batch, m)
        The permutation, of NumPy arrays a matrix of real numbers; not with permute_l.
    L : array (*batch, m, k)
        Unit lower triangular.
    U : array (*batch, k, n)
        Upper triangular.

    Raises
    ------
    EngineError
        With pivot=False for a pivot that is 0, or so small that half of the digits are lost.
    NotDifferentiableError, ValueError, TypeError
        As in `lu_factor`.

    Notes
    -----
    Differentiable as `lu_factor` is; P is constant near A.
    Cost: that of `lu_factor`; with pivot=False on the host, at a few times its price.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> P, L, U = ldiv.lu(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> P @ L @ U
    array([[1., 2.],
           [4., 4.]])
    """
    rule = LU(require_flag("pivot", pivot))
    packed, _, order = bind(rule, require_matrix_array("a", a, instead=FACTORIZED))
    (m, n), xp = packed.shape[-2:], namespace(packed)
    k = min(m, n)
    unit = eye(packed, m)
    # A[order] = L U: P is the identity, its rows in the inverse order
    inverse = xp.argsort(order, axis=-1)
    L, U = xp.tril(packed[..., :k], k=-1) + unit[:, :k], xp.triu(packed[..., :k, :])
    if require_flag("permute_l", permute_l):
        return rows(L, inverse), U
    if require_flag("p_indices", p_indices):
        return inverse, L, U
    one = real(unit) if isinstance(unit, np.ndarray) else unit  # PyTorch multiplies one dtype only
    return rows(xp.broadcast_to(one, (*batch_of(packed, 2), m, m)), inverse), L, U


@public
def lu_solve(
    lu_and_piv: tuple[AnyArray, AnyArray],
    b: ArrayT,
    trans: Trans = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> ArrayT:
    """Solve a linear system with the result of `lu_factor`, differentiably.

        op(A) x = b,    op = N, T or H (0, 1 or 2)

    Parameters
    ----------
    lu_and_piv : pair of arrays (*batch, n, n) and (*batch, n)
        What `lu_factor` returns for a square matrix.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    trans : {0, 1, 2} or {"N", "T", "H"}, default 0
        As in `solve`.
    overwrite_b, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes broadcast.

    Raises
    ------
    SingularMatrixError
        For a zero pivot. `solve` says more about a matrix that is nearly singular.
    ValueError, TypeError
        As in `solve`.

    Notes
    -----
    Differentiable in lu and b in every mode and order; the cotangent of lu is that of its two
    triangles.
    Cost: 2 triangular solves; each direction of a derivative the same.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.lu_solve(ldiv.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]])), np.array([3.0, 8.0]))
    array([1., 1.])
    """
    packed, exchanges = require_pair("lu_and_piv", "(lu, piv)", lu_and_piv)
    op = transposition(trans)
    packed, block, vector = require_system("lu", packed, b)
    n = packed.shape[-1]
    exchanges = as_integers("piv", exchanges, "Pass what lu_factor returned.", packed)
    together("piv", exchanges, packed)
    if tuple(exchanges.shape) != (*batch_of(packed, 2), n):
        what = f"shape {(*batch_of(packed, 2), n)}"
        raise value_error("piv", what, tuple(exchanges.shape), "Pass what lu_factor returned.")
    x = as_one_node(partial(_solve, op), packed, exchanges, block)
    return x[..., 0] if vector else x


def _solve(op: str, packed: Array, exchanges: Array, block: Array) -> Array:
    """op(A)^-1 b."""
    n, batch = packed.shape[-1], broadcast(batch_of(packed, 2), batch_of(block, 2))
    xp = namespace(packed)
    order = xp.broadcast_to(row_order(exchanges, n), (*batch, n))
    (L, p), (U, q) = lower(packed, unit=True), upper(packed)
    block = spread(block, batch)
    if VIEWS[op][0]:  # A[order] = L U, so that op(U) op(L) x[order] = b
        y = left_solve(L.view(op), p, left_solve(U.view(op), q, block))
        return rows(y, xp.argsort(order, axis=-1))
    # L U x = b[order]
    return left_solve(U, q, left_solve(L, p, rows(block, order)))
