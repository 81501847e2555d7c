"""Properties of a matrix: constants, without derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import (
    as_float,
    require_known,
    require_number,
    require_two_dimensions,
)
from ldiv.core.calls.public import public
from ldiv.errors import type_error, value_error
from ldiv.matrices.construct import sparse_of
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.matrices.sparse_array import SparseArray

ADVICE = "Ask before the function is traced."


@public
def issparse(x: Any) -> bool:
    """Tell whether this is one of ldiv's sparse arrays.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    answer : bool

    Notes
    -----
    Sparse matrices of other libraries are not meant: `ldiv.asarray` makes one of them.
    Not differentiable. Cost: none.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.issparse(ldiv.eye_array(2))
    True
    """
    return isinstance(x, SparseArray)


@public
def aslinearoperator(A: MatrixLike) -> Matrix:
    """Return any matrix as an operator, with its representation unchanged.

        A.matvec(x) = A @ x,    A.rmatvec(x) = A.H @ x

    Parameters
    ----------
    A : array, sparse array, operator of SciPy, PyTorch or JAX, or any other matrix
        The matrix.

    Returns
    -------
    B : Matrix
        With `matvec`, `rmatvec`, `matmat`, `rmatmat`, as SciPy's solvers ask for.

    Raises
    ------
    TypeError
        For what is no matrix.

    Notes
    -----
    Differentiable as A is. Cost: none.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.aslinearoperator(np.eye(2)).matvec(np.ones(2))
    array([1., 1.])
    """
    return as_matrix("A", A)


@public
def find(A: SparseArray) -> tuple[Any, Any, Any]:
    """The entries of a sparse array that are stored, duplicates added up.

    Parameters
    ----------
    A : SparseArray (*batch, m, n)
        The matrix.

    Returns
    -------
    rows, columns : arrays of integers (nnz,)
        Where they are, in NumPy.
    values : array (*batch, nnz)
        What they are. Zeros that are stored stay: which ones are zero is no constant.

    Raises
    ------
    TypeError
        For anything but a SparseArray.

    Notes
    -----
    The values are differentiable in those of A. Cost: a copy.

    Examples
    --------
    >>> import ldiv
    >>> rows, columns, values = ldiv.find(ldiv.eye_array(2))
    >>> values
    array([1., 1.])
    """
    whole = _sparse(A).tocoo().sum_duplicates()
    return *whole.coords, whole.values


@public
def bandwidth(a: AnyArray) -> tuple[int, int]:
    """Count the diagonals below and above the main one that have numbers other than 0.

    Parameters
    ----------
    a : array (m, n)
        A dense matrix with known numbers.

    Returns
    -------
    lower, upper : int

    Raises
    ------
    ValueError, TypeError
        For shapes, and for numbers that are not known, as under jit.

    Notes
    -----
    Not differentiable: whole numbers. Cost: one pass over the numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.bandwidth(np.triu(np.ones((3, 3))))
    (0, 2)
    """
    lower, upper = scipy.linalg.bandwidth(_numbers("a", a))
    return int(lower), int(upper)


@public
def spbandwidth(A: SparseArray) -> tuple[int, int]:
    """Count the diagonals below and above the main one on which a sparse array has entries.

    Parameters
    ----------
    A : SparseArray (*batch, m, n)
        The matrix.

    Returns
    -------
    lower, upper : int

    Raises
    ------
    TypeError
        For anything but a SparseArray.

    Notes
    -----
    By the pattern alone, also under jit; not differentiable. Cost: one pass over the entries.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.spbandwidth(ldiv.eye_array(3, k=1))
    (0, 1)
    """
    distance = _distance(A)
    return max(0, int(-distance.min(initial=0))), max(0, int(distance.max(initial=0)))


@public
def is_sptriangular(A: SparseArray) -> tuple[bool, bool]:
    """Tell whether a sparse array has no entries above the diagonal, and none below it.

    Parameters
    ----------
    A : SparseArray (*batch, m, n)
        The matrix.

    Returns
    -------
    lower, upper : bool

    Raises
    ------
    TypeError
        For anything but a SparseArray.

    Notes
    -----
    By the pattern alone, also under jit; not differentiable. Cost: one pass over the entries.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.is_sptriangular(ldiv.eye_array(3, k=1))
    (False, True)
    """
    below, above = spbandwidth(A)
    return above == 0, below == 0


@public
def issymmetric(
    a: AnyArray | SparseArray, atol: float | None = None, rtol: float | None = None
) -> bool:
    """Tell whether a matrix, dense or sparse, is its transpose.

        |a_ij - a_ji| <= atol + rtol |a_ji|

    Parameters
    ----------
    a : array (n, n) or SparseArray
        A matrix with known numbers; what a sparse one does not store is 0.
    atol, rtol : float, optional
        To the last bit where neither is given.

    Returns
    -------
    answer : bool

    Raises
    ------
    ValueError, TypeError
        As in `bandwidth`.

    See Also
    --------
    ishermitian

    Notes
    -----
    A promise (`assume_a="sym"`) is checked by the function that receives it, up to rounding.
    Not differentiable. Cost: one pass over the numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.issymmetric(np.array([[0.0, 1.0], [1.0, 2.0]]))
    True
    """
    return _is_mirrored(a, False, atol, rtol)


@public
def ishermitian(
    a: AnyArray | SparseArray, atol: float | None = None, rtol: float | None = None
) -> bool:
    """Tell whether a matrix, dense or sparse, is its conjugate transpose.

        |a_ij - conj(a_ji)| <= atol + rtol |a_ji|

    Parameters
    ----------
    a : array (n, n) or SparseArray
        A matrix with known numbers; what a sparse one does not store is 0.
    atol, rtol : float, optional
        To the last bit where neither is given.

    Returns
    -------
    answer : bool

    Raises
    ------
    ValueError, TypeError
        As in `bandwidth`.

    Notes
    -----
    Not differentiable. Cost: one pass over the numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.ishermitian(np.array([[0.0, 1j], [-1j, 2.0]]))
    True
    """
    return _is_mirrored(a, True, atol, rtol)


def _is_mirrored(a: Any, conjugated: bool, atol: float | None, rtol: float | None) -> bool:
    given = {"atol": atol, "rtol": rtol}
    tolerances = {name: require_number(name, x, 0) for name, x in given.items() if x is not None}
    matrix = a if isinstance(a, SparseArray) else sparse_of("a", a)
    if matrix is None:
        mirrored = scipy.linalg.ishermitian if conjugated else scipy.linalg.issymmetric
        return bool(mirrored(_mirrorable(_numbers("a", a)), **tolerances))
    shape = _mirrorable(_single("a", matrix)).shape
    known = require_known("a", matrix.data, ADVICE)
    S = scipy.sparse.coo_array((known, matrix.coords), shape=shape).tocsr()
    other = S.conj().T if conjugated else S.T
    if not (S != other).nnz:  # infinities, too, are equal
        return True
    # |a_ij - a_ji| - rtol |a_ji| <= atol, also where nothing is stored
    with np.errstate(invalid="ignore"):
        apart = abs(S - other) - tolerances.get("rtol", 0) * abs(other)
    return bool(np.all(apart.data <= tolerances.get("atol", 0)))


def _sparse(A: Any) -> SparseArray:
    matrix = as_matrix("A", A)
    if not isinstance(matrix, SparseArray):
        advice = "ldiv.asarray makes one of an array."
        raise type_error("A", "a SparseArray", type(A).__name__, advice)
    return matrix


def _distance(A: Any) -> np.ndarray[Any, Any]:
    """Column less row, of every entry."""
    rows, columns = (np.asarray(i, np.int64) for i in _sparse(A).tocoo().coords)
    return columns - rows


def _numbers(name: str, a: Any) -> np.ndarray[Any, Any]:
    x = as_float(name, a)
    require_two_dimensions(name, x)
    return require_known(name, _single(name, x), ADVICE)


def _single(name: str, x: Any) -> Any:
    if x.ndim != 2:
        raise value_error(name, "shape (m, n)", tuple(x.shape), "One matrix at a time.")
    return x


def _mirrorable(x: Any) -> Any:
    if x.shape[0] != x.shape[1]:
        raise value_error("a", "a square matrix", tuple(x.shape), "No other one is its transpose.")
    return x
