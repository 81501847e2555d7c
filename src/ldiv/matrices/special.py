"""Small matrices made of a vector or two, as arrays of the user's framework."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import batch_of, broadcast, spread, unit_columns
from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_float,
    common_precision,
    require_batches,
    require_two_dimensions,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import expected_got, value_error
from ldiv.matrices.toeplitz import require_vector
from ldiv.rules.assertion import checked


@public
def companion(a: ArrayT) -> ArrayT:
    """The companion matrix of a polynomial: its eigenvalues are the roots.

        C[0] = -a[1:] / a[0],    C[i + 1, i] = 1

    Parameters
    ----------
    a : array (*batch, n)
        The coefficients, that of the highest power first, which is not 0; n >= 2.

    Returns
    -------
    C : array (*batch, n - 1, n - 1)

    Raises
    ------
    ValueError
        For fewer coefficients, and a first one of 0.
    TypeError
        For dtypes.

    Notes
    -----
    Differentiable in every mode and order.
    Cost: n^2 numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.companion(np.array([1.0, -3.0, 2.0]))
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    p = checked(_require_degree, _vector("a", a, 2)[..., None, :])[..., 0, :]
    return _below(-p[..., 1:] / p[..., :1], namespace(p).ones_like(p[..., 2:]))


def _require_degree(p: Array) -> None:
    what = expected_got("a", "a first coefficient that is not 0", "0", "Leave it out.")
    check_or_raise((p[..., 0] != 0).all(), lambda: ValueError(what))


@public
def leslie(f: ArrayT, s: AnyArray) -> ArrayT:
    """The Leslie matrix of a population in age classes.

        L[0] = f,    L[i + 1, i] = s[i]

    Parameters
    ----------
    f : array (*batch, n)
        How many offspring each class has.
    s : array (*batch, n - 1)
        The part of each class that reaches the next one.

    Returns
    -------
    L : array (*batch, n, n)

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For dtypes and mixed frameworks.

    Notes
    -----
    Differentiable in every mode and order.
    Cost: n^2 numbers.

    References
    ----------
    Leslie, Biometrika 33 (1945).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.leslie(np.array([0.1, 2.0]), np.array([0.2]))
    array([[0.1, 2. ],
           [0.2, 0. ]])
    """
    row = _vector("f", f, 2, s)
    below = _vector("s", s, 1, row)
    together("s", below, row)
    if below.shape[-1] != row.shape[-1] - 1:
        advice = "The last class has no next one."
        came = str(tuple(below.shape))
        raise value_error("s", f"shape (..., {row.shape[-1] - 1})", came, advice)
    row, below = common_precision(row, below)
    require_batches("s", batch_of(row, 1), batch_of(below, 1))
    batch = broadcast(batch_of(row, 1), batch_of(below, 1))
    return _below(spread(row, batch, 1), spread(below, batch, 1))


@public
def fiedler(a: ArrayT) -> ArrayT:
    """Fiedler's matrix of a vector.

        F[i, j] = |a_i - a_j|

    Parameters
    ----------
    a : array (*batch, n)
        Real numbers.

    Returns
    -------
    F : array (*batch, n, n)

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For dtypes.

    Notes
    -----
    Differentiable where the numbers are different.
    Cost: n^2 numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.fiedler(np.array([1.0, 4.0]))
    array([[0., 3.],
           [3., 0.]])
    """
    x = _vector("a", a, 1)
    return to_caller(namespace(x).abs(x[..., :, None] - x[..., None, :]))


@public
def khatri_rao(a: ArrayT, b: AnyArray) -> ArrayT:
    """The Khatri-Rao product: Kronecker products of columns.

        C[:, j] = a[:, j] x b[:, j]

    Parameters
    ----------
    a : array (*batch, n, k)
    b : array (*batch, m, k)

    Returns
    -------
    C : array (*batch, n m, k)

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For dtypes and mixed frameworks.

    Notes
    -----
    Differentiable in every mode and order.
    Cost: n m k products.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.khatri_rao(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    array([[ 3.,  8.],
           [ 5., 12.]])
    """
    x = as_float("a", a, b)
    y = as_float("b", b, x)
    for name, factor in (("a", x), ("b", y)):
        require_two_dimensions(name, factor)
        require_known_finite(name, factor)
    together("b", y, x)
    if x.shape[-1] != y.shape[-1]:
        advice = "Both have one column for each of the result."
        came = str(tuple(y.shape))
        raise value_error("b", f"shape (..., m, {x.shape[-1]})", came, advice)
    c = x[..., :, None, :] * y[..., None, :, :]
    rows = x.shape[-2] * y.shape[-2]
    return to_caller(namespace(c).reshape(c, (*c.shape[:-3], rows, x.shape[-1])))


def _vector(name: str, x: Any, least: int, *others: Any) -> Array:
    x = require_vector(name, x, *others, least=least)
    require_known_finite(name, x)
    return x


def _below(row: Array, diagonal: Array) -> Any:
    """The matrix with this first row, and this diagonal below the main one."""
    n = row.shape[-1]
    lower = diagonal[..., :, None] * unit_columns(row, n, range(n))[: n - 1]
    return namespace(row).concat([row[..., None, :], lower], axis=-2)
