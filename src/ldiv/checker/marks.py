"""Marks declare that a matrix is and stays symmetric, Hermitian, positive definite, triangular or
orthonormal.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from ldiv.checker.tangents import Argument, Map, exchange, itself, places, self_adjoint_part
from ldiv.core.arrays.shapes import adjoint
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import require_flag, require_float, require_square
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.finite import require_finite
from ldiv.errors import NotPositiveDefiniteError, NotSymmetricError, type_error, value_error
from ldiv.linalg.inverses.determinants import logdet
from ldiv.linalg.spectra.eigen import eigsh
from ldiv.matrices.matrix import converted
from ldiv.matrices.sparse_array import SparseArray

DENSE = 1000  # up to this order the least eigenvalue is LAPACK's


def symmetric(A: SparseArray | AnyArray) -> Argument:
    """Mark an argument of `gradcheck` as symmetric: it stays so.

        A = A^T,    dA = dA^T

    Parameters
    ----------
    A : array (*batch, n, n) or SparseArray
        The matrix, of float64 or complex128.

    Returns
    -------
    argument : Argument
        For `gradcheck`, which gives the function the plain array or SparseArray.

    Raises
    ------
    NotSymmetricError
        Where A is not symmetric.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For single precision, and for a SparseArray with duplicates.

    Notes
    -----
    Not differentiable: a mark of the argument, no operation on it.
    Cost: a comparison of A with its transpose.

    Examples
    --------
    >>> import ldiv, torch
    >>> A = torch.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=torch.float64)
    >>> ldiv.gradcheck(torch.linalg.eigvalsh, ldiv.symmetric(A)).ok
    True
    """
    return _self_adjoint("symmetric", A, itself, "transpose")


def hermitian(A: SparseArray | AnyArray) -> Argument:
    """Mark an argument of `gradcheck` as Hermitian: it stays so.

        A = A^H,    dA = dA^H

    Parameters
    ----------
    A : array (*batch, n, n) or SparseArray
        The matrix, of float64 or complex128.

    Returns
    -------
    argument : Argument
        For `gradcheck`, which gives the function the plain array or SparseArray.

    Raises
    ------
    NotSymmetricError
        Where A is not Hermitian.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For single precision, and for a SparseArray with duplicates.

    Notes
    -----
    Not differentiable: a mark of the argument, no operation on it.
    Cost: a comparison of A with its conjugate transpose.

    Examples
    --------
    >>> import ldiv, torch
    >>> A = torch.tensor([[2.0, 1.0j], [-1.0j, 5.0]], dtype=torch.complex128)
    >>> ldiv.gradcheck(torch.linalg.eigvalsh, ldiv.hermitian(A)).ok
    True
    """
    return _self_adjoint("hermitian", A, np.conj, "conjugate transpose")


def positive_definite(A: SparseArray | AnyArray) -> Argument:
    """Mark an argument of `gradcheck` as Hermitian positive definite: it stays so.

        A = A^H > 0,    dA = dA^H,    |dA| at most half of the least eigenvalue

    Parameters
    ----------
    A : array (*batch, n, n) or SparseArray
        The matrix, of float64 or complex128.

    Returns
    -------
    argument : Argument
        For `gradcheck`, which gives the function the plain array or SparseArray.

    Raises
    ------
    NotPositiveDefiniteError
        Where A has an eigenvalue that is not positive.
    NotSymmetricError
        Where A is not Hermitian.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For single precision, and for a SparseArray with duplicates.

    Notes
    -----
    Not differentiable: a mark of the argument, no operation on it.
    Cost: the eigenvalues of A by LAPACK; for a SparseArray of order above 1000 a Cholesky
    factorization, and the least eigenvalue by `eigsh` with sigma=0.

    Examples
    --------
    >>> import ldiv, torch
    >>> A = torch.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=torch.float64)
    >>> ldiv.gradcheck(torch.linalg.cholesky, ldiv.positive_definite(A)).ok
    True
    """
    argument = hermitian(A)
    if not (least := _least_eigenvalue(argument.value)) > 0:
        raise NotPositiveDefiniteError("gradcheck", f"the eigenvalue {least:.1e}")
    return Argument(argument.value, argument.project, least)


def triangular(
    L: SparseArray | AnyArray, *, lower: bool = True, unit_diagonal: bool = False
) -> Argument:
    """Mark an argument of `gradcheck` as triangular: only one triangle of it is read.

        dL = the triangle of dL

    Parameters
    ----------
    L : array (*batch, n, n) or SparseArray
        The matrix, of float64 or complex128.
    lower : bool, default True
        Which triangle is read, the lower or the upper one.
    unit_diagonal : bool, default False
        Whether the diagonal is taken for ones, and not read.

    Returns
    -------
    argument : Argument
        For `gradcheck`, which gives the function the plain array or SparseArray.

    Raises
    ------
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For single precision.

    Notes
    -----
    Not differentiable: a mark of the argument, no operation on it.
    Cost: a comparison of the row and column indices.

    Examples
    --------
    >>> import ldiv, torch
    >>> L, b = torch.tensor([[2.0, 9.0], [1.0, 4.0]], dtype=torch.float64), torch.ones(2).double()
    >>> f = lambda L: ldiv.solve_triangular(L, b, lower=True)
    >>> ldiv.gradcheck(f, ldiv.triangular(L)).ok
    True
    """
    lower = require_flag("lower", lower)
    unit_diagonal = require_flag("unit_diagonal", unit_diagonal)
    L = _matrix("L", L)
    row, col = places(L)
    below = row - col if lower else col - row
    return Argument(L, partial(operator.mul, below > 0 if unit_diagonal else below >= 0))


def orthonormal(X: SparseArray | AnyArray) -> Argument:
    """Mark an argument of `gradcheck` as a matrix with orthonormal columns: it keeps them.

        X^H X = I,    X^H dX + dX^H X = 0

    Parameters
    ----------
    X : array (*batch, n, k)
        The matrix, of float64 or complex128.

    Returns
    -------
    argument : Argument
        For `gradcheck`, which gives the function the plain array.

    Raises
    ------
    ValueError
        For columns that are not orthonormal to 1e-8, shapes, NaN and infinity.
    TypeError
        For single precision.

    Notes
    -----
    Not differentiable: a mark of the argument, no operation on it.
    Cost: the product X^H X.

    Examples
    --------
    >>> import ldiv, torch
    >>> X = torch.linalg.qr(torch.arange(6.0).double().reshape(3, 2) ** 2)[0]
    >>> ldiv.gradcheck(lambda X: (X.mT @ X).sum() + X[0, 0], ldiv.orthonormal(X)).ok
    True
    """
    x = asnumpy(_matrix("X", X, arrays=True))
    if (defect := np.abs(adjoint(x) @ x - np.eye(x.shape[-1])).max(initial=0)) > 1e-8:
        raise value_error(
            "X",
            "orthonormal columns",
            f"X^H X - I up to {defect:.1e}",
            "Take the Q of a QR factorization.",
        )
    return Argument(X, partial(_tangent_to_orthonormal, x))


def _matrix(name: str, a: Any, *, arrays: bool = False) -> Any:
    """An array of matrices, or a SparseArray, with finite numbers; one of SciPy as ours."""
    if not arrays and (ours := converted(name, a)) is not None:
        a = ours
    sparse = isinstance(a, SparseArray) and not arrays
    values = require_float(name, a.data if sparse else a)
    if not sparse and values.ndim < 2:
        raise value_error(
            name, "a matrix (*batch, m, n)", f"shape {tuple(values.shape)}", "Add the missing axis."
        )
    require_finite(name, asnumpy(values))
    return a


def _self_adjoint(name: str, A: Any, conj: Map, partner: str) -> Argument:
    A = _matrix("A", A)
    require_square("A", tuple(A.shape[-2:]))
    if (swap := exchange(A)) is None:
        advice = "Add up the duplicates of a SparseArray first."
        raise type_error(
            name, "a square array, or a SparseArray without duplicates", repr(A)[:60], advice
        )
    (x,) = map(asnumpy, Argument(A).flat)
    defect, largest = np.abs(x - conj(swap(x))).max(initial=0), np.abs(x).max(initial=0)
    if defect > 1e-12 * largest:
        raise NotSymmetricError(float(defect / largest), partner)
    return Argument(A, partial(self_adjoint_part, swap, conj))


def _tangent_to_orthonormal(x: HostArray, d: HostArray) -> HostArray:
    return d - x @ (adjoint(x) @ d + adjoint(d) @ x) / 2


def _least_eigenvalue(A: Any) -> float:
    if isinstance(A, SparseArray):
        A = A.with_data(asnumpy(A.data))
        if A.shape[-1] > DENSE:
            logdet(A, assume_a="pos")  # or the eigenvalue nearest to 0 may not be the least
            return float(eigsh(A, k=1, sigma=0.0, return_eigenvectors=False)[0])
        A = A.toarray()
    return float(np.linalg.eigvalsh(asnumpy(A)).min(initial=np.inf))
