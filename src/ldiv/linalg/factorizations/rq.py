"""A = R Q, and products with Q, by the rule of A = Q R."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from ldiv.core.arrays.shapes import adjoint, conj
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import as_float, require_flag, require_option, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.factorizations.qr import qr

Mode = Literal["economic", "full", "r"]
Side = Literal["left", "right"]


@public
def rq(
    a: ArrayT,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: Mode = "economic",
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
    require_option("mode", mode, get_args(Mode))
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
        raise value_error("c", f"shape {what}", str(tuple(block.shape)), advice)
    return namespace(q).matmul(*((q, block) if left else (block, q))), *factors[1:]
