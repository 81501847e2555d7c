"""Factors of dense matrices under SciPy's names: functions that validate and call rules."""

from __future__ import annotations

from typing import Any, Literal, overload

from ldiv.core.arrays import adjoint, batch_of, broadcast, spread
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS
from ldiv.core.trees import Array
from ldiv.core.typing import AnyArray, ArrayT, Trans
from ldiv.core.validate import (
    as_block,
    common_precision,
    require_batches,
    require_flag,
    require_float,
    require_integers,
    require_option,
    require_pair,
    require_square,
    together,
    transposition,
)
from ldiv.errors import expected_got
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.ldl import LDL
from ldiv.rules.lu import LU, rows
from ldiv.rules.qr import QR
from ldiv.rules.row_order import row_order
from ldiv.rules.triangular_quotients import eye, left_solve
from ldiv.rules.triangular_quotients import lower as lower_triangle
from ldiv.rules.triangular_quotients import upper as upper_triangle


@public
def lu_factor(a: ArrayT) -> tuple[ArrayT, ArrayT]:
    """Factor a matrix by Gaussian elimination with partial pivoting, differentiably.

        A = P L U,    L unit lower triangular, U upper triangular, packed in one array

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix: square, tall or wide.

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
    packed, exchanges, _ = bind(LU(), _matrix("a", a))
    return packed, exchanges


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


def _first_zero_pivot(packed: Array, exchanges: Array) -> Array:
    """Its number, counted from 1, or 0 where no pivot is zero."""
    xp, k = namespace(packed), exchanges.shape[-1]
    if not k:
        return xp.sum(exchanges, axis=-1)
    number = xp.cumulative_sum(0 * exchanges + 1, axis=-1)
    # the first zero is the one with the most pivots from it to the end
    remaining = xp.where(xp.linalg.diagonal(packed) == 0, k + 1 - number, 0 * number)
    most = xp.max(remaining, axis=-1)
    return xp.where(most > 0, k + 1 - most, 0 * most)


@public
def lu(a: ArrayT) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Factor a matrix into a permutation, a lower and an upper triangle, differentiably.

        A = P L U,    k = min(m, n)

    Parameters
    ----------
    a : array (*batch, m, n)
        As in `lu_factor`.

    Returns
    -------
    P : array (*batch, m, m)
        The permutation matrix.
    L : array (*batch, m, k)
        Unit lower triangular.
    U : array (*batch, k, n)
        Upper triangular.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `lu_factor`.

    Notes
    -----
    Differentiable as `lu_factor` is; P is constant near A.
    Cost: that of `lu_factor`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> P, L, U = ldiv.lu(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> P @ L @ U
    array([[1., 2.],
           [4., 4.]])
    """
    packed, _, order = bind(LU(), _matrix("a", a))
    (m, n), xp = packed.shape[-2:], namespace(packed)
    k = min(m, n)
    unit = eye(packed, m)
    # A[order] = L U: P is the identity, its rows in the inverse order
    inverse = xp.argsort(order, axis=-1)
    P = rows(xp.broadcast_to(unit, (*batch_of(packed, 2), m, m)), inverse)
    return P, xp.tril(packed[..., :k], k=-1) + unit[:, :k], xp.triu(packed[..., :k, :])


@public
def lu_solve(lu_and_piv: tuple[AnyArray, AnyArray], b: ArrayT, trans: Trans = 0) -> ArrayT:
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
    packed, block, vector = _system("lu", packed, b)
    n = packed.shape[-1]
    require_integers("piv", exchanges, "Pass what lu_factor returned.")
    together("piv", exchanges, packed)
    if tuple(exchanges.shape) != (*batch_of(packed, 2), n):
        raise ValueError(
            expected_got(
                "piv",
                f"shape {(*batch_of(packed, 2), n)}",
                str(tuple(exchanges.shape)),
                "Pass what lu_factor returned.",
            )
        )
    xp, batch = namespace(packed), broadcast(batch_of(packed, 2), batch_of(block, 2))
    order = xp.broadcast_to(row_order(exchanges, n), (*batch, n))
    (L, p), (U, q) = lower_triangle(packed, unit=True), upper_triangle(packed)
    block = spread(block, batch)
    if VIEWS[op][0]:  # A[order] = L U, so that op(U) op(L) x[order] = b
        y = left_solve(L.view(op), p, left_solve(U.view(op), q, block))
        x = rows(y, xp.argsort(order, axis=-1))
    else:  # L U x = b[order]
        x = left_solve(U, q, left_solve(L, p, rows(block, order)))
    return x[..., 0] if vector else x


@public
def cholesky(a: ArrayT, lower: bool = True) -> ArrayT:
    """Factor a Hermitian positive definite matrix, differentiably.

        A = L L^H,    or with lower=False A = R^H R, R = L^H

    Parameters
    ----------
    a : array (*batch, n, n)
        The matrix. Both triangles must be there and agree, and A is read as its Hermitian part, as
        by `solve` with assume_a="pos"; SciPy reads one triangle. A difference of 1e-4 of the
        largest entry, 2e-2 in single precision, is forgiven, for finite differences.
    lower : bool, default True
        Return L, as NumPy and PyTorch do, or R, SciPy's default.

    Returns
    -------
    L : array (*batch, n, n)
        L, lower triangular with a positive diagonal, or R; zeros in the other triangle.

    Raises
    ------
    NotPositiveDefiniteError, NotSymmetricError
        For a matrix that is not positive definite, or not Hermitian.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable in every mode and order; the cotangent of A is Hermitian, that of L is read as
    its triangle.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 1 product.

    References
    ----------
    Murray (2016), arXiv:1602.07527.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.cholesky(np.array([[4.0, 2.0], [2.0, 10.0]]))
    array([[2., 0.],
           [1., 3.]])
    """
    lower = require_flag("lower", lower)
    l = bind(Cholesky(), _square("a", a))[0]
    return l if lower else adjoint(l)


@public
def cho_factor(a: ArrayT, lower: bool = False) -> tuple[ArrayT, bool]:
    """Factor a Hermitian positive definite matrix for `cho_solve`, differentiably.

        A = R^H R,    or with lower=True A = L L^H

    Parameters
    ----------
    a : array (*batch, n, n)
        As in `cholesky`.
    lower : bool, default False
        Return L, or R, which is SciPy's default here.

    Returns
    -------
    c : array (*batch, n, n)
        R or L, as `cholesky` returns it.
    lower : bool
        Which of them it is.

    Raises
    ------
    NotPositiveDefiniteError, NotSymmetricError, ValueError, TypeError
        As in `cholesky`.

    Notes
    -----
    Differentiable as `cholesky` is.
    Cost: that of `cholesky`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.cho_solve(ldiv.cho_factor(np.array([[4.0, 2.0], [2.0, 10.0]])), np.array([6.0, 12.0]))
    array([1., 1.])
    """
    return cholesky(a, lower), require_flag("lower", lower)


@public
def cho_solve(c_and_lower: tuple[AnyArray, bool], b: ArrayT) -> ArrayT:
    """Solve a linear system with the result of `cho_factor`, differentiably.

        L L^H x = b,    or R^H R x = b

    Parameters
    ----------
    c_and_lower : pair of an array (*batch, n, n) and a bool
        L and True, or R and False; the other triangle is not read.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes broadcast.

    Raises
    ------
    SingularMatrixError, ValueError, TypeError
        As in `solve`.

    Notes
    -----
    Differentiable in c and b in every mode and order; the cotangent of c is that of its triangle.
    Cost: 2 triangular solves; each direction of a derivative the same.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.cho_solve((np.array([[2.0, 0.0], [1.0, 3.0]]), True), np.array([6.0, 12.0]))
    array([1., 1.])
    """
    c, below = require_pair("c_and_lower", "(c, lower)", c_and_lower)
    below = require_flag("lower", below)
    c, block, vector = _system("c", c, b)
    triangle, p = lower_triangle(c) if below else upper_triangle(c)
    first, second = (triangle, triangle.H) if below else (triangle.H, triangle)
    x = left_solve(second, p, left_solve(first, p, block))
    return x[..., 0] if vector else x


@public
def ldl(A: ArrayT, lower: bool = True, hermitian: bool = True) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Factor a symmetric or Hermitian matrix, definite or not, differentiably.

        A = L D L^H,    or with hermitian=False A = L D L^T

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix. Both triangles must be there and agree, as for `cholesky`.
    lower : bool, default True
        Return an L whose L[perm] is lower triangular, or upper triangular.
    hermitian : bool, default True
        A is Hermitian; if False, symmetric.

    Returns
    -------
    L : array (*batch, n, n)
        A triangle, its rows in the order of those of A, as in SciPy.
    D : array (*batch, n, n)
        Blocks of size 1 and 2 on the diagonal.
    perm : array of integers (*batch, n)
        The order of the rows, for which L[perm] is triangular.

    Raises
    ------
    NotSymmetricError
        For a matrix that is not symmetric, or not Hermitian.
    NotDifferentiableError
        In the derivative, for a block of size 1 before the last that is exactly zero.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    LAPACK factors on the host.
    Differentiable in every mode and order, not in perm: the order and the places of the blocks are
    constant near A.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 2 products.

    References
    ----------
    Bunch and Kaufman (1977).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> L, D, perm = ldiv.ldl(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> D
    array([[0., 2.],
           [2., 0.]])
    """
    lower, hermitian = require_flag("lower", lower), require_flag("hermitian", hermitian)
    L, D, order = bind(LDL(lower, "H" if hermitian else "T"), _square("A", A))
    return rows(L, namespace(order).argsort(order, axis=-1)), D, order


@overload
def qr(a: ArrayT, mode: Literal["economic"] = "economic") -> tuple[ArrayT, ArrayT]: ...
@overload
def qr(a: ArrayT, mode: Literal["r"]) -> ArrayT: ...
@public
def qr(a: ArrayT, mode: Literal["economic", "r"] = "economic") -> tuple[ArrayT, ArrayT] | ArrayT:
    """Factor a matrix into orthonormal columns and a triangle, differentiably.

        A = Q R,    Q^H Q = I, R upper triangular with a real diagonal, of LAPACK's signs

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix; k = min(m, n).
    mode : {"economic", "r"}, default "economic"
        Return both factors, or R alone. SciPy's mode "full" is not here: the other columns of its Q
        are arbitrary, and have no derivative.

    Returns
    -------
    Q : array (*batch, m, k)
        Orthonormal columns; not with mode="r".
    R : array (*batch, k, n)
        Upper triangular. SciPy's mode "r" returns it as m x n, in a tuple.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where the first k columns of A depend on each other.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable in every mode and order where the first k columns of A are independent.
    Cost: 1 factorization; each direction of a derivative 1 triangular solve and 2 products.

    References
    ----------
    Walter and Lehmann (2010), arXiv:1009.6112; Roberts and Roberts (2020), arXiv:2009.10071.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> Q, R = ldiv.qr(np.array([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]]))
    >>> bool(np.allclose(Q @ R, [[3, 1], [4, 2], [0, 2]]))
    True
    """
    require_option("mode", mode, ("economic", "r"))
    matrix = _matrix("a", a)
    m, n = matrix.shape[-2:]
    q, r = bind(QR(), matrix if m >= n else matrix[..., :m])
    if m < n:  # [A1 A2] = Q [R1, Q^H A2]
        r = namespace(r).concat([r, adjoint(q) @ matrix[..., m:]], axis=-1)
    return r if mode == "r" else (q, r)


# -- checks -------------------------------------------------------------------


def _matrix(name: str, a: Any) -> Array:
    a = require_float(name, a)
    if a.ndim < 2:
        raise ValueError(
            expected_got(
                name, "a matrix (..., m, n)", f"shape {tuple(a.shape)}", "Add the missing axis."
            )
        )
    return a


def _square(name: str, a: Any) -> Array:
    a = _matrix(name, a)
    require_square(name, tuple(a.shape[-2:]))
    return a


def _system(name: str, a: Any, b: Any) -> tuple[Array, Array, bool]:
    """Factors and right-hand side in a common precision, and whether b came as a vector."""
    a = _square(name, a)
    block, vector = as_block("b", b, a.shape[-1], a)
    require_batches("b", batch_of(a, 2), batch_of(block, 2))
    return *common_precision(a, block), vector
