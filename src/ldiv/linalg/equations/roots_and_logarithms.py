"""A^(1/2) and log A of any square matrix, under SciPy's names."""

from __future__ import annotations

from typing import Any, Literal, overload

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_int
from ldiv.core.calls.public import public
from ldiv.engines.functions.matrix_logarithm import Logarithm
from ldiv.engines.functions.matrix_root import SquareRoot
from ldiv.linalg.equations.applied import applied, with_residual
from ldiv.linalg.equations.exponentials import expm


@overload
def sqrtm(A: ArrayT, disp: Literal[True] = True, blocksize: int = 64) -> ArrayT: ...
@overload
def sqrtm(A: ArrayT, disp: Literal[False], blocksize: int = 64) -> tuple[ArrayT, ArrayT]: ...
@public
def sqrtm(A: ArrayT, disp: bool = True, blocksize: int = 64) -> Any:
    """Find the principal square root of a square matrix, differentiably.

        X X = A,    Re lam(X) >= 0

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    disp : bool, default True
        With False, as SciPy had it, X and |X X - A|_1 / |A|_1 are returned.
    blocksize : int
        Accepted, as SciPy has it: it changes no number.

    Returns
    -------
    X : array (*batch, n, n)
        The root. That of a real matrix is complex if an eigenvalue is negative.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where an eigenvalue is 0 or a negative real number, or so close to one
        that rounding of A could make it one.
    SingularMatrixError
        If A has no square root: a singular matrix need not.
    ValueError
        For a matrix that is not square, for NaN and infinity; in a JAX trace, where dtypes are
        decided before numbers are known, for a real matrix with a complex root.
    TypeError
        For sparse matrices, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    cholesky : L L^H = A for a positive definite A, in a small part of the time.
    fractional_matrix_power : any power.

    Notes
    -----
    Differentiable in every mode and order: X dX + dX X = dA, one Sylvester equation on the Schur
    form of A.
    Computed on the host, in double precision, by SciPy; one matrix of a batch after the other.
    Cost: 1 Schur form, some 25 n^3 operations, for the value and for a derivative.

    References
    ----------
    Bjorck and Hammarling (1983); Higham, Functions of Matrices (2008), ch. 6.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.sqrtm(np.array([[4.0, 5.0], [0.0, 9.0]]))
    array([[2., 1.],
           [0., 3.]])
    >>> ldiv.sqrtm(np.array([[-4.0]])).imag
    array([[2.]])
    """
    require_int("blocksize", blocksize, 1)
    x = applied(SquareRoot(), "A", A)
    return with_residual(disp, x, lambda x, a: x @ x - a, A)


@overload
def logm(A: ArrayT, disp: Literal[True] = True) -> ArrayT: ...
@overload
def logm(A: ArrayT, disp: Literal[False]) -> tuple[ArrayT, ArrayT]: ...
@public
def logm(A: ArrayT, disp: bool = True) -> Any:
    """Find the principal logarithm of a square matrix, differentiably.

        exp(X) = A,    -pi < Im lam(X) <= pi

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    disp : bool, default True
        With False, as SciPy had it, X and |exp(X) - A|_1 / |A|_1 are returned.

    Returns
    -------
    X : array (*batch, n, n)
        The logarithm. That of a real matrix is complex if an eigenvalue is negative.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where an eigenvalue is a negative real number, or so close to one, or to
        0, that rounding of A could make it one.
    SingularMatrixError
        For a singular matrix, which has no logarithm.
    ValueError
        For a matrix that is not square, for NaN and infinity; in a JAX trace, where dtypes are
        decided before numbers are known, for a real matrix with a complex logarithm.
    TypeError
        For sparse matrices, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    logdet : the trace of the logarithm, from a factorization.

    Notes
    -----
    Differentiable in every mode and order, by square roots of the Schur form of A.
    Computed on the host, in double precision, by SciPy; one matrix of a batch after the other.
    Cost: 1 Schur form, some 25 n^3 operations, and some 10 square roots, for the value and for a
    derivative.

    References
    ----------
    Al-Mohy, Higham and Relton, SIAM J. Sci. Comput. 35 (2013).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.logm(ldiv.expm(np.array([[0.0, 1.0], [-1.0, 0.0]]))).round(12) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    x = applied(Logarithm(), "A", A)
    return with_residual(disp, x, lambda x, a: expm(x) - a, A)
