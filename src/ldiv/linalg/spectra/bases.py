"""Orthonormal bases of the range and the null space of a matrix, and angles between subspaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, astype, batch_of, eps, result_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import (
    common_precision,
    require_batches,
    require_known,
    require_number,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, constant, namespace
from ldiv.core.rules.rule import bind
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.spectra.dense_svd import FOR_SOME, svdvals
from ldiv.rules.assertion import checked
from ldiv.rules.full_rank import require_full_rank
from ldiv.rules.qr import QR
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
        Accepted, as SciPy has them: nothing is ever overwritten, numbers are always checked, and
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


@public
def subspace_angles(A: ArrayT, B: AnyArray) -> ArrayT:
    """Compute the angles between the column spaces of two matrices, differentiably.

        cos theta_i = s_i(Q_A^H Q_B),    sin theta_i = s_i(Q_B - Q_A Q_A^H Q_B)

    Parameters
    ----------
    A : array (*batch, n, k)
        Independent columns.
    B : array (*batch, n, l)
        Independent columns.

    Returns
    -------
    theta : array (*batch, min(k, l))
        The angles in radians, descending. Those below pi / 4 are computed by their sines.

    Raises
    ------
    SingularMatrixError
        For columns that are dependent.
    NotDifferentiableError
        In the derivative, at angles of 0 and pi / 2, and of single ones that coincide.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable in A and B in every mode and order, elsewhere.
    Cost: 2 QR factorizations and 2 small singular value decompositions.

    References
    ----------
    Knyazev and Argentati, SIAM J. Sci. Comput. 23 (2002).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.subspace_angles(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])).round(6)
    array([0.785398])
    """
    one = require_matrix_array("A", A, B)
    two = require_matrix_array("B", B, one)
    together("B", two, one)
    if one.shape[-2] != two.shape[-2]:
        came, advice = f"{two.shape[-2]} rows", "Both are spaces of vectors of one length."
        raise value_error("B", f"{one.shape[-2]} rows, as A", came, advice)
    require_batches("B", batch_of(one, 2), batch_of(two, 2))
    both, wide = common_precision(one, two), result_dtype(one, two)
    return as_one_node(_angles, *(astype(x, wide) for x in both))


def _angles(a: Array, b: Array) -> Array:
    one, two = _orthonormal("A", a), _orthonormal("B", b)
    if one.shape[-1] < two.shape[-1]:
        one, two = two, one
    xp, inner = namespace(one), adjoint(one) @ two
    cosines = xp.flip(svdvals(inner), axis=-1)
    sines = svdvals(two - one @ inner)
    small = cosines * cosines >= 0.5
    # in entries where the other formula counts, a number with a finite derivative
    half = xp.full_like(cosines, 0.5)
    by_sine = xp.asin(xp.where(small, xp.minimum(sines, 2 * half), half))
    return xp.where(small, by_sine, xp.acos(xp.where(small, half, cosines)))


def _orthonormal(name: str, x: Array) -> Array:
    """Orthonormal columns of the same span."""
    n, k = x.shape[-2:]
    if k > n:
        raise value_error(name, f"at most {n} columns", k, "More columns are dependent.")
    both = namespace(x).concat(bind(QR(), x), axis=-2)
    return checked(_require_independent, both)[..., :n, :]


def _require_independent(both: Array) -> None:
    """Q, and below it R."""
    require_full_rank(both[..., both.shape[-2] - both.shape[-1] :, :])
