"""Determinants and their logarithms.

log det A by Cholesky where A is positive definite; sign and logarithm by LU elsewhere.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.typing import AnyArray, ArrayT, Assumption
from ldiv.core.validate import require_square
from ldiv.errors import expected_got
from ldiv.linalg.solve import require_method
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.assertion import finite
from ldiv.rules.logabsdet import LogAbsDet
from ldiv.rules.slogdet import SLogDet
from ldiv.structures.dense import Dense


@overload
def logdet(A: Matrix, *, assume_a: Assumption = "gen", method: str = "auto") -> Any: ...
@overload
def logdet(A: ArrayT, *, assume_a: Assumption = "gen", method: str = "auto") -> ArrayT: ...
@public
def logdet(A: MatrixLike, *, assume_a: Assumption = "gen", method: str = "auto") -> AnyArray:
    """Compute the logarithm of a positive determinant, differentiably.

        l = log det A

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Any matrix that `solve` factors where it is positive definite, by assumption or by its
        structure; otherwise a dense array with a positive determinant.
    assume_a : str, default "gen"
        As in `solve`. With "pos" the determinant is that of the Cholesky factor.
    method : str, default "auto"
        As in `solve`; how a positive definite matrix is factored.

    Returns
    -------
    l : array (*batch,)
        The logarithm.

    Raises
    ------
    ValueError
        Where the determinant is not positive (see `slogdet`), and for a matrix that is neither
        dense nor positive definite by assumption or structure.
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError, TypeError
        As `solve`.

    See Also
    --------
    slogdet : the sign too, of any dense matrix.

    Notes
    -----
    Differentiable in A in every mode and order: A_bar = l_bar A^-H on the structure of A.
    Cost: 1 factorization; the derivative n solves, a block at a time.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> round(float(ldiv.logdet(np.diag([2.0, 3.0]))), 12)
    1.791759469228
    """
    require_method(method)
    matrix, structure, params, assumption = promised_square(A, assume_a)
    if assumption == "pos":  # 2 sum log diag(L), A = L L^H
        return bind(LogAbsDet(structure, assumption, method), params)[0]
    if not isinstance(matrix.structure, Dense):
        raise ValueError(
            expected_got(
                "assume_a",
                "'pos' for a matrix that is not dense",
                repr(assume_a),
                "The sign of its determinant is not known.",
            )
        )
    # An LU factorization knows the sign: it is checked to be 1.
    return bind(SLogDet(structure.shape[0], positive=True), matrix.params)[1]


@public
def slogdet(A: ArrayT) -> tuple[ArrayT, ArrayT]:
    """Compute the sign and the logarithm of the absolute value of a determinant, differentiably.

        det A = s exp(l),    |s| = 1

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix, dense.

    Returns
    -------
    s : array (*batch,)
        The sign, a complex number of modulus 1 for a complex A; 0 for a singular A.
    l : array (*batch,)
        The logarithm, real; -inf for a singular A, as in NumPy.

    Raises
    ------
    SingularMatrixError
        From the derivative, which a singular A does not have.
    TypeError
        For a matrix that is not dense: see `logdet`, and `factorized(A).logabsdet()`.

    Notes
    -----
    Differentiable in A in every mode and order, where A is regular:

        dl = Re tr(A^-1 dA),    ds = i s Im tr(A^-1 dA), which is 0 for a real A

    Cost: 1 factorization; the gradient is A^-H, which takes n solves.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> s, l = ldiv.slogdet(np.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> float(s), round(float(l), 6)
    (-1.0, 0.693147)
    """
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    if not isinstance(matrix.structure, Dense):
        advice = (
            "Sparse engines tell |det A|: use ldiv.factorized(A).logabsdet(), "
            "or logdet(A, assume_a='pos')."
        )
        raise TypeError(expected_got("A", "a dense array", type(A).__name__, advice))
    s, l = bind(SLogDet(matrix.structure.shape[0]), matrix.params)
    return s, l


@public
def det(A: ArrayT) -> ArrayT:
    """Compute the determinant of a dense matrix, differentiably.

        d = det A

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix, dense.

    Returns
    -------
    d : array (*batch,)
        The determinant.

    Raises
    ------
    LinAlgOverflowError
        For a determinant that its dtype cannot hold: `slogdet` has its logarithm.
    SingularMatrixError, TypeError
        As `slogdet`.

    Notes
    -----
    Differentiable in A in every mode and order, where A is regular.
    Cost: as `slogdet`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> round(float(ldiv.det(np.array([[0.0, 2.0], [1.0, 0.0]]))), 12)
    -2.0
    """
    s, l = slogdet(A)
    with np.errstate(all="ignore"):  # an overflow is an error of ours, not a warning of NumPy's
        return finite("det", s * namespace(l).exp(l))
