"""Norms of vectors and of matrices under the names of NumPy, PyTorch and the array API."""

from __future__ import annotations

from math import prod

from ldiv.core.arrays.typing import ArrayT, to_caller
from ldiv.core.arrays.validate import as_float, require_flag, require_int, require_two_dimensions
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import shown, value_error
from ldiv.linalg.spectra.norm import Order, norm


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
