"""Systems whose unknowns have several axes, under NumPy's names: `solve` and `inv` of a reshape."""

from __future__ import annotations

from math import prod
from typing import Any

from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import as_float, require_int, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.errors import shown, value_error
from ldiv.linalg.inverses.inverse import inv
from ldiv.linalg.systems.solve import solve


@public
def tensorsolve(a: ArrayT, b: AnyArray, axes: tuple[int, ...] | None = None) -> ArrayT:
    """Solve a linear system whose unknowns are an array of several axes, differentiably.

        sum_j a[i, j] x[j] = b[i],    i and j several axes each

    Parameters
    ----------
    a : array (*b.shape, *x.shape)
        The matrix: as many numbers in the axes of b as in the others.
    b : array
        The right-hand side.
    axes : tuple of int, optional
        Axes of a that are moved to its end first.

    Returns
    -------
    x : array
        The solution, of the shape of the last axes of a.

    Raises
    ------
    SingularMatrixError, ValueError, TypeError
        As in `solve`.

    Notes
    -----
    Differentiable as `solve` is.
    Cost: that of `solve`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.tensorsolve(2 * np.eye(6).reshape(2, 3, 6), np.ones((2, 3)))
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    A = as_float("a", a, b)
    y = as_float("b", b, A)
    together("b", y, A)
    xp = namespace(A)
    if axes is not None:
        given: Any = axes
        if not isinstance(given, tuple | list):
            advice = "They are moved to the end of a."
            raise value_error("axes", "a tuple of axes", shown(given), advice)
        last = [require_int("axes", i, -A.ndim, A.ndim - 1) % A.ndim for i in axes]
        A = xp.permute_dims(A, (*(i for i in range(A.ndim) if i not in last), *last))
    shape = tuple(A.shape[y.ndim :])
    _require_pair(tuple(A.shape[: y.ndim]), shape, tuple(y.shape))
    n = prod(shape)
    x = solve(xp.reshape(A, (n, n)), xp.reshape(y, (n,)))
    return to_caller(xp.reshape(x, shape))


@public
def tensorinv(a: ArrayT, ind: int = 2) -> ArrayT:
    """Invert a matrix whose rows and columns are several axes each, differentiably.

        sum_j a[i, j] x[j, k] = 1 for i = k, else 0

    Parameters
    ----------
    a : array
        As many numbers in its first `ind` axes as in the others.
    ind : int, default 2
        How many axes are those of rows.

    Returns
    -------
    x : array (*a.shape[ind:], *a.shape[:ind])
        The inverse.

    Raises
    ------
    SingularMatrixError, ValueError, TypeError
        As in `inv`.

    Notes
    -----
    Differentiable as `inv` is.
    Cost: that of `inv`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.tensorinv(2 * np.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    A = as_float("a", a)
    ind = require_int("ind", ind, 1, max(A.ndim - 1, 1))
    rows, columns = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    _require_pair(rows, columns, rows)
    n, xp = prod(rows), namespace(A)
    return to_caller(xp.reshape(inv(xp.reshape(A, (n, n))), (*columns, *rows)))


def _require_pair(rows: tuple[int, ...], columns: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if rows != wanted or prod(rows) != prod(columns):
        came = f"{rows} and {columns}"
        advice = "It is a square matrix, whose rows and columns are several axes each."
        raise value_error("a", f"rows {wanted}, and as many columns", came, advice)
