"""Roots of functions by Newton's method with sparse Jacobians, differentiated implicitly.

`implicit` does the second half alone, for solutions that were found elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.typing import ArrayT, ParamsT
from ldiv.core.arrays.validate import (
    require_callable,
    require_flag,
    require_int,
    require_number,
    require_option,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, traced
from ldiv.core.owners.holder import Holder, holding, owner
from ldiv.core.rules.rule import bind
from ldiv.derivatives.bounds import require_bounds
from ldiv.derivatives.curvature import SparseCurvature, with_diagonal
from ldiv.derivatives.damped_steps import Curvature
from ldiv.derivatives.function_arguments import PatternLike, on_pattern, require_vector
from ldiv.derivatives.jacobian_values import dense_values, sparse_values
from ldiv.derivatives.minimum import checked
from ldiv.derivatives.normal_equations import DenseEquations
from ldiv.derivatives.pseudo_time import PseudoTime, require_dt0
from ldiv.derivatives.root_info import Path, RootInfo
from ldiv.engines import solve_log
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.alternatives import not_in_a_trace
from ldiv.linalg.arguments.solve_problem import require_method
from ldiv.linalg.systems.solve_info import Estimated
from ldiv.matrices.assumptions import definiteness, promised
from ldiv.matrices.matrix import Matrix
from ldiv.rules.root import Root, Steps
from ldiv.structures.dense import dense

Promise = Literal["gen", "sym", "her", "pos"]
PTC = "ptc"  # a method of `root`


@overload
def root(
    f: Callable[..., ArrayT],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    assume_a: Promise = "gen",
    method: str = "auto",
    tol: float | None = None,
    maxiter: int = 50,
    line_search: Literal["armijo"] | None = "armijo",
    stepmx: float | None = None,
    bounds: Any = None,
    dt0: Any = None,
    info: Literal[False] = False,
) -> ArrayT: ...
@overload
def root(
    f: Callable[..., ArrayT],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    assume_a: Promise = "gen",
    method: str = "auto",
    tol: float | None = None,
    maxiter: int = 50,
    line_search: Literal["armijo"] | None = "armijo",
    stepmx: float | None = None,
    bounds: Any = None,
    dt0: Any = None,
    info: Literal[True],
) -> tuple[ArrayT, RootInfo]: ...
@public
def root(
    f: Callable[..., ArrayT],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    assume_a: Promise = "gen",
    method: str = "auto",
    tol: float | None = None,
    maxiter: int = 50,
    line_search: Literal["armijo"] | None = "armijo",
    stepmx: float | None = None,
    bounds: Any = None,
    dt0: Any = None,
    info: bool = False,
) -> ArrayT | tuple[ArrayT, RootInfo]:
    """Solve a nonlinear system by Newton's method, differentiably.

        f(x, p) = 0,    x <- x - t J^-1 f(x, p),    J = df/dx

    Parameters
    ----------
    f : callable (x, params) -> array (n,)
        A function of a real array (n,) and `params`, or of x alone without `params`. What f closes
        over must be constant.
    x0 : array (n,)
        Where to start.
    params : array, nested tuples, lists and dicts of arrays, or a pytree of JAX, optional
        What f depends on besides x, and x is differentiated in.
    pattern : sparse matrix or pair (rows, columns), optional
        All places where J may be nonzero, as in `jacobian`; without it J is dense.
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        An assumption about J.
    method : str, default "auto"
        An engine, as in `solve`, or "ptc", pseudo-transient continuation, for a stable steady state
        (see Notes).
    tol : float, optional
        The iteration stops when a Newton step is at most tol |x|; eps^(2/3) by default.
    maxiter : int, default 50
        The largest number of Newton steps.
    line_search : {"armijo", None}, default "armijo"
        Halve a step until |f| decreases, as in `scipy.optimize.newton_krylov`; with None only until
        f is finite, for a path to the root that leads over larger |f|.
    stepmx : float, optional
        The largest change of an unknown in one step; unlimited by default.
    bounds : pair (lower, upper), optional
        Bounds of x, as in `scipy.optimize.least_squares`: numbers, or arrays (n,). x0 must be between
        them.
    dt0 : float, or array (n,), optional
        The first time step of "ptc", for all or for each unknown (see Notes).
    info : bool, default False
        Return a `RootInfo`, too.

    Returns
    -------
    x : array (n,)
        The root.
    info : RootInfo
        With info=True only: steps, residuals, lengths of the steps, condition at the root.

    Raises
    ------
    ConvergenceError
        After maxiter steps, or where |f| cannot be decreased, within `bounds`.
    SingularMatrixError
        For a singular J.
    NotDifferentiableError
        From the derivative, at a fold.
    ValueError
        For a pattern that misses an entry, shapes and NaN.
    TypeError
        For info=True inside of a transformation (jit, vmap); else as in `solve`.

    Notes
    -----
    The step length t begins at 1, or where t dx changes an unknown by stepmx, and is halved until
    |f| decreases. If |f| cannot decrease any more, as by rounding at x = 0, the last step may also be
    tol times the start, or tol times the longest step. A usual stepmx is a few tenths of a volt for
    circuits, and a few units for the logarithm of a concentration (`scipy.optimize.minimize` with TNC
    has this option). With `bounds` a step takes at most nine tenths of the way to the nearest bound; a
    point on a bound is no root.

    With method="ptc" it follows dx/dt = -f(x, p) to rest by implicit steps, x <- x - (I / dt + J)^-1 f(x, p), with the
    engine "auto". dt grows as |f| falls. It finds a steady state that is stable, with this sign of f.
    1 / dt0 is the weight of dx/dt; by default dt0 is |x0| / |f(x0)|, or 1 / |f(x0)| for x0 = 0. A
    smaller dt0 takes more steps, and is more robust.

    Differentiable in params, in every mode and order, by the implicit function theorem:
    dx = -J^-1 df/dp dp. Not in x0. If f closes over something that is differentiated, it raises, as
    with a `LinearOperator`.

    A batch (vmap) is differentiated inside the vmap or outside, where it takes 1 Jacobian and 1
    factorization more. In PyTorch small problems are one iteration, in which each stops on its own;
    else they are solved one by one.

    The last Newton step is found short enough, and then taken: x is nearer to the root than tol,
    as near as steps converge. The derivative is that where this step began, right to tol.

    At a fold, a root where J is singular, steps halve to the end: the derivative raises there.

    Cost: for each step 1 Jacobian (as many products as the pattern has colors), 1 factorization
    and 1 solve. The last factorization serves the derivative, which takes 1 more solve and 1
    product of f.

    References
    ----------
    Dennis and Schnabel, Numerical Methods for Unconstrained Optimization and Nonlinear Equations,
    chapter 6; Kelley and Keyes, Convergence analysis of pseudo-transient continuation (1998).

    Examples
    --------
    >>> import ldiv, torch
    >>> p = torch.tensor([4.0, 9.0], dtype=torch.float64, requires_grad=True)
    >>> x0 = torch.ones(2, dtype=torch.float64)
    >>> x = ldiv.root(lambda x, p: x**2 - p, x0, p, pattern=([0, 1], [0, 1]))
    >>> x
    tensor([2., 3.], dtype=torch.float64, grad_fn=<NodeBackward>)
    >>> torch.autograd.grad(x.sum(), p)[0]
    tensor([0.2500, 0.1667], dtype=torch.float64)
    """
    if line_search is not None:
        require_option("line_search", line_search, ("armijo",), "Or None, for whole steps.")
    if stepmx is not None:
        require_number("stepmx", stepmx, 0, above=True)
    if dt0 is not None and method != PTC:
        raise value_error("dt0", f"method={PTC!r} beside it", shown(method), "Pass both.")
    path, n = Path() if require_flag("info", info) else None, require_vector("x0", x0).shape[0]
    within = None if bounds is None else require_bounds(bounds, n)
    pseudo = None if method != PTC else partial(PseudoTime, require_dt0(dt0, n))
    steps = partial(
        Steps,
        maxiter=require_int("maxiter", maxiter, 0),
        decreasing=line_search is not None and pseudo is None,
        longest=math.inf if stepmx is None else float(stepmx),
        within=within,
        observer=path,
    )
    alone = params is None
    engine = "auto" if pseudo else method
    found = _arguments("x0", f, x0, params, pattern, assume_a, engine, tol, steps, alone, pseudo)
    return _root(*found) if path is None else with_info(path, *found)


@public
def implicit(
    f: Callable[[ArrayT, ParamsT], ArrayT],
    x: ArrayT,
    params: ParamsT,
    *,
    pattern: PatternLike | None = None,
    assume_a: Promise = "gen",
    method: str = "auto",
    tol: float | None = None,
) -> ArrayT:
    """Make a solution that was found elsewhere differentiable.

        f(x, p) = 0,    dx = -J^-1 df/dp dp,    J = df/dx

    Parameters
    ----------
    f : callable (x, params) -> array (n,)
        As in `root`.
    x : array (n,)
        The solution, found by any method.
    params : array, nested tuples, lists and dicts of arrays, or a pytree of JAX
        What f depends on besides x.
    pattern : sparse matrix or pair (rows, columns), optional
        As in `root`.
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        An assumption about J.
    method : str, default "auto"
        An engine, as in `solve`.
    tol : float, optional
        One Newton step from x must be at most tol |x| long; the square root of eps by default. |x|
        counts as at least eps^(1/4) sqrt(n), so that x = 0 can be a solution. Scale unknowns that are
        smaller.

    Returns
    -------
    x : array (n,)
        The solution as it was given, now a function of params.

    Raises
    ------
    ConvergenceError
        Where the Newton step is longer: x is not a solution.
    SingularMatrixError
        For a singular J.
    ValueError
        For a pattern that misses an entry, shapes and NaN.

    Notes
    -----
    Differentiable in params, in every mode and order, as in `root`; not in x.
    Cost: 1 Jacobian, 1 factorization and 1 solve; the derivative reuses the factorization.

    Examples
    --------
    >>> import ldiv, torch
    >>> p = torch.tensor([4.0], dtype=torch.float64, requires_grad=True)
    >>> x = ldiv.implicit(lambda x, p: x**2 - p, p.detach().sqrt(), p)
    >>> torch.autograd.grad(x.sum(), p)[0]
    tensor([0.2500], dtype=torch.float64)
    """
    at = require_vector("x", x)
    eps = float(np.finfo(numpy_dtype(at)).eps)
    steps = partial(Steps, maxiter=0, floor=eps**0.25 * float(at.shape[0]) ** 0.5)
    tol = eps**0.5 if tol is None else tol
    return _root(*_arguments("x", f, at, params, pattern, assume_a, method, tol, steps))


def _arguments(
    name: str,
    f: Any,
    x: Any,
    params: Any,
    pattern: Any,
    assume_a: str,
    method: str,
    tol: float | None,
    steps: Callable[[float], Steps],
    alone: bool = False,
    pseudo: Callable[[Curvature], PseudoTime] | None = None,
) -> tuple[Root, tuple[Array, ...], Array]:
    """The rule and its arguments, checked; `steps` takes the tolerance. `alone`: f takes x alone.
    `pseudo` takes the matrices to whose diagonal it adds.
    """
    x = require_vector(name, x)
    require_option("assume_a", assume_a, ("gen", "sym", "her", "pos"))
    require_method(method, advice="It solves with the Jacobian; the iteration is Newton's.")
    require_callable("f", f, "a function of (x, params)", "It returns as many numbers as x has.")
    if tol is not None:
        require_number("tol", tol, 0, above=True)
    n = x.shape[0]
    wanted = f"as many equations as unknowns, values {tuple(x.shape)}"
    advice = "It takes (x, params), in this order."
    residual, found = checked(f, x, params, "f", None, wanted, advice)
    if not found and not alone:
        raise value_error(
            "params",
            "at least one array",
            shown(params),
            "Hand over what f depends on as arrays, even if it is constant; a Python number is none.",
        )
    residual(found, x)
    if pattern is None:
        base: Any = dense(n, n)
        values: Any = partial(_whole, n)
        like = namespace(x).broadcast_to(x[:1] * 0, (n, n))
    else:
        base = on_pattern(pattern, (n, n))
        base = with_diagonal(base) if pseudo else base
        values = partial(sparse_values, base, "auto")
        like = namespace(x).broadcast_to(x[:1] * 0, (base.pattern.nnz,))
    structure, _ = promised(Matrix(base, like), assume_a)
    accuracy = float(np.finfo(numpy_dtype(x)).eps ** (2 / 3)) if tol is None else float(tol)
    axes, assumption = tuple(leaf.ndim for leaf in found), definiteness(structure, assume_a)
    limits = steps(accuracy)
    if pseudo is not None:
        matrix = DenseEquations(n, n) if pattern is None else SparseCurvature(base)
        limits = replace(limits, pseudo=pseudo(matrix))
    rule = Root(residual, axes, structure, values, assumption, method, limits)
    return rule, found, x


def with_info(
    path: Path, rule: Root, params: tuple[Array, ...], x0: Array, asked: str = "info=True"
) -> tuple[Any, RootInfo]:
    """The root and the path to it; the keeper holds the last factor, for the condition."""
    if any(map(traced, (x0, *params))):
        raise not_in_a_trace(asked)
    keeper = Holder() if (present := owner()) is None else present
    with solve_log.reading() as entries, holding(keeper):
        x = _root(rule, params, x0)
    if path.starts != 1:  # a batch is solved one by one
        raise not_in_a_trace(asked)
    jacobian = Estimated(path.J, rule.structure, rule.assume_a, rule.method, None, keeper)
    engine = entries[-1].engine if entries else ""  # without unknowns nothing is solved
    return x, path.info(engine, jacobian)


def _root(rule: Root, params: tuple[Array, ...], x: Array) -> Any:
    """Return the root, which is one of the two points of the rule; its Jacobian was factored at the
    other point.
    """
    return bind(rule, params, x)[0]


def _whole(n: int, f: Callable[[Array], Array], x: Array) -> Array:
    return dense_values(f, x, n, "auto")
