"""Iterations under SciPy's names: x and info, as SciPy returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import as_float, require_flag, require_number, require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.trees import leaves
from ldiv.linalg.arguments.preconditioner import PreconditionerLike
from ldiv.linalg.arguments.solve_problem import square
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.diags import identity
from ldiv.matrices.matrix import MatrixLike
from ldiv.structures.composed import is_dense


@public
def cg(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
) -> tuple[ArrayT, int]:
    """Solve a positive definite system by conjugate gradients, differentiably.

        A x = b,    A = A^H > 0

    Parameters
    ----------
    A : array (n, n), SparseArray, LinearOperator, or any other Matrix
        Hermitian positive definite.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    x0 : array, shaped like b, optional
        A guess, with which the iteration starts.
    rtol, atol : float, optional
        The iteration stops at |b - A x| <= max(rtol |b|, atol) in every column. rtol is
        eps^(2/3) by default: SciPy's 1e-5 would be the accuracy of the gradient.
    maxiter : int, optional
        The most steps.
    M : str, Matrix or Factorized, optional
        A preconditioner, near A^-1, as in `solve`.
    callback : callable, optional
        callback(x) is called after each step, with the iterate.

    Returns
    -------
    x : array, shaped like b
        The solution.
    info : int
        0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        For an iteration that does not converge, of the solution or of a derivative.
    NotPositiveDefiniteError, NotSymmetricError
        For a matrix that is not positive definite or Hermitian.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.

    Notes
    -----
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 1 product with A and 1 with M for each step.

    References
    ----------
    Hestenes and Stiefel, J. Res. Nat. Bur. Standards 49 (1952).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.cg(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    return iterated("cg", A, b, x0, M, maxiter, callback, assume_a="pos", rtol=rtol, atol=atol)


@public
def minres(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    show: bool = False,
    check: bool = False,
) -> tuple[ArrayT, int]:
    """Solve a Hermitian system by minimal residuals, differentiably.

        (A - shift I) x = b,    A = A^H

    Parameters
    ----------
    A : array (n, n), SparseArray, LinearOperator, or any other Matrix
        Hermitian.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    x0 : array, shaped like b, optional
        A guess, with which the iteration starts.
    rtol : float, optional
        The iteration stops at |b - (A - shift I) x| <= rtol |b| in every column. rtol is
        eps^(2/3) by default: SciPy's 1e-5 would be the accuracy of the gradient.
    shift : float, default 0
        A constant: in the s of A - s * ldiv.identity(n) there is a derivative.
    maxiter : int, optional
        The most steps.
    M : str, Matrix or Factorized, optional
        A preconditioner, near A^-1, as in `solve`.
    callback : callable, optional
        callback(x) is called after each step, with the iterate.
    show : bool, default False
        Print how far the iteration has come.
    check : bool
        Accepted, as SciPy has it: symmetry is always checked.

    Returns
    -------
    x : array, shaped like b
        The solution.
    info : int
        0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        For an iteration that does not converge, of the solution or of a derivative.
    NotSymmetricError
        For a matrix that is not Hermitian.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.

    Notes
    -----
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 1 product with A and 1 with M for each step.

    References
    ----------
    Paige and Saunders, SIAM J. Numer. Anal. 12 (1975).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.minres(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    if require_number("shift", shift):
        matrix = square(A, b, x0, M)
        like = next(iter(leaves(matrix.params)), None)
        like = as_float("b", b) if like is None else like
        shifted = matrix - shift * identity(matrix.shape[-1], like=like)
        A = shifted.toarray() if is_dense(matrix.structure) else shifted
    require_flag("check", check)
    progress = require_flag("show", show)
    return iterated(
        "minres", A, b, x0, M, maxiter, callback, assume_a="her", rtol=rtol, progress=progress
    )


@public
def gmres(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    callback_type: Literal["x"] | None = None,
) -> tuple[ArrayT, int]:
    """Solve a system by generalized minimal residuals, differentiably.

        A x = b

    Parameters
    ----------
    A : array (n, n), SparseArray, LinearOperator, or any other Matrix
        The matrix.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    x0 : array, shaped like b, optional
        A guess, with which the iteration starts.
    rtol, atol : float, optional
        The iteration stops at |b - A x| <= max(rtol |b|, atol) in every column. rtol is
        eps^(2/3) by default: SciPy's 1e-5 would be the accuracy of the gradient.
    restart : int, optional
        Steps of a cycle, 20 by default.
    maxiter : int, optional
        The most cycles.
    M : str, Matrix or Factorized, optional
        A preconditioner, near A^-1, as in `solve`.
    callback : callable, optional
        callback(x) is called after each cycle, with the iterate. SciPy calls it after each step
        with the norm of the residual, a float, unless callback_type="x".
    callback_type : {"x"}, optional
        What the callback takes: "x" is the default, and the only choice.

    Returns
    -------
    x : array, shaped like b
        The solution.
    info : int
        0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        For an iteration that does not converge, of the solution or of a derivative.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.

    Notes
    -----
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 1 product with A and 1 with M for each step; a cycle keeps `restart` vectors.

    References
    ----------
    Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.gmres(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    if callback_type is not None:
        advice = (
            "The callback takes the iterate of each cycle; for the norm write "
            "callback=lambda x: f(abs(b - A @ x).max()) in place of callback=f."
        )
        require_option("callback_type", callback_type, ("x",), advice)
    return iterated("gmres", A, b, x0, M, maxiter, callback, restart=restart, rtol=rtol, atol=atol)


@public
def bicgstab(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
) -> tuple[ArrayT, int]:
    """Solve a system by stabilized biconjugate gradients, differentiably.

        A x = b

    Parameters
    ----------
    A : array (n, n), SparseArray, LinearOperator, or any other Matrix
        The matrix.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    x0 : array, shaped like b, optional
        A guess, with which the iteration starts.
    rtol, atol : float, optional
        The iteration stops at |b - A x| <= max(rtol |b|, atol) in every column. rtol is
        eps^(2/3) by default: SciPy's 1e-5 would be the accuracy of the gradient.
    maxiter : int, optional
        The most steps.
    M : str, Matrix or Factorized, optional
        A preconditioner, near A^-1, as in `solve`.
    callback : callable, optional
        callback(x) is called after each step, with the iterate.

    Returns
    -------
    x : array, shaped like b
        The solution.
    info : int
        0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        For an iteration that does not converge, of the solution or of a derivative.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.

    Notes
    -----
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 2 products with A and 2 with M for each step.

    References
    ----------
    van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.bicgstab(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    return iterated("bicgstab", A, b, x0, M, maxiter, callback, rtol=rtol, atol=atol)


def iterated(
    method: str,
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None,
    M: PreconditionerLike | None,
    maxiter: int | None,
    callback: Callable[[ArrayT], Any] | None,
    **options: Any,
) -> tuple[ArrayT, int]:
    """SciPy's two results of an iteration."""
    options |= {"method": method, "x0": x0, "M": M, "maxiter": maxiter, "callback": callback}
    return solve(A, b, **options), 0
