"""The Cholesky factor of L L^H + v v^H, or of L L^H - v v^H, in n^2 operations for each column of v.

    L L^H + s v v^H = L (I + s p p^H) L^H,    L p = v,    s = 1 or -1

The factor M of the bracket has, with a_j = 1 + s sum_{i <= j} |p_i|^2 and a_0 = 1,

    M_jj = sqrt(a_j / a_{j-1}),    M_ij = s p_i conj(p_j) / sqrt(a_j a_{j-1})    for i > j,

so that column j of L M is M_jj L_j + s conj(p_j) / sqrt(a_j a_{j-1}) sum_{i > j} L_i p_i: sums that
run through the columns. In an update all terms of a_j are positive; a downdate is as
far from the cone's boundary as a_n is from 0. Derivatives are those of these formulas.
Reference: Gill, Golub, Murray, Saunders, Math. Comp. 28 (1974), method C1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ldiv.core.arrays.shapes import batch_of, conj, eps, real
from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import as_block, common_precision, require_batches, require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, check_or_raise, namespace
from ldiv.core.rules.finite import finite, require_known_finite
from ldiv.engines.accuracy.limits import SIGN
from ldiv.errors import NotPositiveDefiniteError
from ldiv.linalg.arguments.dense_arguments import require_square_array
from ldiv.rules.assertion import checked
from ldiv.rules.lower_factor import require_lower
from ldiv.rules.solve import solve
from ldiv.structures.triangular import triangular


@public
def cholesky_update(L: ArrayT, v: AnyArray, downdate: bool = False) -> ArrayT:
    """Update the Cholesky factor of a dense matrix by vectors, differentiably.

        L' L'^H = L L^H + v v^H,    or with downdate=True  L L^H - v v^H

    Parameters
    ----------
    L : array (*batch, n, n)
        A lower Cholesky factor, as `cholesky` gives it. Its upper triangle is not read.
    v : array (n,) or (*batch, n, k)
        One vector, or k of them.
    downdate : bool, default False
        Whether v v^H is subtracted.

    Returns
    -------
    L' : array (*batch, n, n)
        The lower factor; zeros in the upper triangle.

    Raises
    ------
    NotPositiveDefiniteError
        For a downdate whose result is not positive definite, to working precision.
    SingularMatrixError
        For a zero on the diagonal of L.
    ValueError
        For shapes, NaN and infinity, and for an upper factor or a covariance in place of L.
    TypeError
        For dtypes and mixed frameworks.

    See Also
    --------
    SparseCholesky.update : the same of a sparse factorization.

    Notes
    -----
    Differentiable in L and v in every mode and order.
    Cost: for each column 1 triangular solve and some 4 n^2 operations; a derivative as much again.

    References
    ----------
    Gill, Golub, Murray, Saunders, Math. Comp. 28 (1974).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> L = ldiv.cholesky_update(np.eye(2), np.array([0.0, np.sqrt(3.0)]))
    >>> L.round(12)
    array([[1., 0.],
           [0., 2.]])
    >>> ldiv.cholesky_update(L, np.array([0.0, np.sqrt(3.0)]), downdate=True).round(12)
    array([[1., 0.],
           [0., 1.]])
    """
    sign = -1 if require_flag("downdate", downdate) else 1
    factor = require_square_array("L", L, v)
    block, _ = as_block("v", v, factor.shape[-1], factor)
    require_batches("v", batch_of(factor, 2), batch_of(block, 2))
    require_lower("L", factor)
    for name, x in (("L", factor), ("v", block)):
        require_known_finite(name, x)
    return to_caller(as_one_node(partial(_updated, sign), *common_precision(factor, block)))


def _updated(sign: int, L: Array, v: Array) -> Array:
    """L', one column of v after the other."""
    xp = namespace(L)
    L = xp.tril(L)
    for j in range(v.shape[-1]):
        L = _by_one(sign, L, v[..., j : j + 1])
    return L


def _by_one(sign: int, L: Array, v: Array) -> Array:
    xp, n = namespace(L), L.shape[-1]
    if n == 0:
        return L
    p = solve(triangular(n, True), L, v)[..., 0]
    with np.errstate(all="ignore"):
        a = 1 + sign * xp.cumulative_sum(real(p * conj(p)), axis=-1)
        a = finite("cholesky_update", a)
        if sign < 0:
            a = checked(_require_inside, a[..., None])[..., 0]
        before = xp.concat([xp.ones_like(a[..., :1]), a[..., :-1]], axis=-1)
        roots, roots_before = xp.sqrt(a), xp.sqrt(before)
        # sum_{i > j} L_i p_i: what is summed from the right, without the column itself
        terms = L * p[..., None, :]
        sums = xp.flip(xp.cumulative_sum(xp.flip(terms[..., 1:], axis=-1), axis=-1), axis=-1)
        sums = xp.concat([sums, xp.zeros_like(terms[..., :1])], axis=-1)
        moved = sums * (sign * conj(p) / (roots * roots_before))[..., None, :]
        return finite("cholesky_update", xp.tril(L * (roots / roots_before)[..., None, :] + moved))


def _require_inside(a: Array) -> None:
    """Raise unless a_n exceeds what rounding leaves of a zero."""
    least = SIGN * a.shape[-2] * eps(a)
    check_or_raise((a > least).all(), _outside)


def _outside() -> NotPositiveDefiniteError:
    what = "a vector v with v^H (L L^H)^-1 v >= 1, to working precision"
    return NotPositiveDefiniteError("cholesky_update", what, what="L L^H - v v^H", causes=_CAUSES)


_CAUSES = (
    "(a) vectors that were never added, (b) one that was added to another factor, (c) rounding, "
    "where the result is nearly singular: factor the matrix anew."
)
