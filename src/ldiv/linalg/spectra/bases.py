"""Orthonormal bases of the range and the null space of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import eps
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_known, require_number
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import constant
from ldiv.core.rules.rule import bind
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.spectra.dense_svd import FOR_SOME, svdvals
from ldiv.rules.span import Span


@public
def orth(A: ArrayT, rcond: float | None = None) -> ArrayT:
    """An orthonormal basis of the range of a dense matrix, differentiably.

        span Q = {A x},    Q^H Q = I

    Parameters
    ----------
    A : array (*batch, m, n)
        The matrix, its numbers known; all of a batch have one rank.
    rcond : float, optional
        Singular values of at most rcond s_1 are taken for 0; max(m, n) eps by default.

    Returns
    -------
    Q : array (*batch, m, r)
        The left singular vectors of those that are not.

    Raises
    ------
    NotDifferentiableError
        In the derivative, for a loss that depends on the basis.
    ValueError
        For shapes, NaN and infinity, and members of a batch with different ranks.
    TypeError
        For dtypes, and under jit and vmap: the numbers say how many columns there are.

    See Also
    --------
    null_space, eigenspace, qr

    Notes
    -----
    Differentiable in every mode and order at constant rank.
    Cost: 1 singular value decomposition; 1 pseudoinverse for each direction of a derivative.

    References
    ----------
    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> abs(ldiv.orth(np.array([[3.0, 3.0], [4.0, 4.0]])))
    array([[0.6],
           [0.8]])
    """
    return _basis(A, rcond, False)


@public
def null_space(
    A: ArrayT,
    rcond: float | None = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> ArrayT:
    """An orthonormal basis of the null space of a dense matrix, differentiably.

        A N = 0,    N^H N = I

    Parameters
    ----------
    A : array (*batch, m, n)
        The matrix, as in `orth`.
    rcond : float, optional
        As in `orth`.
    overwrite_a, check_finite, lapack_driver : optional
        Accepted, as SciPy has them: nothing is ever overwritten, numbers are always looked at, and
        the framework's own decomposition is used.

    Returns
    -------
    N : array (*batch, n, n - r)
        The right singular vectors of the singular values that are taken for 0.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `orth`.

    Notes
    -----
    Differentiable as `orth` is. Cost: that of `orth` with all right singular vectors, or for m < n
    those of m x m numbers and a QR factorization of A^H.

    References
    ----------
    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> abs(ldiv.null_space(np.array([[3.0, 4.0]])))
    array([[0.8],
           [0.6]])
    """
    return _basis(A, rcond, True)


def _basis(A: Any, rcond: float | None, null: bool) -> Any:
    matrix = require_matrix_array("A", A, instead=FOR_SOME)
    rtol = eps(matrix) * max(*matrix.shape[-2:], 1)
    if rcond is not None:
        rtol = require_number("rcond", rcond, 0)
    advice = "Their rank says how many columns there are: ldiv.qr, ldiv.svd have all."
    values = require_known("A", svdvals(constant(matrix)), advice)
    ranks = np.unique((values > rtol * values[..., :1]).sum(-1))
    if len(ranks) > 1:
        came, advice = f"ranks {[*map(int, ranks)]}", "Take the members one by one."
        raise value_error("A", "matrices of one rank", came, advice)
    return bind(Span(int(ranks[0]) if len(ranks) else 0, rtol, null), matrix)[0]
