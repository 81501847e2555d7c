"""Factors of dense matrices under SciPy's names: the public functions, which validate and call
rules.
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays import adjoint, batch_of, broadcast, spread
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS
from ldiv.core.trees import Array
from ldiv.core.validate import (
    as_block,
    common_precision,
    require_batches,
    require_flag,
    require_float,
    require_integers,
    require_option,
    require_pair,
    require_square,
    together,
    transposition,
)
from ldiv.errors import expected_got
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.ldl import LDL
from ldiv.rules.lu import LU, rows
from ldiv.rules.qr import QR
from ldiv.rules.row_order import row_order
from ldiv.rules.triangular_quotients import eye, left_solve
from ldiv.rules.triangular_quotients import lower as lower_triangle
from ldiv.rules.triangular_quotients import upper as upper_triangle


@public
def lu_factor(a: Array) -> tuple[Array, Array]:
    """Factor a matrix by Gaussian elimination with partial pivoting, differentiably.

        A = P L U,    L unit lower triangular, U upper triangular, packed in one array

    a: (*batch, m, n), square, tall or wide. Returns lu (*batch, m, n), with L below the diagonal
    and U on and above it, and piv (*batch, min(m, n)), the exchanges counted from 0, as in SciPy. A
    zero pivot is no error here (`lu_factor_ex` says where it is).
    dtypes: float32, float64, complex64, complex128.
    Differentiable in a in every mode and order, not in piv, which is constant near A; also where
    the last pivot is exactly zero. An earlier zero pivot, or of a tall matrix any, has no
    derivative: NotDifferentiableError, in the derivative.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 1 product.
    Raises ValueError for shapes, NaN and infinity; TypeError for dtypes.
    Source: de Hoog, Anderssen and Lukas (2011); Golub and Van Loan, section 3.4.

    >>> import ldiv, numpy as np
    >>> lu, piv = ldiv.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> lu, piv
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1], dtype=int32))
    """
    packed, exchanges, _ = bind(LU(), _matrix("a", a))
    return packed, exchanges


@public
def lu_factor_ex(a: Array) -> tuple[Array, Array, Array]:
    """Factor as `lu_factor` does, and say which pivot is the first that is exactly zero.

    Returns lu, piv and info (*batch,): 0, or the number of that pivot, counted from 1 as in LAPACK.
    All else as in `lu_factor`.

    >>> import ldiv, numpy as np
    >>> int(ldiv.lu_factor_ex(np.ones((2, 2)))[2])
    2
    """
    packed, exchanges = lu_factor(a)
    xp, k = namespace(packed), exchanges.shape[-1]
    at = xp.cumulative_sum(0 * exchanges + 1, axis=-1) if k else exchanges
    left = xp.where(xp.linalg.diagonal(packed) == 0, k + 1 - at, 0 * at)
    most = xp.max(left, axis=-1) if k else xp.sum(at, axis=-1)
    return packed, exchanges, xp.where(most > 0, k + 1 - most, 0 * most)


@public
def lu(a: Array) -> tuple[Array, Array, Array]:
    """Factor a matrix into a permutation, a lower and an upper triangle, differentiably.

        A = P L U

    a: (*batch, m, n). Returns P (*batch, m, m), L (*batch, m, k), U (*batch, k, n), k = min(m, n).
    All else as in `lu_factor`.

    >>> import ldiv, numpy as np
    >>> P, L, U = ldiv.lu(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> P @ L @ U
    array([[1., 2.],
           [4., 4.]])
    """
    packed, _, order = bind(LU(), _matrix("a", a))
    (m, n), xp = packed.shape[-2:], namespace(packed)
    k = min(m, n)
    unit = eye(packed, m)
    P = xp.take_along_axis(
        xp.broadcast_to(unit, (*batch_of(packed, 2), m, m)),
        xp.argsort(order, axis=-1)[..., None],
        axis=-2,
    )
    return P, xp.tril(packed[..., :k], k=-1) + unit[:, :k], xp.triu(packed[..., :k, :])


@public
def lu_solve(lu_and_piv: tuple[Array, Array], b: Array, trans: Any = 0) -> Array:
    """Solve a linear system with the result of `lu_factor`, differentiably.

        op(A) x = b,    op = N, T or H (0, 1 or 2)

    lu: (*batch, n, n), piv: (*batch, n), b: (n,) or (*batch, n, k). Returns x, shaped like b.
    Differentiable in lu and b in every mode and order; the cotangent of lu is that of its two
    triangles.
    Cost: 2 triangular solves; each direction of a derivative the same.
    Raises SingularMatrixError for a zero pivot; `solve` says more about a matrix that is nearly
    singular. Other errors as in `solve`.

    >>> import ldiv, numpy as np
    >>> ldiv.lu_solve(ldiv.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]])), np.array([3.0, 8.0]))
    array([1., 1.])
    """
    packed, exchanges = require_pair("lu_and_piv", "(lu, piv)", lu_and_piv)
    op = transposition(trans)
    packed, block, vector = _system("lu", packed, b)
    n = packed.shape[-1]
    require_integers("piv", exchanges, "Pass what lu_factor returned.")
    together("piv", exchanges, packed)
    if tuple(exchanges.shape) != (*batch_of(packed, 2), n):
        raise ValueError(
            expected_got(
                "piv",
                f"shape {(*batch_of(packed, 2), n)}",
                str(tuple(exchanges.shape)),
                "Pass what lu_factor returned.",
            )
        )
    xp, batch = namespace(packed), broadcast(batch_of(packed, 2), batch_of(block, 2))
    order = xp.broadcast_to(row_order(exchanges, n), (*batch, n))
    (L, p), (U, q) = lower_triangle(packed, unit=True), upper_triangle(packed)
    block = spread(block, batch)
    if VIEWS[op][0]:
        x = rows(
            left_solve(L.view(op), p, left_solve(U.view(op), q, block)), xp.argsort(order, axis=-1)
        )
    else:
        x = left_solve(U, q, left_solve(L, p, rows(block, order)))
    return x[..., 0] if vector else x


@public
def cholesky(a: Array, lower: bool = True) -> Array:
    """Factor a Hermitian positive definite matrix, differentiably.

        A = L L^H,    or with lower=False A = R^H R, R = L^H

    a: (*batch, n, n); both triangles must be there and agree (a difference of 1e-4 of the largest
    entry, 2e-2 in single precision, is forgiven, for finite differences), and A is read as its
    Hermitian part, as by `solve` with
    assume_a="pos" (SciPy reads one triangle). Returns L, lower triangular with a positive diagonal,
    or R; zeros in the other triangle. The default is L, as in NumPy and PyTorch; SciPy's is R.
    dtypes: float32, float64, complex64, complex128.
    Differentiable in every mode and order; the cotangent of A is Hermitian, that of L is read as
    its triangle.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 1 product.
    Raises NotPositiveDefiniteError, NotSymmetricError; ValueError for shapes, NaN and infinity;
    TypeError for dtypes.
    Source: Murray (2016), arXiv:1602.07527.

    >>> import ldiv, numpy as np
    >>> ldiv.cholesky(np.array([[4.0, 2.0], [2.0, 10.0]]))
    array([[2., 0.],
           [1., 3.]])
    """
    lower = require_flag("lower", lower)
    l = bind(Cholesky(), _square("a", a))[0]
    return l if lower else adjoint(l)


@public
def cho_factor(a: Array, lower: bool = False) -> tuple[Array, bool]:
    """The factor of `cholesky` and which triangle it is, for `cho_solve`; upper by default, as in
    SciPy.

    >>> import ldiv, numpy as np
    >>> ldiv.cho_solve(ldiv.cho_factor(np.array([[4.0, 2.0], [2.0, 10.0]])), np.array([6.0, 12.0]))
    array([1., 1.])
    """
    return cholesky(a, lower), require_flag("lower", lower)


@public
def cho_solve(c_and_lower: tuple[Array, bool], b: Array) -> Array:
    """Solve a linear system with the result of `cho_factor`, differentiably.

        L L^H x = b,    or R^H R x = b

    c: (*batch, n, n), of which one triangle is read; b: (n,) or (*batch, n, k). Returns x, shaped
    like b.
    Differentiable in c and b in every mode and order; the cotangent of c is that of its triangle.
    Cost: 2 triangular solves; each direction of a derivative the same. Errors as in `solve`.

    >>> import ldiv, numpy as np
    >>> ldiv.cho_solve((np.array([[2.0, 0.0], [1.0, 3.0]]), True), np.array([6.0, 12.0]))
    array([1., 1.])
    """
    c, below = require_pair("c_and_lower", "(c, lower)", c_and_lower)
    below = require_flag("lower", below)
    c, block, vector = _system("c", c, b)
    triangle, p = lower_triangle(c) if below else upper_triangle(c)
    first, second = (triangle, triangle.H) if below else (triangle.H, triangle)
    x = left_solve(second, p, left_solve(first, p, block))
    return x[..., 0] if vector else x


@public
def ldl(A: Array, lower: bool = True, hermitian: bool = True) -> tuple[Array, Array, Array]:
    """Factor a symmetric or Hermitian matrix, definite or not, differentiably.

        A = L D L^H,    or with hermitian=False A = L D L^T

    A: (*batch, n, n), both triangles of it, which must agree as for `cholesky`. Returns, as SciPy
    does, L (*batch, n, n) with its rows in the order of those of A, D with blocks of size 1 and 2,
    and perm, for which L[perm] is triangular: lower, or upper with lower=False.
    dtypes: float32, float64, complex64, complex128. LAPACK factors on the host.
    Differentiable in every mode and order, not in perm: the order and the places of the blocks are
    constant near A. A block of one that is exactly zero before the last has no derivative:
    NotDifferentiableError, in the derivative.
    Cost: 1 factorization; each direction of a derivative 2 triangular solves and 2 products.
    Raises NotSymmetricError; ValueError for shapes, NaN and infinity; TypeError for dtypes.
    Source: Bunch and Kaufman (1977).

    >>> import ldiv, numpy as np
    >>> L, D, perm = ldiv.ldl(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> D
    array([[0., 2.],
           [2., 0.]])
    """
    lower, hermitian = require_flag("lower", lower), require_flag("hermitian", hermitian)
    L, D, order = bind(LDL(lower, "H" if hermitian else "T"), _square("A", A))
    return rows(L, namespace(order).argsort(order, axis=-1)), D, order


@public
def qr(a: Array, mode: str = "economic") -> Any:
    """Factor a matrix into orthonormal columns and a triangle, differentiably.

        A = Q R,    Q^H Q = I, R upper triangular with a real diagonal, of LAPACK's signs

    a: (*batch, m, n). Returns Q (*batch, m, k) and R (*batch, k, n), k = min(m, n); with mode="r" R
    alone (SciPy: m x n, in a tuple). SciPy's mode "full" is not here: the other columns of its Q
    are arbitrary, and have no derivative.
    dtypes: float32, float64, complex64, complex128.
    Differentiable in every mode and order where the first k columns of A are independent, else
    NotDifferentiableError, in the derivative.
    Cost: 1 factorization; each direction of a derivative 1 triangular solve and 2 products.
    Raises ValueError for shapes, NaN and infinity; TypeError for dtypes.
    Source: Walter and Lehmann (2010), arXiv:1009.6112; Roberts and Roberts (2020),
    arXiv:2009.10071.

    >>> import ldiv, numpy as np
    >>> Q, R = ldiv.qr(np.array([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]]))
    >>> bool(np.allclose(Q @ R, [[3, 1], [4, 2], [0, 2]]))
    True
    """
    require_option("mode", mode, ("economic", "r"))
    a = _matrix("a", a)
    m, n = a.shape[-2:]
    q, r = bind(QR(), a if m >= n else a[..., :m])
    if m < n:
        r = namespace(r).concat([r, adjoint(q) @ a[..., m:]], axis=-1)
    return r if mode == "r" else (q, r)


# -- checks -------------------------------------------------------------------


def _matrix(name: str, a: Any) -> Array:
    a = require_float(name, a)
    if a.ndim < 2:
        raise ValueError(
            expected_got(
                name, "a matrix (..., m, n)", f"shape {tuple(a.shape)}", "Add the missing axis."
            )
        )
    return a


def _square(name: str, a: Any) -> Array:
    a = _matrix(name, a)
    require_square(name, tuple(a.shape[-2:]))
    return a


def _system(name: str, a: Any, b: Any) -> tuple[Array, Array, bool]:
    """Factors and right-hand side in a common precision, and whether b came as a vector."""
    a = _square(name, a)
    block, vector = as_block("b", b, a.shape[-1], a)
    require_batches("b", batch_of(a, 2), batch_of(block, 2))
    return *common_precision(a, block), vector
