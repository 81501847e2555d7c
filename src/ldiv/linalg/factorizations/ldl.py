"""A = L D L^H under SciPy's name: a function that validates and calls the rule."""

from __future__ import annotations

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.rule import bind
from ldiv.linalg.arguments.dense_arguments import require_square_array
from ldiv.rules.ldl import LDL
from ldiv.rules.lu import rows


@public
def ldl(
    A: ArrayT,
    lower: bool = True,
    hermitian: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Factor a symmetric or Hermitian matrix, definite or not, differentiably.

        A = L D L^H,    or with hermitian=False A = L D L^T

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix. Both triangles must be there and agree, as for `cholesky`.
    lower : bool, default True
        Return an L whose L[perm] is lower triangular, or upper triangular.
    hermitian : bool, default True
        A is Hermitian; if False, symmetric.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    L : array (*batch, n, n)
        A triangle, its rows in the order of those of A, as in SciPy.
    D : array (*batch, n, n)
        Blocks of size 1 and 2 on the diagonal.
    perm : array of integers (*batch, n)
        The order of the rows, for which L[perm] is triangular.

    Raises
    ------
    NotSymmetricError
        For a matrix that is not symmetric, or not Hermitian.
    NotDifferentiableError
        In the derivative, for a block of size 1 before the last that is exactly zero.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    LAPACK factors on the host.
    Differentiable in every mode and order, not in perm: the order and the places of the blocks are
    constant near A.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 2 products.

    References
    ----------
    Bunch and Kaufman (1977).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> L, D, perm = ldiv.ldl(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> D
    array([[0., 2.],
           [2., 0.]])
    """
    lower, hermitian = require_flag("lower", lower), require_flag("hermitian", hermitian)
    L, D, order = bind(
        LDL(lower, "H" if hermitian else "T"),
        require_square_array(
            "A", A, instead="ldiv.factorized(A, assume_a='sym') holds sparse factors."
        ),
    )
    return rows(L, namespace(order).argsort(order, axis=-1)), D, order
