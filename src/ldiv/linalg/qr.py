"""A = Q R under SciPy's name: a function that validates and calls the rule."""

from __future__ import annotations

from typing import Literal, overload

from ldiv.core.arrays import adjoint
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.typing import ArrayT
from ldiv.core.validate import require_option
from ldiv.linalg.dense_arguments import require_matrix_array
from ldiv.rules.qr import QR


@overload
def qr(
    a: ArrayT,
    mode: Literal["economic"] = "economic",
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def qr(
    a: ArrayT, mode: Literal["r"], *, overwrite_a: bool = False, check_finite: bool = True
) -> ArrayT: ...
@public
def qr(
    a: ArrayT,
    mode: Literal["economic", "r"] = "economic",
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT] | ArrayT:
    """Factor a matrix into orthonormal columns and a triangle, differentiably.

        A = Q R,    Q^H Q = I, R upper triangular with a real diagonal, of LAPACK's signs

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix; k = min(m, n).
    mode : {"economic", "r"}, default "economic"
        Return both factors, or R alone. SciPy's mode "full" is not here: the other columns of its Q
        are arbitrary, and have no derivative.
    overwrite_a, check_finite : bool
        Accepted, as SciPy has them: nothing is ever overwritten, and numbers are always looked at.

    Returns
    -------
    Q : array (*batch, m, k)
        Orthonormal columns; not with mode="r".
    R : array (*batch, k, n)
        Upper triangular. SciPy's mode "r" returns it as m x n, in a tuple.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where the first k columns of A depend on each other.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable in every mode and order where the first k columns of A are independent.
    Cost: 1 factorization; each direction of a derivative 1 triangular solve and 2 products.

    References
    ----------
    Walter and Lehmann (2010), arXiv:1009.6112; Roberts and Roberts (2020), arXiv:2009.10071.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> Q, R = ldiv.qr(np.array([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]]))
    >>> bool(np.allclose(Q @ R, [[3, 1], [4, 2], [0, 2]]))
    True
    """
    require_option("mode", mode, ("economic", "r"))
    matrix = require_matrix_array("a", a)
    m, n = matrix.shape[-2:]
    q, r = bind(QR(), matrix if m >= n else matrix[..., :m])
    if m < n:  # [A1 A2] = Q [R1, Q^H A2]
        r = namespace(r).concat([r, adjoint(q) @ matrix[..., m:]], axis=-1)
    return r if mode == "r" else (q, r)
