"""f(A) of any function f, and the sign, square root and logarithm of A, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_callable, require_int
from ldiv.core.calls.public import public
from ldiv.engines.functions.matrix_logarithm import Logarithm
from ldiv.engines.functions.matrix_root import SquareRoot
from ldiv.engines.functions.matrix_sign import Sign
from ldiv.engines.functions.schur_parlett import ScalarFunction
from ldiv.linalg.equations.applied import applied, with_residual
from ldiv.linalg.equations.exponentials import expm


@overload
def funm(A: ArrayT, func: Callable[[Any], Any], disp: Literal[True] = True) -> ArrayT: ...
@overload
def funm(A: ArrayT, func: Callable[[Any], Any], disp: Literal[False]) -> tuple[ArrayT, ArrayT]: ...
@public
def funm(A: ArrayT, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """Apply a function of numbers to a square matrix, differentiably.

        F = V diag(f(lam)) V^-1,    and by continuity where A has no V

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    func : callable
        f, of complex arrays of NumPy, elementwise, whatever the framework of A. What it closes over
        is constant. Analytic at the eigenvalues, for derivatives and where some are close.
    disp : bool, default True
        With False, F and |F A - A F|_1 / |A|_1 are returned.

    Returns
    -------
    F : array (*batch, n, n)
        f(A); complex for a real A if f has complex values there.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where f is not analytic around the eigenvalues, or no eight digits of the
        derivative are certain.
    ValueError
        For a function that is not smooth between eigenvalues that are close, or not finite at
        them. For a matrix that is not square, NaN and infinity; in a JAX trace for a real matrix
        with complex values.
    TypeError
        For sparse matrices, and functions that take no array of NumPy.

    See Also
    --------
    spectral_function : of a Hermitian matrix; f of arrays of your framework.
    expm, logm, sqrtm, cosm : functions that have an algorithm of their own.

    Notes
    -----
    Differentiable in A in every mode and order: f' and higher ones are found in the complex plane.
    Computed on the host, in double precision; one matrix of a batch after the other. Where
    eigenvalues are far apart by Parlett's recurrence, as in SciPy; groups of close ones by Taylor's
    series, twice, in different ways that must agree.
    Cost: 1 Schur form, some 25 n^3 operations; 16 times as much for a derivative.

    References
    ----------
    Davies and Higham, SIAM J. Matrix Anal. Appl. 25 (2003).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.funm(np.array([[1.0, 3.0], [1.0, 4.0]]), lambda x: x * x).round(12)
    array([[ 4., 15.],
           [ 5., 19.]])
    """
    require_callable("func", func, "a function of numbers", "Such as numpy.exp.")
    return with_residual(disp, applied(ScalarFunction(func), "A", A), lambda x, a: x @ a - a @ x, A)


@overload
def signm(A: ArrayT, disp: Literal[True] = True) -> ArrayT: ...
@overload
def signm(A: ArrayT, disp: Literal[False]) -> tuple[ArrayT, ArrayT]: ...
@public
def signm(A: ArrayT, disp: bool = True) -> Any:
    """Find the sign of a square matrix, differentiably.

        S S = I,    S A = A S,    lam(S) = sign(Re lam(A))

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    disp : bool, default True
        With False, as SciPy had it, S and |S S S - S|_1 / |A|_1 are returned.

    Returns
    -------
    S : array (*batch, n, n)
        The sign.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where an eigenvalue is on the imaginary axis, as far as rounding tells;
        the value there is SciPy's.
    SingularMatrixError
        For an eigenvalue on the imaginary axis that is defective, or too close to others.
    ConvergenceError
        If Newton's iteration does not reach S S = I.
    ValueError, TypeError
        As in `sqrtm`.

    Notes
    -----
    Differentiable in every mode and order.
    Computed on the host, in double precision, one matrix of a batch after the other, by Newton's
    iteration: SciPy's signm shifts a matrix with close eigenvalues, so that signs may change.
    Cost: the eigenvalues, and some 10 inverses; three times as many for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 5.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.signm(np.array([[2.0, 5.0], [0.0, -3.0]]))
    array([[ 1.,  2.],
           [ 0., -1.]])
    """
    s = applied(Sign(), "A", A)
    return with_residual(disp, s, lambda s, a: s @ s @ s - s, A)


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
