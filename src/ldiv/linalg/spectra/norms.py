"""Norms of vectors and matrices, and condition numbers, under the names of NumPy and PyTorch."""

from __future__ import annotations

from functools import partial
from math import inf, prod
from typing import Any, Literal

from ldiv.core.arrays.shapes import unit_columns
from ldiv.core.arrays.typing import ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_float,
    require_flag,
    require_int,
    require_square,
    require_two_dimensions,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.spectra.dense_svd import svdvals
from ldiv.linalg.spectra.norm import Order, norm
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense


@public
def vector_norm(
    x: ArrayT, ord: float = 2, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> ArrayT:
    """Compute a norm of vectors, along any axes, differentiably.

        |x|_p = (sum |x_i|^p)^(1/p)

    Parameters
    ----------
    x : array
        The vectors.
    ord : number, default 2
        p: inf, -inf, 0 (the number of entries that are not 0), or any other.
    axis : int or tuple of int, optional
        The axes of a vector; all of them where it is absent.
    keepdims : bool, default False
        Keep the axes, with size 1.

    Returns
    -------
    norm : array
        The norms; real.

    Raises
    ------
    ValueError, TypeError
        As in `norm`.

    Notes
    -----
    Differentiable as `norm` is.
    Cost: one pass over the numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> float(ldiv.vector_norm(np.array([[3.0], [4.0]])))
    5.0
    """
    values, keep = (
        as_float("x", x, instead="ldiv.norm takes sparse matrices."),
        require_flag("keepdims", keepdims),
    )
    xp, given = namespace(values), range(values.ndim) if axis is None else axis
    every = given if isinstance(given, tuple | list | range) else (given,)
    axes = tuple(require_int("axis", i, -values.ndim, values.ndim - 1) % values.ndim for i in every)
    if len(set(axes)) < len(axes):
        raise value_error("axis", "different axes", shown(axis), "Name each once.")
    rest = tuple(i for i in range(values.ndim) if i not in axes)
    vectors = xp.reshape(
        xp.permute_dims(values, (*rest, *axes)),
        (*(values.shape[i] for i in rest), prod(values.shape[i] for i in axes)),
    )
    found = norm(vectors, ord, axis=-1)
    kept = tuple(1 if i in axes else n for i, n in enumerate(values.shape))
    return to_caller(xp.reshape(found, kept)) if keep else found


@public
def matrix_norm(
    x: ArrayT, ord: Order = "fro", axis: tuple[int, int] = (-2, -1), keepdims: bool = False
) -> ArrayT:
    """Compute a norm of each matrix of a batch, differentiably.

        |A|_fro, |A|_nuc = sum s_i, max_j sum_i |a_ij| (1), its rows (inf), s_1 (2)

    Parameters
    ----------
    x : array (*batch, m, n)
        The matrices.
    ord : {"fro", "nuc", inf, -inf, 1, -1, 2, -2}, default "fro"
        Which norm.
    axis : pair of int, default (-2, -1)
        The axes of a matrix.
    keepdims : bool, default False
        Keep the axes, with size 1.

    Returns
    -------
    norm : array
        The norms; real.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `norm`.

    Notes
    -----
    Differentiable as `norm` is.
    Cost: one pass over the numbers; 1 decomposition as in `svd` for 2, -2 and "nuc".

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.matrix_norm(np.array([[[3.0, 0.0], [0.0, -4.0]]]), "nuc")
    array([7.])
    """
    values = as_float("x", x, instead="ldiv.norm takes sparse matrices.")
    require_two_dimensions("x", values)
    require_known_finite("x", values)
    if not isinstance(axis, tuple | list) or len(axis) != 2:
        raise value_error("axis", "two axes", shown(axis), "Those of a matrix.")
    return norm(values, "fro" if ord is None else ord, (axis[0], axis[1]), keepdims)


@public
def cond(x: ArrayT, p: float | Literal["fro", "nuc"] | None = None) -> ArrayT:
    """Compute the condition number of a matrix, differentiably.

        s_max / s_min,    or |A|_p |A^-1|_p

    Parameters
    ----------
    x : array (*batch, m, n)
        The matrix; square where p is neither None, 2 nor -2.
    p : {None, 2, -2, 1, -1, inf, -inf, "fro", "nuc"}
        Which norm; None is 2. -2 is the inverse of the number of 2.

    Returns
    -------
    c : array (*batch,)
        The condition numbers; for 2, infinity of a matrix whose smallest singular value is 0.

    Raises
    ------
    SingularMatrixError
        For a singular matrix, in the norms that need its inverse.
    NotDifferentiableError
        In the derivative, as for `svdvals`.
    ValueError, TypeError
        As in `norm`.

    See Also
    --------
    onenormest : for sparse matrices: |A|_1, and of `factorized(A).inverse`.

    Notes
    -----
    Differentiable by PyTorch and JAX in every mode and order.
    Cost: the singular values, or 1 inverse.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> float(ldiv.cond(np.diag([8.0, 2.0]))), float(ldiv.cond(np.diag([8.0, 2.0]), 1))
    (4.0, 4.0)
    """
    advice = "Of a sparse one: ldiv.onenormest, of it and of factorized(A).inverse."
    a: Any = require_matrix_array("x", x, instead=advice)
    if 0 in a.shape[-2:]:
        raise value_error("x", "matrices with entries", tuple(a.shape), "Others have no norm.")
    require_known_finite("x", a)
    if p is None or (isinstance(p, int | float) and p in (2, -2)):
        s: Any = svdvals(a)
        above, below = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        xp: Any = namespace(s)
        return xp.where(below == 0, xp.inf, above / xp.where(below == 0, 1, below))
    if not (
        p in ("fro", "nuc")
        if isinstance(p, str)
        else isinstance(p, int | float) and not isinstance(p, bool) and p in (1, -1, inf, -inf)
    ):
        what = "None, 2, -2, 1, -1, inf, -inf, 'fro' or 'nuc'"
        raise value_error("p", what, shown(p), "See NumPy's cond.")
    require_square("x", tuple(a.shape[-2:]))
    return as_one_node(partial(_of_norms, p), a)


def _of_norms(p: Any, a: Array) -> Array:
    """|A| |A^-1|."""
    n = a.shape[-1]
    inverse = solve(dense(n, n), a, unit_columns(a, n, range(n)))
    return matrix_norm(a, p) * matrix_norm(inverse, p)
