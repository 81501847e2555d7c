"""A = Q R, A = R Q and products with Q, by the rule of A = Q R."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Literal, get_args, overload

from ldiv.core.arrays.shapes import adjoint, conj
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import as_float, require_flag, require_option, together
from ldiv.core.calls.call import plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import bind
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import LEAST_SQUARES, require_matrix_array
from ldiv.rules.assertion import checked
from ldiv.rules.column_order import column_order
from ldiv.rules.complement import complement
from ldiv.rules.qr import QR

Mode = Literal["economic", "full", "r", "reduced", "complete"]


@overload
def qr(
    a: ArrayT,
    mode: Literal["economic", "full", "reduced", "complete"] = "economic",
    *,
    pivoting: Literal[False] = False,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def qr(
    a: ArrayT,
    mode: Literal["r"],
    *,
    pivoting: Literal[False] = False,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = True,
) -> ArrayT: ...
@overload
def qr(
    a: ArrayT,
    mode: Mode = "economic",
    *,
    pivoting: Literal[True],
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = True,
) -> tuple[ArrayT, ...]: ...
@public
@planned
def qr(
    a: ArrayT,
    mode: Mode = "economic",
    *,
    pivoting: bool = False,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = True,
) -> tuple[ArrayT, ...] | ArrayT:
    """Factor a matrix into orthonormal columns and a triangle, differentiably.

        A = Q R,    Q^H Q = I, R upper triangular with a real diagonal, of LAPACK's signs

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix; k = min(m, n).
    mode : {"economic", "full", "r"}, default "economic"
        Return both factors, Q (m, m) and R (m, n), or R alone. NumPy's and PyTorch's names are
        "reduced" and "complete". What "full" adds to a tall Q is
        arbitrary: a cotangent of these columns raises, and so does a tangent.
    pivoting : bool, default False
        Take the columns in another order, the largest remainder first: A[:, P] = Q R, |R_ii|
        descending.
    overwrite_a, lwork, check_finite : optional
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    Q : array (*batch, m, k)
        Orthonormal columns; not with mode="r".
    R : array (*batch, k, n)
        Upper triangular. SciPy's mode "r" returns it as m x n, in a tuple.
    P : array of integers (*batch, n)
        The order of the columns; with pivoting only.

    Raises
    ------
    NotDifferentiableError
        In the derivative, where the first k columns of A depend on each other, and of the other
        columns of mode="full".
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable in every mode and order where the first k columns of A are independent; P is
    constant near A. With pivoting, or a wide A, not by `vjp` and `jvp` of NumPy arrays.
    Cost: 1 factorization, with pivoting or mode="full" 2; each direction of a derivative 1
    triangular solve and 2 products.

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
    if mode == "reduced" or mode == "complete":
        mode = "economic" if mode == "reduced" else "full"
    require_option("mode", mode, ("economic", "full", "r"))
    matrix = require_matrix_array("a", a, instead=LEAST_SQUARES)
    (m, n), xp = matrix.shape[-2:], namespace(matrix)
    if not require_flag("pivoting", pivoting) and m >= n and (mode != "full" or m == n):
        return plan(QR(), [matrix], itemgetter(1) if mode == "r" else tuple)
    order: tuple[Any, ...] = ()
    if pivoting:
        order = (column_order(matrix),)
        wide = xp.broadcast_to(order[0][..., None, :], matrix.shape)
        matrix = xp.take_along_axis(matrix, wide, axis=-1)
    q, r = bind(QR(), matrix if m >= n else matrix[..., :m])
    if m < n:  # [A1 A2] = Q [R1, Q^H A2]
        others = checked(partial(require_finite, "A"), matrix[..., m:])
        r = xp.concat([r, adjoint(q) @ others], axis=-1)
    if mode == "r":
        return (r, *order) if order else r
    if mode == "full" and m > n:
        zeros = xp.zeros_like(matrix[..., n:, :])
        q, r = xp.concat([q, complement(q)], axis=-1), xp.concat([r, zeros], axis=-2)
    return (q, r, *order)


RQMode = Literal["economic", "full", "r"]
Side = Literal["left", "right"]


@public
def rq(
    a: ArrayT,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: RQMode = "economic",
    check_finite: bool = True,
) -> tuple[ArrayT, ArrayT] | ArrayT:
    """Factor a matrix into a triangle and orthonormal rows, differentiably.

        A = R Q,    Q Q^H = I, R upper triangular

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix; k = min(m, n).
    overwrite_a, lwork : optional
        Accepted, as SciPy has them: nothing is ever overwritten.
    mode : {"economic", "full", "r"}, default "economic"
        As in `qr`; SciPy's default is "full".
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    R : array (*batch, m, k)
        The last k columns of a triangle. Each column has the sign that `qr` gives it, which may be
        another than SciPy's.
    Q : array (*batch, k, n)
        Orthonormal rows; not with mode="r".

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `qr`, of whose factors these are adjoints.

    Notes
    -----
    Differentiable as `qr` is.
    Cost: that of `qr`.

    References
    ----------
    Golub and Van Loan, section 5.2.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> R, Q = ldiv.rq(np.array([[3.0, 4.0]]))
    >>> abs(R), abs(Q)
    (array([[5.]]), array([[0.6, 0.8]]))
    """
    matrix = require_matrix_array("a", a)
    require_option("mode", mode, get_args(RQMode))
    flip: Callable[..., Any] = namespace(matrix).flip
    turned = adjoint(flip(matrix, axis=-2))
    if mode == "r":
        return flip(adjoint(qr(turned, mode="r")), axis=(-2, -1))
    q, r = qr(turned, mode=mode)
    return flip(adjoint(r), axis=(-2, -1)), flip(adjoint(q), axis=-2)


@public
def qr_multiply(
    a: ArrayT,
    c: AnyArray,
    mode: Side = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[ArrayT, ...]:
    """Multiply by the orthonormal factor of a matrix, differentiably.

        Q c (mode="left"),    c Q (mode="right"),    A = Q R

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix; k = min(m, n).
    c : array (k,), or (*batch, k, l) for mode="left"; (m,), or (*batch, l, m) for mode="right"
        What is multiplied.
    mode : {"left", "right"}, default "right"
        The side on which Q stands.
    pivoting : bool, default False
        As in `qr`.
    conjugate : bool, default False
        Multiply by the conjugate of Q.
    overwrite_a, overwrite_c : bool
        Accepted, as SciPy has them: nothing is ever overwritten.

    Returns
    -------
    CQ : array
        The product, a vector if c is one.
    R : array (*batch, k, n)
        The triangle.
    P : array of integers (*batch, n)
        The order of the columns; with pivoting only.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `qr`; ValueError also for shapes of c.

    Notes
    -----
    Differentiable in a and c, as `qr` is.
    Cost: that of `qr` and of the product.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> CQ, R = ldiv.qr_multiply(np.array([[3.0], [4.0]]), np.array([3.0, 4.0]))
    >>> abs(CQ)
    array([5.])
    """
    matrix = require_matrix_array("a", a, c)
    block: Array = as_float("c", c, matrix)
    together("c", block, matrix)
    require_option("mode", mode, get_args(Side))
    with_order = require_flag("pivoting", pivoting)
    factors: Any = qr(matrix, pivoting=True) if with_order else qr(matrix)
    q = conj(factors[0]) if require_flag("conjugate", conjugate) else factors[0]
    left = mode == "left"
    size, at = (q.shape[-1], min(block.ndim, 2)) if left else (q.shape[-2], 1)
    if not block.ndim or block.shape[-at] != size:
        what = f"({size},) or (..., {size}, l)" if left else f"({size},) or (..., l, {size})"
        advice = f"Q is {q.shape[-2]} x {q.shape[-1]}."
        raise value_error("c", f"shape {what}", tuple(block.shape), advice)
    return namespace(q).matmul(*((q, block) if left else (block, q))), *factors[1:]
