"""solve, logdet and gaussian_logpdf, as functions of variables of PyTensor."""

from __future__ import annotations

import math
from typing import Any

from pytensor.tensor import as_tensor_variable

from ldiv.core.arrays.typing import Assumption
from ldiv.core.arrays.validate import require_option
from ldiv.errors import shown, type_error, value_error
from ldiv.pytensor.matrix import SparseArray
from ldiv.pytensor.operations import LogDet, Solve

ASSUMPTIONS = ("gen", "sym", "pos")


def solve(A: SparseArray, b: Any, *, assume_a: Assumption = "gen") -> Any:
    """Solve A x = b for a sparse A, as a variable of PyTensor.

    Parameters
    ----------
    A : SparseArray (n, n)
        The matrix.
    b : variable or array, (n,) or (n, k)
        The right-hand sides.
    assume_a : {"gen", "sym", "pos"}, default "gen"
        As in `ldiv.solve`.

    Returns
    -------
    x : variable like b
        The solution.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError
        As `ldiv.solve`, when the function that PyTensor compiled runs.

    Notes
    -----
    Differentiable in A and b, to every order.
    Cost: 1 factorization and 1 solve; the gradient 1 more solve.

    Examples
    --------
    >>> import ldiv.pytensor, numpy as np, pytensor.tensor as pt, scipy.sparse as sp
    >>> pattern = sp.csr_array(np.array([[4.0, 1.0], [0.0, 2.0]]))
    >>> A = ldiv.pytensor.SparseArray(pattern, pattern.data)
    >>> ldiv.pytensor.solve(A, np.array([6.0, 4.0])).eval()
    array([1., 2.])
    """
    b, n = as_tensor_variable(b), _checked(A, "A", assume_a).shape[0]
    if b.ndim not in (1, 2) or b.type.shape[0] not in (None, n) or b.dtype.startswith("complex"):
        wanted, advice = f"real, ({n},) or ({n}, k)", "Its rows are those of A."
        raise value_error("b", wanted, str(b.type), advice)
    return Solve(A.structure, assume_a)(A.values, b)


def logdet(A: SparseArray, *, assume_a: Assumption = "pos") -> Any:
    """Compute log det A for a sparse A, as a variable of PyTensor.

    Parameters
    ----------
    A : SparseArray (n, n)
        The matrix, whose determinant is positive.
    assume_a : {"pos", "sym", "gen"}, default "pos"
        As in `ldiv.logdet`.

    Returns
    -------
    size : scalar variable
        The logarithm.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError
        As `ldiv.logdet`, when the function that PyTensor compiled runs.

    Notes
    -----
    Differentiable in A, to second order.
    Cost: 1 factorization; the gradient, entries of the inverse on the pattern, about as much again.

    Examples
    --------
    >>> import ldiv.pytensor, numpy as np, pytensor, pytensor.tensor as pt, scipy.sparse as sp
    >>> values, pattern = pt.dvector(), sp.csr_array(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> size = ldiv.pytensor.logdet(ldiv.pytensor.SparseArray(pattern, values))
    >>> gradient = pytensor.grad(size, values)
    >>> gradient.eval({values: pattern.data}).round(4)
    array([ 0.6667, -0.3333, -0.3333,  0.6667])
    """
    _checked(A, "A", assume_a)
    return LogDet(A.structure, assume_a)(A.values)


def gaussian_logpdf(x: Any, *, precision: SparseArray, mean: Any = 0.0) -> Any:
    """Compute the log-density of a normal distribution with a sparse precision Q.

        log p(x) = (log det Q - (x - mean)^T Q (x - mean) - n log(2 pi)) / 2

    Parameters
    ----------
    x : variable or array (*batch, n)
        The points.
    precision : SparseArray (n, n)
        The inverse Q of the covariance, symmetric and positive definite.
    mean : variable, array or number, default 0
        The mean, broadcast against x.

    Returns
    -------
    logp : variable (*batch,)
        The logarithm of the density.

    Raises
    ------
    NotPositiveDefiniteError, NotSymmetricError
        As `ldiv.gaussian_logpdf`, when the function that PyTensor compiled runs.

    Notes
    -----
    Differentiable in x, Q and the mean, to second order.
    Cost: 1 factorization; the gradient about as much again. No solve.

    Examples
    --------
    >>> import ldiv.pytensor, numpy as np, scipy.sparse as sp
    >>> pattern = sp.eye_array(2, format="coo")
    >>> Q = ldiv.pytensor.SparseArray(pattern, np.ones(2))
    >>> ldiv.pytensor.gaussian_logpdf(np.zeros(2), precision=Q).eval().round(4)
    np.float64(-1.8379)
    """
    n = _checked(precision, "precision", "pos").shape[0]
    x = as_tensor_variable(x)
    if not x.ndim or x.type.shape[-1] not in (None, n):
        wanted, advice = f"(*batch, {n})", "A point has a number for each row of the precision."
        raise value_error("x", wanted, str(x.type), advice)
    d, values = x - mean, precision.values
    distance = (values * d[..., precision.row] * d[..., precision.col]).sum(-1)
    return (logdet(precision) - distance - n * math.log(2 * math.pi)) / 2


def _checked(A: Any, name: str, assume_a: str) -> SparseArray:
    require_option("assume_a", assume_a, ASSUMPTIONS)
    if not isinstance(A, SparseArray):
        advice = "Make one of a pattern and its values."
        raise type_error(name, "ldiv.pytensor.SparseArray", shown(A), advice)
    return A
