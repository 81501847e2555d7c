"""Angles between subspaces."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import adjoint, astype, batch_of, result_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import common_precision, require_batches, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.rules.rule import bind
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.spectra.dense_svd import svdvals
from ldiv.rules.assertion import checked
from ldiv.rules.full_rank import require_full_rank
from ldiv.rules.qr import QR


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
    angles: Any = as_one_node(_angles, *(astype(x, wide) for x in both))
    return angles


def _angles(a: Array, b: Array) -> Array:
    one, two = _basis("A", a), _basis("B", b)
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


def _basis(name: str, x: Array) -> Array:
    """Orthonormal columns of the same span."""
    n, k = x.shape[-2:]
    if k > n:
        advice = "More columns are dependent."
        raise value_error(name, f"at most {n} columns", str(k), advice)
    both = namespace(x).concat(bind(QR(), x), axis=-2)
    return checked(_require_independent, both)[..., :n, :]


def _require_independent(both: Array) -> None:
    """Q, and below it R."""
    require_full_rank(both[..., both.shape[-2] - both.shape[-1] :, :])
