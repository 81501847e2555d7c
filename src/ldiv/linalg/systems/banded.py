"""Banded systems in SciPy's diagonal-ordered form: functions that validate and call rules."""

from __future__ import annotations

from functools import partial
from typing import Any

from ldiv.core.arrays.shapes import batch_of, conj, is_complex, real
from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_block,
    as_float,
    common_precision,
    require_batches,
    require_flag,
    require_int,
    require_pair,
)
from ldiv.core.calls.call import planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.rules.rule import bind
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.solve_problem import bound
from ldiv.rules.cholesky_banded import CholeskyBanded
from ldiv.rules.triangular_quotients import factor_solve
from ldiv.structures.banded import banded


@public
def solve_banded(
    l_and_u: tuple[int, int],
    ab: AnyArray,
    b: ArrayT,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> ArrayT:
    """Solve a banded linear system, differentiably.

        A x = b,    ab[u + i - j, j] = A[i, j]

    Parameters
    ----------
    l_and_u : pair of integers
        The numbers of diagonals below and above the main one.
    ab : array (*batch, l + u + 1, n)
        The diagonals, the uppermost first; the corners outside of A are not read.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    overwrite_ab, overwrite_b, check_finite : bool
        Accepted, as SciPy has them: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes of ab and b broadcast.

    Raises
    ------
    SingularMatrixError
        For a singular matrix.
    EngineError
        On a GPU.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Of two precisions the wider is used. The matrix itself is
    `ldiv.Matrix(ldiv.structures.Banded(l, u, n), ab)`.
    Differentiable in ab and b in every mode and order; the cotangent of ab has the same shape, and
    zeros in the corners.
    Cost: 1 factorization, n l (l + u) operations, which the derivative reuses; 1 solve for each
    direction.

    References
    ----------
    Golub and Van Loan, section 4.3.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ab = np.array([[2.0, 2.0, 4.0], [1.0, 2.0, 0.0]])
    >>> ldiv.solve_banded((1, 0), ab, np.array([2.0, 3.0, 6.0]))
    array([1., 1., 1.])
    """
    what, advice = "two numbers of diagonals", "Say (1, 1) for a tridiagonal matrix."
    if not isinstance(l_and_u, tuple | list) or len(l_and_u) != 2:
        raise value_error("l_and_u", what, shown(l_and_u), advice)
    l, u = (require_int("l_and_u", x, 0, what=what, advice=advice) for x in l_and_u)
    x: ArrayT = _solve(ab, b, l, u, "gen")
    return x


@planned
def _solve(ab: Any, b: Any, l: int, u: int, assume_a: str) -> Any:
    """Plan A x = b for the diagonals of A."""
    ab = _diagonals(ab, "ab", b)
    if ab.shape[-2] != l + u + 1:
        advice = "One row for each diagonal, the uppermost first."
        raise value_error("ab", f"shape (..., {l} + {u} + 1, n)", tuple(ab.shape), advice)
    return bound(banded(l, u, ab.shape[-1]), ab, b, assume_a, "auto")


@public
def cholesky_banded(
    ab: ArrayT, lower: bool = False, *, overwrite_ab: bool = False, check_finite: bool = True
) -> ArrayT:
    """Factor a Hermitian positive definite banded matrix, differentiably.

        A = R^H R,    ab[w + i - j, j] = A[i, j] for i <= j,    or with lower=True
        A = L L^H,    ab[i - j, j] = A[i, j] for i >= j

    Parameters
    ----------
    ab : array (*batch, w + 1, n)
        The diagonals of one triangle of A. The corners outside of A, and imaginary parts on its
        diagonal, are not read.
    lower : bool, default False
        ab is the lower triangle.
    overwrite_ab, check_finite : bool
        Accepted, as SciPy has them: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    c : array (*batch, w + 1, n)
        R, or L, in the form of ab.

    Raises
    ------
    NotPositiveDefiniteError
        For a matrix that is not positive definite.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    LAPACK factors on the host.
    Differentiable in every mode and order; cotangents stay in the band.
    Cost: n w^2 operations, and as many, in a sparse triangular system, for each direction of a
    derivative.

    References
    ----------
    Murray (2016), arXiv:1602.07527.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.cholesky_banded(np.array([[4.0, 10.0], [2.0, 0.0]]), lower=True)
    array([[2., 3.],
           [1., 0.]])
    """
    diagonals = _diagonals(ab)
    if 0 in getattr(ab, "shape", ())[-2:-1]:
        return to_caller(namespace(diagonals).reshape(diagonals, (*diagonals.shape[:-2], 0, 0)))
    if require_flag("lower", lower):
        return bind(CholeskyBanded(), diagonals)[0]
    # R^H R = L L^H with R = L^H, and the rule knows L
    return to_caller(_other_form(bind(CholeskyBanded(), _other_form(diagonals, True))[0], False))


@public
def cho_solve_banded(
    cb_and_lower: tuple[AnyArray, bool],
    b: ArrayT,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> ArrayT:
    """Solve a linear system with the result of `cholesky_banded`, differentiably.

        R^H R x = b,    or with lower=True L L^H x = b

    Parameters
    ----------
    cb_and_lower : pair of an array (*batch, w + 1, n) and a bool
        What `cholesky_banded` returns, and its `lower`.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    overwrite_b, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes broadcast.

    Raises
    ------
    SingularMatrixError, EngineError, ValueError, TypeError
        As in `solve_banded`.

    Notes
    -----
    Differentiable in cb and b in every mode and order.
    Cost: 2 banded substitutions.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> cb = np.array([[2.0, 3.0], [1.0, 0.0]])
    >>> ldiv.cho_solve_banded((cb, True), np.array([6.0, 12.0]))
    array([1., 1.])
    """
    cb, lower = require_pair("cb_and_lower", "(cb, lower)", cb_and_lower)
    cb, lower = _diagonals(cb, "cb", b), require_flag("lower", lower)
    w, n = cb.shape[-2] - 1, cb.shape[-1]
    block, vector = as_block("b", b, n, cb)
    require_batches("b", batch_of(cb, 2), batch_of(block, 2))
    cb, block = common_precision(cb, block)
    triangle = banded(w, 0, n) if lower else banded(0, w, n)
    x = as_one_node(partial(factor_solve, triangle, lower), cb, block)
    return x[..., 0] if vector else x


@public
def solveh_banded(
    ab: AnyArray,
    b: ArrayT,
    lower: bool = False,
    *,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> ArrayT:
    """Solve a Hermitian positive definite banded system, differentiably.

        A x = b,    one triangle of A in ab as in `cholesky_banded`

    Parameters
    ----------
    ab : array (*batch, w + 1, n)
        The diagonals of one triangle of A, as in `cholesky_banded`.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    lower : bool, default False
        ab is the lower triangle.
    overwrite_ab, overwrite_b, check_finite : bool
        Accepted, as SciPy has them: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes broadcast.

    Raises
    ------
    NotPositiveDefiniteError
        For a matrix that is not positive definite.
    SingularMatrixError, EngineError, ValueError, TypeError
        As in `solve_banded`.

    Notes
    -----
    Differentiable in ab and b in every mode and order; the cotangent of ab has the same shape, and
    zeros in the corners.
    Cost: 1 Cholesky factorization, n w^2 operations, which the derivative reuses; 1 solve for each
    direction.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ab = np.array([[4.0, 10.0], [2.0, 0.0]])
    >>> ldiv.solveh_banded(ab, np.array([6.0, 12.0]), lower=True)
    array([1., 1.])
    """
    ab = _both_triangles(_diagonals(ab, "ab", b), require_flag("lower", lower))
    w = ab.shape[-2] // 2
    return bound(banded(w, w, ab.shape[-1]), ab, b, "pos", "auto").run()


def _diagonals(ab: Any, name: str = "ab", *others: Any) -> Array:
    ab = as_float(name, ab, *others)
    if ab.ndim >= 2 and tuple(ab.shape[-2:]) == (0, 0):  # a matrix without rows has no diagonals
        return namespace(ab).reshape(ab, (*ab.shape[:-2], 1, 0))
    if ab.ndim < 2 or ab.shape[-2] == 0:
        raise value_error(
            name, "diagonals (..., rows, n)", f"shape {tuple(ab.shape)}", "Add the missing axis."
        )
    return ab


def _other_form(ab: Array, from_upper: bool) -> Array:
    """The conjugate transpose of a triangle in the other form: row d is the d-th diagonal from the
    other side, which begins as many columns earlier or later.
    """
    xp, w = namespace(ab), ab.shape[-2] - 1
    shifts = [-d if from_upper else w - d for d in range(w + 1)]
    rows = [conj(xp.roll(ab[..., w - d, :], shift, axis=-1)) for d, shift in enumerate(shifts)]
    return xp.stack(rows, axis=-2)


def _both_triangles(ab: Array, lower: bool) -> Array:
    """The diagonals of a Hermitian matrix, from those of one triangle."""
    xp, w = namespace(ab), ab.shape[-2] - 1
    own = ab[..., slice(1, None) if lower else slice(w), :]
    main = ab[..., slice(1) if lower else slice(w, None), :]
    # a_(i, i + d) = conj(a_(i + d, i)), d columns later; the other way round d columns earlier
    shifts = range(w, 0, -1) if lower else range(-1, -w - 1, -1)
    mirror = [conj(xp.roll(ab[..., d if lower else w + d, :], d, axis=-1)) for d in shifts]
    mirror = [xp.stack(mirror, axis=-2)] if mirror else []
    main = real(main) + 0 * main if is_complex(main) else main
    return xp.concat([*mirror, main, own] if lower else [own, main, *mirror], axis=-2)
