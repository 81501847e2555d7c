"""exp(A) and its Frechet derivative, under SciPy's names and PyTorch's."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ldiv.core.arrays.shapes import alike
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import common_precision, require_flag, require_option
from ldiv.core.calls.call import plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.rule import bind
from ldiv.engines.functions.matrix_exponential import Exponential
from ldiv.linalg.arguments.dense_arguments import require_partner, require_square_array
from ldiv.rules.matrix_map import MatrixMap, matrix_map
from ldiv.rules.norm import Norm

METHODS = ("SPS", "blockEnlarge")
OF_E = "expm_frechet expected A and E to be the same shape."  # SciPy's words
FOR_DIRECTIONS = "The direction is dense: E.toarray()."
FOR_PRODUCTS = "exp(A) of a sparse matrix is dense. exp(t A) b without it is ldiv.expm_multiply."


@public
@planned
def expm(A: ArrayT) -> ArrayT:
    """Find the exponential of a square matrix, differentiably.

        exp(A) = I + A + A^2 / 2! + ..

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its exponential.

    Raises
    ------
    LinAlgOverflowError
        If exp(A) overflows, or if |A| is so large that no digit of it is certain.
    ValueError
        For a matrix that is not square, and for NaN and infinity.
    TypeError
        For sparse matrices, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    expm_multiply : exp(t A) B by products with A alone, of sparse matrices too.
    expm_frechet : the derivative in a direction.

    Notes
    -----
    Differentiable in every mode and order: dF = L(A, dA), the Frechet derivative, and
    A_bar = L(A, F_bar^H)^H.
    Computed on the host, in double precision, one matrix of a batch after the other; triangles by
    SciPy. If |A|_1 is above 50, A is balanced first where this makes its norm much smaller, and
    exp(A) is computed twice, in steps that round differently: both must agree.
    Cost: some 10 products; three times as much for a derivative.

    References
    ----------
    Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 30 and 31 (2009).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.expm(np.array([[0.0, np.pi / 2], [-np.pi / 2, 0.0]])).round(12) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    return plan(MatrixMap(Exponential()), [require_square_array("A", A, instead=FOR_PRODUCTS)])


@public
def matrix_exp(A: ArrayT) -> ArrayT:
    """Find the exponential of a square matrix: `expm` under PyTorch's name.

        exp(A) = I + A + A^2 / 2! + ..

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.

    Returns
    -------
    F : array (*batch, n, n)
        Its exponential.

    Notes
    -----
    Differentiable as `expm` is.
    Cost: as that of `expm`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.matrix_exp(np.diag([0.0, 1.0])).round(6)
    array([[1.      , 0.      ],
           [0.      , 2.718282]])
    """
    return expm(A)


@overload
def expm_frechet(
    A: ArrayT,
    E: ArrayT,
    method: str | None = None,
    compute_expm: Literal[True] = True,
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def expm_frechet(
    A: ArrayT,
    E: ArrayT,
    method: str | None = None,
    *,
    compute_expm: Literal[False],
    check_finite: bool = True,
) -> ArrayT: ...
@public
def expm_frechet(
    A: ArrayT,
    E: ArrayT,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT] | ArrayT:
    """Find the Frechet derivative of the matrix exponential in a direction, differentiably.

        exp(A + t E) = exp(A) + t L(A, E) + O(t^2)

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    E : array (*batch, n, n)
        The direction.
    method : {"SPS", "blockEnlarge"}, optional
        Accepted, as SciPy has it: both name the same numbers.
    compute_expm : bool, default True
        With False, L alone is returned.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    F : array (*batch, n, n)
        The exponential of A.
    L : array (*batch, n, n)
        Its derivative in the direction E.

    Raises
    ------
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.

    Notes
    -----
    Differentiable in A and E in every mode and order; with NumPy with compute_expm=False.
    Cost: three times that of `expm`.

    References
    ----------
    Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 30 (2009).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, E = np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [0.0, 0.0]])
    >>> ldiv.expm_frechet(A, E, compute_expm=False).round(6)  # (e - 1) / (1 - 0) at that place
    array([[0.      , 1.718282],
           [0.      , 0.      ]])
    """
    a: Any = require_square_array("A", A, E, instead=FOR_PRODUCTS)
    e: Any = require_partner("E", E, a, tuple(a.shape[-2:]), OF_E, instead=FOR_DIRECTIONS)
    if method is not None:
        require_option("method", method, METHODS)
    a, e = common_precision(a, e)
    derivative = matrix_map(Exponential(), a, e)
    if not require_flag("compute_expm", compute_expm):
        return derivative
    return matrix_map(Exponential(), a), derivative


@public
def expm_cond(A: ArrayT, check_finite: bool = True) -> ArrayT:
    """Find the condition number of the matrix exponential, differentiably.

        cond(A) = max |L(A, E)| |A| / |exp(A)|,    |E| = 1,    in the Frobenius norm

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    cond : array (*batch,)
        By what factor a relative error of A may grow.

    Raises
    ------
    LinAlgOverflowError, ValueError, TypeError
        As in `expm`.
    NotDifferentiableError
        In the derivative, if two directions attain the maximum.

    Notes
    -----
    Differentiable in PyTorch and JAX in every mode and order.
    Cost: n^2 Frechet derivatives, and the largest singular value of a matrix of order n^2: for small
    matrices.

    References
    ----------
    Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 30 (2009).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> float(ldiv.expm_cond(np.array([[1.0, 0.0], [0.0, 1.0]])).round(6))
    1.0
    """
    a: Any = require_square_array("A", A, instead=FOR_PRODUCTS)
    xp, n = namespace(a), a.shape[-1]
    units = xp.asarray(np.eye(n * n).reshape(n * n, n, n), **alike(a))
    columns = matrix_map(Exponential(), a[..., None, :, :], units)
    kronecker = xp.reshape(columns, (*a.shape[:-2], n * n, n * n))
    return _size(kronecker, 2.0) * _size(a, "fro") / _size(expm(a), "fro")


def _size(x: Any, ord: Any) -> Any:
    return bind(Norm(ord, (-2, -1), x.ndim), x)[0]
