"""cos, sin, tan, cosh, sinh, tanh of any square matrix, under SciPy's names."""

from __future__ import annotations

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.calls.public import public
from ldiv.engines.functions.trigonometric import Trigonometric
from ldiv.linalg.equations.applied import applied


@public
def cosm(A: ArrayT) -> ArrayT:
    """Find the cosine of a square matrix, differentiably.

        cos(A) = I - A^2 / 2! + A^4 / 4! - ..

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its cosine.

    Raises
    ------
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in every mode and order.
    Computed on the host, in double precision, by exponentials, and by the series where |A|_1 <= 1;
    one matrix of a batch after the other.
    Cost: that of a complex exponential, of two where A is complex; three times as much for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 12.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.cosm(np.diag([0.0, np.pi])).round(12) + 0.0
    array([[ 1.,  0.],
           [ 0., -1.]])
    """
    return applied(Trigonometric("cosm"), "A", A)


@public
def sinm(A: ArrayT) -> ArrayT:
    """Find the sine of a square matrix, differentiably.

        sin(A) = A - A^3 / 3! + A^5 / 5! - ..

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its sine.

    Raises
    ------
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in every mode and order; computed as `cosm` is.
    Cost: that of a complex exponential, of two where A is complex; three times as much for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 12.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.sinm(np.diag([0.0, np.pi / 2])).round(12)
    array([[0., 0.],
           [0., 1.]])
    """
    return applied(Trigonometric("sinm"), "A", A)


@public
def tanm(A: ArrayT) -> ArrayT:
    """Find the tangent of a square matrix, differentiably.

        cos(A) tan(A) = sin(A)

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its tangent.

    Raises
    ------
    SingularMatrixError
        Where an eigenvalue is a pole.
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in every mode and order; computed as `cosm` is.
    Cost: that of a complex exponential, of two where A is complex, and a solve; three times as much for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 12.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.tanm(np.diag([0.0, np.pi / 4])).round(12)
    array([[0., 0.],
           [0., 1.]])
    """
    return applied(Trigonometric("tanm"), "A", A)


@public
def coshm(A: ArrayT) -> ArrayT:
    """Find the hyperbolic cosine of a square matrix, differentiably.

        cosh(A) = I + A^2 / 2! + A^4 / 4! + ..

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its hyperbolic cosine.

    Raises
    ------
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in every mode and order; computed as `cosm` is.
    Cost: that of two exponentials; three times as much for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 12.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.coshm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    return applied(Trigonometric("coshm"), "A", A)


@public
def sinhm(A: ArrayT) -> ArrayT:
    """Find the hyperbolic sine of a square matrix, differentiably.

        sinh(A) = A + A^3 / 3! + A^5 / 5! + ..

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its hyperbolic sine.

    Raises
    ------
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in every mode and order; computed as `cosm` is.
    Cost: that of two exponentials; three times as much for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 12.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.sinhm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    array([[0., 1.],
           [0., 0.]])
    """
    return applied(Trigonometric("sinhm"), "A", A)


@public
def tanhm(A: ArrayT) -> ArrayT:
    """Find the hyperbolic tangent of a square matrix, differentiably.

        cosh(A) tanh(A) = sinh(A)

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its hyperbolic tangent.

    Raises
    ------
    SingularMatrixError
        Where an eigenvalue is a pole.
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in every mode and order; computed as `cosm` is.
    Cost: that of two exponentials and a solve; three times as much for a derivative.

    References
    ----------
    Higham, Functions of Matrices (2008), ch. 12.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.tanhm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    array([[0., 1.],
           [0., 0.]])
    """
    return applied(Trigonometric("tanhm"), "A", A)
