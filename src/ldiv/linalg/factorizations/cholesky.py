"""A = L L^H under SciPy's names: functions that validate and call the rule."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

from ldiv.core.arrays.shapes import adjoint
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import require_flag, require_pair, require_square
from ldiv.core.calls.call import FIRST, plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_square_array, require_system
from ldiv.linalg.inverses.sparse_cholesky import SparseCholesky
from ldiv.linalg.inverses.with_info import success
from ldiv.matrices.construct import sparse_of
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray, on_a_pattern
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.triangular_quotients import factor_solve
from ldiv.rules.triangular_quotients import lower as lower_triangle
from ldiv.rules.triangular_quotients import upper as upper_triangle


@overload
def cholesky(
    a: SparseArray,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    upper: bool | None = None,
) -> SparseCholesky: ...
@overload
def cholesky(
    a: ArrayT,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    upper: bool | None = None,
) -> ArrayT: ...
@public
@planned
def cholesky(
    a: Any,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    upper: bool | None = None,
) -> Any:
    """Factor a Hermitian positive definite matrix, differentiably.

        A = L L^H,    or with lower=False A = R^H R, R = L^H
        A = P^T L L^H P    for a sparse A

    Parameters
    ----------
    a : array (*batch, n, n), or SparseArray
        The matrix. Both triangles must be there and agree, and A is read as its Hermitian part, as
        by `solve` with assume_a="pos"; SciPy reads one triangle. A difference of 1e-4 of the
        largest entry, 2e-2 in single precision, is forgiven, for finite differences.
    lower : bool, default True
        Return L, as NumPy and PyTorch do, or R, SciPy's default.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    upper : bool, optional
        The word of NumPy, PyTorch and JAX: True is lower=False.

    Returns
    -------
    L : array (*batch, n, n), or SparseCholesky
        L, lower triangular with a positive diagonal, or R; zeros in the other triangle. Of a sparse
        matrix the factors as an object, which solves with them.

    Raises
    ------
    NotPositiveDefiniteError, NotSymmetricError
        For a matrix that is not positive definite, or not Hermitian.
    ValueError
        For shapes, NaN and infinity, and for lower=False of a sparse matrix.
    TypeError
        For dtypes other than float32, float64, complex64, complex128, and for matrices that are
        neither dense nor sparse.

    See Also
    --------
    SparseCholesky : what can be done with the factors of a sparse matrix.

    Notes
    -----
    Differentiable in every mode and order; the cotangent of A is Hermitian, that of L is read as
    its triangle. What a SparseCholesky computes says so itself.
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
    if upper is not None:
        if not require_flag("upper", upper) and not lower:
            raise value_error("upper", "True with lower=False", "False", "Say it once.")
        lower = not upper
    matrix = a if isinstance(a, Matrix) else sparse_of("a", a)
    if matrix is not None and (entries := on_a_pattern(matrix)) is not None:
        return _of_sparse(entries, lower)
    return plan(Cholesky(), [require_square_array("a", a)], FIRST if lower else _upper)


def _upper(outputs: tuple[Array, ...]) -> Array:
    return adjoint(outputs[0])


@public
def cholesky_ex(
    A: ArrayT, *, upper: bool = False, check_errors: bool = False
) -> tuple[ArrayT, ArrayT]:
    """Factor a positive definite matrix, differentiably, and say that it is one.

        A = L L^H

    Parameters
    ----------
    A : array (*batch, n, n)
        As in `cholesky`.
    upper : bool, default False
        Return L^H.
    check_errors : bool
        Accepted, as PyTorch has it: what fails raises, with False and with True.

    Returns
    -------
    L : array (*batch, n, n)
    info : array of integers (*batch,)
        0; under `errstate(singular="nan")`, where nothing raises, 1 for a member that is NaN.

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
    >>> L, info = ldiv.cholesky_ex(np.array([[4.0]]))
    >>> L, int(info)
    (array([[2.]]), 0)
    """
    require_flag("check_errors", check_errors)
    instead = "ldiv.cholesky holds sparse factors."
    L: Any = cholesky(require_square_array("A", A, instead=instead), lower=True)
    return adjoint(L) if require_flag("upper", upper) else L, success(L, 2)


def _of_sparse(a: SparseArray, lower: bool) -> SparseCholesky:
    require_square("a", a.structure.shape)
    if not lower:
        raise value_error("lower", "True for a sparse matrix", "False", "Its factor is L.")
    return SparseCholesky(a)


@public
def cho_factor(
    a: ArrayT, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[ArrayT, bool]:
    """Factor a Hermitian positive definite matrix for `cho_solve`, differentiably.

        A = R^H R,    or with lower=True A = L L^H

    Parameters
    ----------
    a : array (*batch, n, n)
        As in `cholesky`.
    lower : bool, default False
        Return L, or R, which is SciPy's default here.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

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
def cho_solve(
    c_and_lower: tuple[AnyArray, bool],
    b: ArrayT,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> ArrayT:
    """Solve a linear system with the result of `cho_factor`, differentiably.

        L L^H x = b,    or R^H R x = b

    Parameters
    ----------
    c_and_lower : pair of an array (*batch, n, n) and a bool
        L and True, or R and False; the other triangle is not read.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    overwrite_b, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

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
    c, block, vector = require_system("c", c, b)
    triangle, p = lower_triangle(c) if below else upper_triangle(c)
    x = as_one_node(partial(factor_solve, triangle, below), p, block)
    return x[..., 0] if vector else x
