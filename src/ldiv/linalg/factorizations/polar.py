"""The polar decomposition under SciPy's name, and the rotation that it gives."""

from __future__ import annotations

from typing import Literal, get_args

from ldiv.core.arrays.shapes import adjoint, astype, real, result_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.core.rules.rule import bind
from ldiv.linalg.arguments.dense_arguments import require_matrix_array, require_partner
from ldiv.rules.polar import Polar

Side = Literal["right", "left"]


@public
def polar(a: ArrayT, side: Side = "right") -> tuple[ArrayT, ArrayT]:
    """Factor a matrix into a unitary and a Hermitian positive semidefinite one, differentiably.

        A = U P (side="right"),    A = P U (side="left"),    U^H U = I or U U^H = I

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix.
    side : {"right", "left"}, default "right"
        On which side of U the matrix P is.

    Returns
    -------
    U : array (*batch, m, n)
        Orthonormal columns, or rows for m < n: of all such matrices the closest one to A.
    P : array (*batch, n, n), or (*batch, m, m) for side="left"
        The root of A^H A, or of A A^H.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where the rank is not full, or P is the larger one of both.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    svd, orthogonal_procrustes

    Notes
    -----
    Differentiable in every mode and order, also where singular values coincide.
    Cost: 1 singular value decomposition; for all derivatives 1 Schur form of P, on the host, and a
    few products for each direction.

    References
    ----------
    Higham, Functions of Matrices (2008), chapter 8.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> U, P = ldiv.polar(np.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> (U + 0).round(12) + 0, P.round(12) + 0
    (array([[ 0., -1.],
           [ 1.,  0.]]), array([[3., 0.],
           [0., 2.]]))
    """
    matrix = require_matrix_array("a", a)
    require_option("side", side, get_args(Side))
    if side == "right":
        u, p = bind(Polar(), matrix)
        return u, p
    u, p = bind(Polar(), adjoint(matrix))
    return adjoint(u), p


@public
def orthogonal_procrustes(
    A: ArrayT, B: AnyArray, check_finite: bool = True
) -> tuple[ArrayT, ArrayT]:
    """Find the unitary matrix that maps one set of points to another best, differentiably.

        R = argmin |A R - B|_F over R^H R = I;    scale = |A^H B|_nuc

    Parameters
    ----------
    A : array (*batch, m, n)
        The points that are mapped, as rows.
    B : array (*batch, m, n)
        Where they should go.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    R : array (*batch, n, n)
        The unitary factor of A^H B.
    scale : array (*batch,)
        The sum of its singular values; scale / |A|_F^2 is the factor that fits best beside R.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where A^H B is singular and R not unique.
    ValueError, TypeError
        As in `polar`, and for mixed frameworks.

    Notes
    -----
    Differentiable in A and B, in every mode and order.
    Cost: 1 product and that of `polar`.

    References
    ----------
    Schoenemann, Psychometrika 31 (1966).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> turned = A @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> R, scale = ldiv.orthogonal_procrustes(A, turned)
    >>> R.round(12) + 0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    one = require_matrix_array("A", A, B)
    advice = "Every row of A has its place in B."
    two = require_partner("B", B, one, tuple(one.shape[-2:]), advice)
    require_known_finite("A", one)
    require_known_finite("B", two)
    dtype = result_dtype(one, two)
    u, p = bind(Polar(), astype(adjoint(one), dtype) @ astype(two, dtype))
    return u, real(namespace(p).sum(namespace(p).linalg.diagonal(p), axis=-1))
