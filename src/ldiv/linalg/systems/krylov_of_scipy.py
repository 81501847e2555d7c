"""More iterative methods under SciPy's names, with SciPy's steps, which return x and info."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.public import public
from ldiv.linalg.arguments.alternatives import only_one
from ldiv.linalg.arguments.preconditioner import PreconditionerLike, given
from ldiv.linalg.systems.krylov import iterated
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import Matrix, MatrixLike


@public
def bicg(
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
    """Solve a system by biconjugate gradients, differentiably.

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
        For an iteration that does not converge or breaks down, of the solution or of a derivative.
    EngineError
        For an operator under jit or vmap.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.
    gmres, bicgstab : in the framework of the arrays, on their device.

    Notes
    -----
    The steps are SciPy's, on the host, one column after the other.
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 1 product with A, A^H, M and M^H each for a step.

    References
    ----------
    Fletcher, Lecture Notes in Mathematics 506 (1976).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.bicg(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    return iterated("bicg", A, b, x0, M, maxiter, callback, rtol=rtol, atol=atol)


@public
def cgs(
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
    """Solve a system by squared conjugate gradients, differentiably.

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
        For an iteration that does not converge or breaks down, of the solution or of a derivative.
    EngineError
        For an operator under jit or vmap.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.
    gmres, bicgstab : in the framework of the arrays, on their device.

    Notes
    -----
    The steps are SciPy's, on the host, one column after the other.
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 2 products with A and 2 with M for each step.

    References
    ----------
    Sonneveld, SIAM J. Sci. Stat. Comput. 10 (1989).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.cgs(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    return iterated("cgs", A, b, x0, M, maxiter, callback, rtol=rtol, atol=atol)


@public
def qmr(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M1: PreconditionerLike | None = None,
    M2: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
) -> tuple[ArrayT, int]:
    """Solve a system by quasi-minimal residuals, differentiably.

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
    M1, M2 : str, Matrix or Factorized, optional
        A preconditioner, near A^-1, as in `solve`: one of both. A product is passed as one Matrix.
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
        For an iteration that does not converge or breaks down, of the solution or of a derivative.
    EngineError
        For an operator under jit or vmap.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.
    gmres, bicgstab : in the framework of the arrays, on their device.

    Notes
    -----
    The steps are SciPy's, on the host, one column after the other.
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M1, M2, on which the solution does not depend.
    Cost: 1 product with A, A^H, M and M^H each for a step.

    References
    ----------
    Freund and Nachtigal, Numer. Math. 60 (1991).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.qmr(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    name, M = "M1" if M2 is None else "M2", only_one("M1", M1, "M2", M2)
    if M is not None:  # errors speak of the name under which it came
        M = Matrix(*given(M, *promised_square(A, "gen")[1:3], name))
    return iterated("qmr", A, b, x0, M, maxiter, callback, rtol=rtol, atol=atol)


@public
def tfqmr(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    show: bool = False,
) -> tuple[ArrayT, int]:
    """Solve a system by transpose-free quasi-minimal residuals, differentiably.

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
    show : bool, default False
        Print how far the iteration has come.

    Returns
    -------
    x : array, shaped like b
        The solution.
    info : int
        0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        For an iteration that does not converge or breaks down, of the solution or of a derivative.
    EngineError
        For an operator under jit or vmap.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.
    gmres, bicgstab : in the framework of the arrays, on their device.

    Notes
    -----
    The steps are SciPy's, on the host, one column after the other.
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: 2 products with A and 2 with M for each step.

    References
    ----------
    Freund, SIAM J. Sci. Comput. 14 (1993).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.tfqmr(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    progress = require_flag("show", show)
    return iterated(
        "tfqmr", A, b, x0, M, maxiter, callback, rtol=rtol, atol=atol, progress=progress
    )


@public
def lgmres(
    A: MatrixLike,
    b: ArrayT,
    x0: ArrayT | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    inner_m: int = 30,
    outer_k: int = 3,
    outer_v: Any = None,
    store_outer_Av: bool = True,
    prepend_outer_v: bool = False,
) -> tuple[ArrayT, int]:
    """Solve a system by restarted minimal residuals that keep earlier corrections, differentiably.

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
        The most cycles.
    M : str, Matrix or Factorized, optional
        A preconditioner, near A^-1, as in `solve`.
    callback : callable, optional
        callback(x) is called after each cycle, with the iterate.
    inner_m : int, default 30
        Steps of a cycle.
    outer_k, outer_v, store_outer_Av, prepend_outer_v : optional
        Accepted, as SciPy has them: three corrections are kept, of this call.

    Returns
    -------
    x : array, shaped like b
        The solution.
    info : int
        0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        For an iteration that does not converge or breaks down, of the solution or of a derivative.
    EngineError
        For an operator under jit or vmap.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : the same with method=, for x alone, and all other ways.
    gmres, bicgstab : in the framework of the arrays, on their device.

    Notes
    -----
    The steps are SciPy's, on the host, one column after the other.
    Differentiable in A and b in every mode and order, by one more iteration with A^H for each
    direction; not in x0 and M, on which the solution does not depend.
    Cost: `inner_m` products with A and M for each cycle, which keeps as many vectors.

    References
    ----------
    Baker, Jessup and Manteuffel, SIAM J. Matrix Anal. Appl. 26 (2005).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> x, info = ldiv.lgmres(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]))
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    return iterated("lgmres", A, b, x0, M, maxiter, callback, restart=inner_m, rtol=rtol, atol=atol)
