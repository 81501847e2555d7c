"""PyTorch's names with a number that reports success: 0, or 1 under `errstate(singular="nan")`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.errors import value_error
from ldiv.linalg.inverses.inverse import inv
from ldiv.linalg.systems.solve import solve


@public
def inv_ex(A: ArrayT, *, check_errors: bool = False) -> tuple[ArrayT, ArrayT]:
    """Invert a dense matrix, differentiably, and say that it has an inverse.

        X = A^-1

    Parameters
    ----------
    A : array (*batch, n, n)
        As in `inv`.
    check_errors : bool
        Accepted, as PyTorch has it: what fails raises, with False and with True.

    Returns
    -------
    X : array (*batch, n, n)
    info : array of integers (*batch,)
        0; under `errstate(singular="nan")`, where nothing raises, 1 for a member that is NaN.

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
    >>> X, info = ldiv.inv_ex(np.array([[4.0]]))
    >>> X, int(info)
    (array([[0.25]]), 0)
    """
    require_flag("check_errors", check_errors)
    X = inv(A)
    return X, success(X, 2)


@public
def solve_ex(
    A: ArrayT, B: AnyArray, *, left: bool = True, check_errors: bool = False
) -> tuple[ArrayT, ArrayT]:
    """Solve a dense linear system, differentiably, and say that it has a solution.

        A X = B,    or with left=False X A = B

    Parameters
    ----------
    A : array (*batch, n, n)
        As in `solve`.
    B : array (n,) or (*batch, n, k), or with left=False (*batch, k, n)
        A one-dimensional B is a vector, anything else a block.
    left : bool, default True
        On which side of X the matrix stands.
    check_errors : bool
        Accepted, as PyTorch has it: what fails raises, with False and with True.

    Returns
    -------
    X : array, shaped like B
    info : array of integers (*batch,)
        0; under `errstate(singular="nan")`, where nothing raises, 1 for a member that is NaN.

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
    >>> X, info = ldiv.solve_ex(np.array([[4.0]]), np.array([2.0]))
    >>> X, int(info)
    (array([0.5]), 0)
    """
    require_flag("check_errors", check_errors)
    b: Any = B
    if require_flag("left", left):
        X: Any = solve(A, b)
    elif getattr(b, "ndim", 2) < 2:
        raise value_error("B", "a block with left=False", "a vector", "Add its axis.")
    else:
        X = solve(A, b.mT, trans="T").mT
    return X, success(X, 1 if np.ndim(b) == 1 else 2)


def success(x: Any, core: int) -> Any:
    """0 for each member of a batch, of arrays with `core` axes of their own, or 1 for NaN."""
    xp: Any = namespace(x)
    return xp.astype(xp.any(xp.isnan(x), axis=tuple(range(-core, 0))), xp.int32)
