"""Products of several matrices, and of vectors, under the names of NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_float,
    common_precision,
    require_batches,
    require_int,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import finite, require_known_finite
from ldiv.errors import value_error


@public
def multi_dot(arrays: Sequence[ArrayT]) -> ArrayT:
    """Multiply matrices, with the parentheses that cost the least, differentiably.

        A_1 A_2 ... A_k

    Parameters
    ----------
    arrays : sequence of arrays (n_i, n_{i+1})
        Two or more. The first may be a vector, a row, and the last one a vector, a column.

    Returns
    -------
    product : array
        Without the axis of a vector.

    Raises
    ------
    ValueError
        For shapes that do not fit.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable by PyTorch and JAX in every mode and order.
    Cost: the products in the best order, which is found in k^3 steps.

    References
    ----------
    Cormen and others, Introduction to Algorithms, section 15.2.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.multi_dot([np.ones((2, 9)), np.ones((9, 9)), np.ones(9)])
    array([81., 81.])
    """
    if not isinstance(arrays, tuple | list) or len(arrays) < 2:
        what, advice = "a sequence of two or more arrays", "One is its own product."
        raise value_error("arrays", what, type(arrays).__name__, advice)
    xs: list[Any] = [as_float("arrays", x, *arrays) for x in arrays]
    for x in xs:
        together("arrays", x, xs[0])
        require_known_finite("arrays", x)
    row, column = xs[0].ndim == 1, xs[-1].ndim == 1
    xs[0] = xs[0][None, :] if row else xs[0]
    xs[-1] = xs[-1][:, None] if column else xs[-1]
    shapes = [tuple(x.shape) for x in xs]
    if any(x.ndim != 2 for x in xs) or any(a[1] != b[0] for a, b in pairwise(shapes)):
        advice = "The columns of one are the rows of the next."
        raise value_error("arrays", "matrices that fit", shapes, advice)
    sizes = [shapes[0][0], *(n for _, n in shapes)]

    @cache
    def best(i: int, j: int) -> tuple[int, int]:
        """The cost of A_i ... A_j, and after which of them to cut."""
        return min(
            (
                (best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ),
            default=(0, i),
        )

    def product(i: int, j: int) -> Array:
        if i == j:
            return xs[i]
        k = best(i, j)[1]
        return product(i, k) @ product(k + 1, j)

    if len({x.dtype for x in xs}) > 1:
        xs = [x + 0 * sum(y[0, 0] for y in xs) for x in common_precision(*xs)]
    found: Any = finite("multi_dot", product(0, len(xs) - 1))
    found = found[0] if row else found
    return found[..., 0] if column else found


@public
def vecdot(x1: ArrayT, x2: AnyArray, axis: int = -1) -> ArrayT:
    """Multiply vectors, differentiably; the first one is conjugated.

        x1^H x2

    Parameters
    ----------
    x1, x2 : array
        The vectors, along one axis; all others broadcast.
    axis : int, default -1
        That axis.

    Returns
    -------
    product : array
        One number for each pair of vectors.

    Raises
    ------
    ValueError
        For shapes that do not fit, and for overflow.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable by PyTorch and JAX in every mode and order.
    Cost: one pass over the numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.vecdot(np.array([1j, 2.0]), np.array([1j, 3.0]))
    np.complex128(7+0j)
    """
    x, y = as_float("x1", x1, x2), as_float("x2", x2, x1)
    together("x2", y, x)
    least = min(x.ndim, y.ndim)
    at = require_int("axis", axis, -least, -1 if x.ndim != y.ndim else least - 1)
    if least == 0 or x.shape[at] != y.shape[at]:
        came = f"{tuple(x.shape)} and {tuple(y.shape)}"
        advice = "Both are vectors along that axis."
        raise value_error("x2", "as many numbers as x1", came, advice)
    own = x.ndim + at if at < 0 else at
    require_batches("x2", _without(x, own), _without(y, y.ndim - x.ndim + own))
    x, y = common_precision(x, y)
    return to_caller(finite("vecdot", namespace(x).linalg.vecdot(x, y, axis=at)))


def _without(x: Array, axis: int) -> tuple[int, ...]:
    """The shape without an axis."""
    return tuple(n for i, n in enumerate(x.shape) if i != axis)
