"""A = L D L^H under SciPy's name, and in one array for solves, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, conj, real, spread
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import as_integers, require_flag, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import host, namespace, numbers
from ldiv.core.rules.finite import require_known_finite
from ldiv.core.rules.rule import bind
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.dense_arguments import require_square_array, require_system
from ldiv.rules.ldl import LDL
from ldiv.rules.lu import rows
from ldiv.rules.triangular_quotients import left_solve, lower
from ldiv.structures.banded import Banded


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


@public
def ldl_factor(A: ArrayT, *, hermitian: bool = False) -> tuple[ArrayT, ArrayT]:
    """Factor a symmetric or Hermitian matrix for `ldl_solve`, differentiably.

        A[p, p] = L D L^T,    or with hermitian=True L D L^H

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix. Both triangles must be there and agree, as for `ldl`.
    hermitian : bool, default False
        A is Hermitian, not symmetric.

    Returns
    -------
    LD : array (*batch, n, n)
        L below its diagonal of ones, and the lower triangle of D, in one.
    pivots : array of integers (*batch, n)
        p, counted from 1; negative in the rows of a block of size 2 of D.

    Raises
    ------
    NotSymmetricError, NotDifferentiableError, ValueError, TypeError
        As in `ldl`.

    Notes
    -----
    PyTorch's arrays are packed as LAPACK has them: other numbers, for its own `ldl_solve`.
    Differentiable in every mode and order, not in pivots.
    Cost: that of `ldl`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.ldl_factor(np.array([[0.0, 2.0], [2.0, 0.0]]))[1]
    array([-1, -2])
    """
    factors: Any = ldl(A, hermitian=hermitian)
    L, D, order = factors
    xp: Any = namespace(L)
    below = xp.linalg.diagonal(D, offset=-1)
    zero = 0 * order[..., :1]
    block = xp.astype(below != 0, order.dtype)
    block = xp.concat([block, zero], axis=-1) + xp.concat([zero, block], axis=-1)
    packed = xp.tril(rows(L, order), k=-1) + xp.tril(D)
    return packed, (1 + order) * (1 - 2 * block)


@public
def ldl_solve(LD: ArrayT, pivots: AnyArray, B: AnyArray, *, hermitian: bool = False) -> ArrayT:
    """Solve a system with the result of `ldl_factor`, differentiably.

        A X = B

    Parameters
    ----------
    LD, pivots : arrays (*batch, n, n) and (*batch, n)
        What `ldl_factor` returned.
    B : array (n,) or (*batch, n, k)
        A one-dimensional B is a vector, anything else a block of columns.
    hermitian : bool, default False
        As it was in `ldl_factor`.

    Returns
    -------
    X : array, shaped like B
        The solution.

    Raises
    ------
    SingularMatrixError
        For a singular D.
    ValueError, TypeError
        As in `lu_solve`.

    Notes
    -----
    Differentiable in LD and B in every mode and order.
    Cost: 2 triangular solves, and a banded one with D, on the host.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> ldiv.ldl_solve(*ldiv.ldl_factor(A), np.array([2.0, 4.0]))
    array([2., 1.])
    """
    hermitian = require_flag("hermitian", hermitian)
    packed, block, vector = require_system("LD", LD, B)
    require_known_finite("LD", packed)
    require_known_finite("B", block)
    given = as_integers("pivots", pivots, "Pass what ldl_factor returned.", packed)
    together("pivots", given, packed)
    if tuple(given.shape) != tuple(packed.shape[:-1]):
        came, advice = str(tuple(given.shape)), "Pass what ldl_factor returned."
        raise value_error("pivots", f"shape {tuple(packed.shape[:-1])}", came, advice)
    known = numbers(given) if host(given) else None
    if known is not None and (np.sort(abs(known), axis=-1) != 1 + np.arange(known.shape[-1])).any():
        advice = "Those of torch.linalg.ldl_factor are for its own ldl_solve: factor by ldiv."
        raise value_error("pivots", "a permutation", shown(known), advice)
    xp: Any = namespace(packed)
    order, d = abs(given) - 1, xp.linalg.diagonal(packed)
    below = _of_blocks(packed, given)
    L = xp.tril(packed, k=-1) - _under_diagonal(below, d)
    batch = broadcast(batch_of(packed, 2), batch_of(block, 2))
    order, zero = spread(order, batch, 1), 0 * d[..., :1]
    above = conj(below) if hermitian else below
    band = xp.stack(
        [xp.concat([zero, above], axis=-1), d, xp.concat([below, zero], axis=-1)], axis=-2
    )
    (T, p), D = lower(L, unit=True), Banded(1, 1, packed.shape[-1])
    y = left_solve(D, band, left_solve(T, p, rows(spread(block, batch), order)))
    x: Any = left_solve(T.H if hermitian else T.T, p, y)
    x = rows(x, xp.argsort(order, axis=-1))
    return x[..., 0] if vector else x


def _of_blocks(packed: Array, pivots: Array) -> Array:
    """D_{i+1, i}, which is 0 but inside of the blocks of size 2: pairs of negative pivots."""
    xp = namespace(packed)
    # the second of a pair is preceded by an odd number of negative ones
    is_half = xp.astype(pivots < 0, pivots.dtype)[..., None, :]
    before = xp.tril(xp.broadcast_to(is_half, (*pivots.shape, pivots.shape[-1])))
    count = xp.sum(before, axis=-1)  # NumPy has `cumulative_sum` since 2.1
    first = (pivots < 0) & (count % 2 == 1)
    below = xp.linalg.diagonal(packed, offset=-1)
    return xp.where(first[..., :-1], below, 0 * below)


def _under_diagonal(below: Array, like: Array) -> Array:
    """The matrix with these numbers under its diagonal; `like` has the size of the diagonal."""
    xp = namespace(below)
    row = xp.concat([below, 0 * like[..., :1]], axis=-1)[..., None, :]
    return row * xp.eye(like.shape[-1], k=-1, **alike(real(like)))
