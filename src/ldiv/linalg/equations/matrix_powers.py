"""A^p of any square matrix, under NumPy's name and SciPy's."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_int, require_number, require_square
from ldiv.core.calls.public import public
from ldiv.engines.functions.matrix_power import FractionalPower, IntegerPower
from ldiv.linalg.equations.applied import applied
from ldiv.matrices.matrix import Matrix, converted

MatrixT = TypeVar("MatrixT", bound=Matrix)
OF_POWERS = "Of a sparse A powers are ldiv.matrix_power(A, n), n >= 1, and A^-n b is solves."


@overload
def matrix_power(A: MatrixT, n: int) -> MatrixT: ...
@overload
def matrix_power(A: ArrayT, n: int) -> ArrayT: ...
@public
def matrix_power(A: Any, n: int) -> Any:
    """Find an integer power of a square matrix, differentiably.

        F = A A .. A,    n times;    A^-n = (A^-1)^n

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray, or any other Matrix
        The matrix.
    n : int
        The exponent; at least 1 for a sparse matrix.

    Returns
    -------
    F : like A
        The power.

    Raises
    ------
    SingularMatrixError
        For n < 0 and a matrix that is singular to working precision.
    LinAlgOverflowError
        If the power overflows.
    ValueError
        For a matrix that is not square, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    fractional_matrix_power : real exponents.

    Notes
    -----
    Differentiable in every mode and order; with NumPy of arrays.
    A power of an array is computed on the host, in double precision, one matrix of a batch after
    the other. The power of a sparse matrix is its product with itself, on a pattern that fills in.
    Cost: at most 2 log2 n products, three times as many for a derivative.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.matrix_power(np.array([[1.0, 1.0], [0.0, 1.0]]), 5)
    array([[1., 5.],
           [0., 1.]])
    """
    matrix = A if isinstance(A, Matrix) else converted("A", A)
    if matrix is None:
        return applied(IntegerPower(require_int("n", n)), "A", A)
    require_square("A", matrix.structure.shape)
    n = require_int("n", n, 1, advice="A^0 is ldiv.eye_array; A^-1 b is ldiv.solve(A, b).")
    result: Any = None
    while n:
        if n & 1:
            result = matrix if result is None else result @ matrix
        if n := n >> 1:
            matrix = matrix @ matrix
    return result


@public
def fractional_matrix_power(A: ArrayT, t: float) -> ArrayT:
    """Find a real power of a square matrix, differentiably.

        A^t = exp(t log A)

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    t : float
        The exponent, a constant.

    Returns
    -------
    F : array (*batch, n, n)
        The power. That of a real matrix is complex if an eigenvalue is negative and t no integer.

    Raises
    ------
    NotDifferentiableError
        In the derivative, if t is no integer and an eigenvalue is 0 or a negative real number, or
        so close to one that rounding of A could make it one.
    SingularMatrixError
        If A is singular and has no such power.
    ValueError, TypeError
        As in `sqrtm`.

    See Also
    --------
    sqrtm, matrix_power

    Notes
    -----
    Differentiable in A in every mode and order, not in t; for that write expm(t * logm(A)).
    Computed on the host, in double precision, by SciPy; one matrix of a batch after the other.
    Cost: 1 Schur form and some 20 products; three times as much for a derivative.

    References
    ----------
    Higham and Lin, SIAM J. Matrix Anal. Appl. 32 (2011).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.fractional_matrix_power(np.diag([1.0, 8.0]), 1 / 3).round(12)
    array([[1., 0.],
           [0., 2.]])
    """
    p = require_number("t", t)
    whole = p == int(p)
    name = "fractional_matrix_power"
    return applied(IntegerPower(int(p), name) if whole else FractionalPower(p), "A", A, OF_POWERS)
