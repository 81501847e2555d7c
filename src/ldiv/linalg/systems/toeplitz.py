"""Systems and products with Toeplitz and circulant matrices, under SciPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.calls.public import public
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import shown, value_error
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.toeplitz import circulant, toeplitz

ColumnAndRow = AnyArray | tuple[AnyArray, AnyArray]


@public
def solve_toeplitz(c_or_cr: ColumnAndRow, b: ArrayT, check_finite: bool = True) -> ArrayT:
    """Solve a Toeplitz system, differentiably.

        A x = b,    A = toeplitz(c, r)

    Parameters
    ----------
    c_or_cr : array (*batch, n), or a pair of such
        The first column, or the first column and the first row.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    x : array, shaped like b
        The solution.

    Raises
    ------
    SingularMatrixError
        For a singular matrix; a leading block may be singular.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    toeplitz : the matrix, for every other function.

    Notes
    -----
    Differentiable in c, r and b, in every mode and order; gradients of c and r are correlations.
    On the host. Cost: Levinson's recursion, 3 n^2 operations, for each right-hand side and each
    direction of a derivative, and a dense factorization where that loses digits.

    References
    ----------
    Golub and Van Loan, section 4.7.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.solve_toeplitz(([2.0, 1.0], [2.0, 0.0]), np.array([2.0, 3.0]))
    array([1., 1.])
    """
    return solve(_toeplitz(c_or_cr), b)


@public
def matmul_toeplitz(
    c_or_cr: ColumnAndRow, x: ArrayT, check_finite: bool = False, workers: int | None = None
) -> ArrayT:
    """Multiply by a Toeplitz matrix, differentiably.

        y = A x,    A = toeplitz(c, r)

    Parameters
    ----------
    c_or_cr : array (*batch, m), or a pair of (*batch, m) and (*batch, n)
        The first column, or the first column and the first row.
    x : array (n,) or (*batch, n, k)
        The vector, or a block of columns.
    check_finite, workers : optional
        Accepted, as SciPy has them: numbers are always checked, the framework has its threads.

    Returns
    -------
    y : array (m,) or (*batch, m, k)

    Raises
    ------
    ValueError, TypeError
        As in `solve_toeplitz`.

    Notes
    -----
    Differentiable in c, r and x, in every mode and order.
    Cost: three FFTs of length m + n - 1, and as many for each direction of a derivative.

    References
    ----------
    Golub and Van Loan, section 4.8.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.matmul_toeplitz(([2.0, 1.0], [2.0, 0.0]), np.array([1.0, 1.0])).round(12)
    array([2., 3.])
    """
    return _toeplitz(c_or_cr) @ x


@public
def solve_circulant(
    c: AnyArray,
    b: ArrayT,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> ArrayT:
    """Solve a circulant system, differentiably.

        A x = b,    A = circulant(c)

    Parameters
    ----------
    c : array (*batch, n)
        The first column.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    singular : {"raise"}
        SciPy's "lstsq" has no derivative: `ldiv.pinv`, or the FFT of your framework.
    tol : None
        As SciPy has it, with `singular="lstsq"`.
    caxis, baxis, outaxis : int
        SciPy's defaults: batch axes come first here.

    Returns
    -------
    x : array, shaped like b
        The solution.

    Raises
    ------
    SingularMatrixError
        For a singular matrix.
    ValueError, TypeError
        As in `solve_toeplitz`, and for other options.

    See Also
    --------
    circulant : the matrix, for every other function.

    Notes
    -----
    Differentiable in c and b, in every mode and order, on any device.
    Cost: three FFTs of length n, and as many for each direction of a derivative.

    References
    ----------
    Golub and Van Loan, section 4.8.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.solve_circulant([2.0, 1.0, 0.0], np.array([3.0, 3.0, 3.0])).round(12)
    array([1., 1., 1.])
    """
    defaults: list[tuple[str, Any, Any]] = [
        ("singular", singular, "raise"),
        ("tol", tol, None),
        ("caxis", caxis, -1),
        ("baxis", baxis, 0),
        ("outaxis", outaxis, 0),
    ]
    for name, given, default in defaults:
        if type(given) is not type(default) or given != default:
            advice = "Least squares are those of ldiv.pinv; move axes before, batches come first."
            raise value_error(name, repr(default), shown(given), advice)
    C = circulant(c)
    require_known_finite("c", C.params)
    return solve(C, b)


def _toeplitz(c_or_cr: Any) -> Matrix:
    if not isinstance(c_or_cr, tuple):
        return circulant(c_or_cr) if np.shape(c_or_cr) == (0,) else toeplitz(c_or_cr)
    if len(c_or_cr) != 2:
        what, advice = "the first column, or it and the first row", "Write (c, r)."
        raise value_error("c_or_cr", what, shown(c_or_cr), advice)
    return toeplitz(*c_or_cr)
