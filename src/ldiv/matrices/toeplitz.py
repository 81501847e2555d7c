"""Matrices with one number along each diagonal or antidiagonal, given by a row and a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, conj, spread
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import (
    as_float,
    common_precision,
    require_batches,
    require_int,
    require_option,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.structure import Structure
from ldiv.errors import value_error
from ldiv.matrices.matrix import Matrix
from ldiv.structures.circulant import Circulant
from ldiv.structures.toeplitz import Hankel, Toeplitz

ConvolutionMode = Literal["full", "same", "valid"]


@public
def toeplitz(c: AnyArray, r: AnyArray | None = None) -> Matrix:
    """The Toeplitz matrix with this first column and first row, never formed.

        A[i, j] = c[i - j] for i >= j,    r[j - i] for i < j

    Parameters
    ----------
    c : array (*batch, m)
        The first column.
    r : array (*batch, n), optional
        The first row, of which the first number is not read; the conjugate of c where it is absent.

    Returns
    -------
    A : Matrix (*batch, m, n)
        With m + n - 1 numbers. SciPy's function returns an array; `A.toarray()` is that.

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For dtypes and mixed frameworks.

    See Also
    --------
    solve_toeplitz, circulant, hankel

    Notes
    -----
    Differentiable in c and r, in every mode and order.
    Cost: a product is a convolution by FFT, (m + n) log(m + n) operations, and so is a gradient. A
    solve is Levinson's recursion, 3 n^2 operations, and a dense factorization where the recursion
    loses digits. A determinant is a dense factorization.

    References
    ----------
    Golub and Van Loan, section 4.7.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.toeplitz([2.0, 1.0, 0.0])
    >>> ldiv.solve(A, np.array([3.0, 4.0, 3.0]))
    array([1., 1., 1.])
    """
    column = require_vector("c", c, *([] if r is None else [r]))
    row = conj(column) if r is None else _beside(r, column)
    column, row = common_precision(column, row)
    joined = _joined(namespace(row).flip(row[..., 1:], axis=-1), column)
    return Matrix(_of_sizes(Toeplitz, column.shape[-1], row.shape[-1]), joined)


@public
def hankel(c: AnyArray, r: AnyArray | None = None) -> Matrix:
    """The Hankel matrix with this first column and last row, never formed.

        A[i, j] = c[i + j] for i + j < m,    r[i + j - m + 1] beyond

    Parameters
    ----------
    c : array (*batch, m)
        The first column.
    r : array (*batch, n), optional
        The last row, of which the first number is not read; m zeros where it is absent.

    Returns
    -------
    A : Matrix (*batch, m, n)
        With m + n - 1 numbers.

    Raises
    ------
    ValueError, TypeError
        As in `toeplitz`.

    Notes
    -----
    Differentiable as `toeplitz` is, which it is with its columns in the other order.
    Cost: that of `toeplitz`.

    References
    ----------
    Golub and Van Loan, section 4.7.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.hankel([1.0, 2.0], [2.0, 3.0, 4.0]) @ np.eye(3)
    array([[1., 2., 3.],
           [2., 3., 4.]])
    """
    column = require_vector("c", c, *([] if r is None else [r]))
    row = namespace(column).zeros_like(column) if r is None else _beside(r, column)
    column, row = common_precision(column, row)
    return Matrix(_of_sizes(Hankel, column.shape[-1], row.shape[-1]), _joined(column, row[..., 1:]))


@public
def circulant(c: AnyArray) -> Matrix:
    """The circulant matrix with this first column, never formed.

        A[i, j] = c[(i - j) mod n],    A = F^-1 diag(F c) F

    Parameters
    ----------
    c : array (*batch, n)
        The first column.

    Returns
    -------
    A : Matrix (*batch, n, n)
        With n numbers. SciPy's function returns an array.

    Raises
    ------
    ValueError, TypeError
        As in `toeplitz`.

    See Also
    --------
    solve_circulant

    Notes
    -----
    Differentiable in c, in every mode and order.
    Cost: products, solves, determinants and gradients are FFTs, n log n operations, on any device.

    References
    ----------
    Golub and Van Loan, section 4.8.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.circulant([3.0, 1.0, 0.0])
    >>> float(ldiv.logdet(A).round(6)) == float(np.log(28.0).round(6))
    True
    """
    column = require_vector("c", c, least=0)
    return Matrix(_of_sizes(Circulant, column.shape[-1]), column)


@public
def convolution_matrix(a: AnyArray, n: int, mode: ConvolutionMode = "full") -> Matrix:
    """The Toeplitz matrix whose product is a convolution, never formed.

        A v = convolve(a, v, mode)

    Parameters
    ----------
    a : array (*batch, m)
        What is convolved with.
    n : int
        The length of v.
    mode : {"full", "same", "valid"}, default "full"
        The length of the result: m + n - 1, max(m, n), or max(m, n) - min(m, n) + 1, as in
        `numpy.convolve`.

    Returns
    -------
    A : Matrix (*batch, length, n)
        With length + n - 1 numbers.

    Raises
    ------
    ValueError, TypeError
        As in `toeplitz`.

    Notes
    -----
    Differentiable in a, in every mode and order.
    Cost: that of `toeplitz`.

    References
    ----------
    Golub and Van Loan, section 4.7.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.convolution_matrix([1.0, 2.0], 2) @ np.eye(2)
    array([[1., 0.],
           [2., 1.],
           [0., 2.]])
    """
    kernel = require_vector("a", a)
    n = require_int("n", n, 1, 2**56)  # beyond, no memory has as many bytes as numbers
    require_option("mode", mode, get_args(ConvolutionMode))
    m, xp = kernel.shape[-1], namespace(kernel)
    zeros = xp.zeros((*kernel.shape[:-1], n - 1), **alike(kernel))
    rows = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - min(m, n) + 1}[mode]
    # of all m + n - 1 rows those in the middle; number d of p is on the diagonal d - (n - 1)
    before = {"full": 0, "same": (min(m, n) - 1) // 2, "valid": min(m, n) - 1}[mode]
    p = _joined(_joined(zeros, kernel), zeros)
    return Matrix(_of_sizes(Toeplitz, rows, n), p[..., before : before + rows + n - 1])


def require_vector(name: str, x: Any, *others: Any, least: int = 1) -> Array:
    """An array (*batch, n) of numbers, n >= `least`."""
    x = as_float(name, x, *others)
    if not x.ndim or x.shape[-1] < least:
        raise value_error(
            name, "shape (..., n)", tuple(x.shape), f"It has {least} numbers or more."
        )
    return x


def _beside(r: Any, c: Array) -> Array:
    row = require_vector("r", r, c)
    together("r", row, c)
    require_batches("r", batch_of(c, 1), batch_of(row, 1))
    return row


def _joined(x: Array, y: Array) -> Array:
    """Concatenate x and y, broadcast to common batch axes."""
    batch = broadcast(batch_of(x, 1), batch_of(y, 1))
    return namespace(x).concat([spread(x, batch, 1), spread(y, batch, 1)], axis=-1)


@bounded_cache(64)
def _of_sizes(kind: Callable[..., Structure], *sizes: int) -> Structure:
    """Return the one structure of a kind and size, so that its cached work is found again."""
    return kind(*sizes)
