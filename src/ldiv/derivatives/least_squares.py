"""Nonlinear least squares, sparse and robust, differentiated by the implicit function theorem.

At a minimum g(x, p) = J^T rho' r = 0, whose Jacobian in x is the Hessian of the cost: a root of g,
where the Hessian is positive definite. See `rules/root.py` for the derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, cast, overload

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT, ParamsT
from ldiv.core.arrays.validate import (
    require_callable,
    require_flag,
    require_int,
    require_number,
    require_option,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.rules.rule import Traits, bind
from ldiv.derivatives.damped_steps import polishing
from ldiv.derivatives.function_arguments import PatternLike, on_pattern, require_vector
from ldiv.derivatives.given_jacobian import GivenJacobian
from ldiv.derivatives.implicit import with_info
from ldiv.derivatives.least_squares_info import FitPath, LeastSquaresInfo
from ldiv.derivatives.levenberg_marquardt import FitSearch
from ldiv.derivatives.minimum import Checked, Gradient, Minimum, ParamsFirst, Problem, checked
from ldiv.derivatives.normal_equations import DenseEquations, Equations, SparseEquations
from ldiv.derivatives.robust_losses import LOSSES, Scaled
from ldiv.derivatives.root_info import Path
from ldiv.errors import OF_MINIMA, shown, value_error
from ldiv.matrices.assumptions import promised
from ldiv.matrices.linear_operator import WithParams
from ldiv.matrices.matrix import Matrix

Loss = Literal["linear", "soft_l1", "huber", "cauchy", "arctan"]
METHODS = ("lm", "gauss-newton")


@overload
def least_squares(
    residual: Callable[..., AnyArray],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    loss: Loss = "linear",
    f_scale: float = 1.0,
    method: Literal["lm", "gauss-newton"] = "lm",
    maxiter: int = 200,
    jac: Callable[..., Any] | None = None,
    tol: float | None = None,
    info: Literal[False] = False,
    verbose: Literal[0, 1, 2] = 0,
) -> ArrayT: ...
@overload
def least_squares(
    residual: Callable[..., AnyArray],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    loss: Loss = "linear",
    f_scale: float = 1.0,
    method: Literal["lm", "gauss-newton"] = "lm",
    maxiter: int = 200,
    jac: Callable[..., Any] | None = None,
    tol: float | None = None,
    info: Literal[True],
    verbose: Literal[0, 1, 2] = 0,
) -> tuple[ArrayT, LeastSquaresInfo]: ...
@public
def least_squares(
    residual: Callable[..., AnyArray],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    loss: Loss = "linear",
    f_scale: float = 1.0,
    method: Literal["lm", "gauss-newton"] = "lm",
    maxiter: int = 200,
    jac: Callable[..., Any] | None = None,
    tol: float | None = None,
    info: bool = False,
    verbose: Literal[0, 1, 2] = 0,
) -> ArrayT | tuple[ArrayT, LeastSquaresInfo]:
    """Minimize a sum of squares, or of robust losses, of nonlinear residuals, differentiably.

        min over x of  1/2 C^2 sum_i rho((r_i(x, p) / C)^2)

    Parameters
    ----------
    residual : callable (x, params) -> array (m,)
        A function of a real array (n,) and `params`, or of x alone without `params`. What it closes
        over must be constant, as in `root`.
    x0 : array (n,)
        Where to start.
    params : array, nested tuples, lists and dicts of arrays, or a pytree of JAX, optional
        What the residual depends on besides x: data, weights.
    pattern : sparse matrix or pair (rows, columns), optional
        All places where the Jacobian dr/dx (m, n) may be nonzero, as in `jacobian`; without it
        matrices are dense.
    loss : {"linear", "soft_l1", "huber", "cauchy", "arctan"}, default "linear"
        rho, as in `scipy.optimize.least_squares` (see Notes).
    f_scale : float, default 1.0
        C, the size up to which residuals count in full.
    method : {"lm", "gauss-newton"}, default "lm"
        Levenberg-Marquardt steps, or Gauss-Newton steps that are halved until the cost decreases.
    maxiter : int, default 200
        The largest number of these steps.
    jac : callable (x, params) -> array (m, n), optional
        The Jacobian dr/dx for these steps, if a formula costs less than derivatives of the residual;
        with `pattern` a sparse matrix (m, n).
    tol : float, optional
        Newton's method ends with a step of at most tol |x|; eps^(5/6) by default.
    info : bool, default False
        Return a `LeastSquaresInfo`, too.
    verbose : {0, 1, 2}, default 0
        1 prints a summary, 2 each step as well, as in SciPy.

    Returns
    -------
    x : array (n,)
        The minimum, to the accuracy of the gradient.
    info : LeastSquaresInfo
        With info=True only: steps, costs, gradients, condition of the Hessian at the minimum.

    Raises
    ------
    ConvergenceError
        After maxiter steps, or where there is no minimum.
    NotPositiveDefiniteError, SingularMatrixError
        At a saddle point, or where the residuals do not determine x.
    ValueError
        For a pattern that misses an entry, a `jac` that is not the derivative at x0, shapes and NaN.
    TypeError
        For complex residuals, and for info=True or verbose inside of a transformation (jit, vmap).

    Notes
    -----
    The losses rho(z) are z, 2 (sqrt(1 + z) - 1), z up to 1 and 2 sqrt(z) - 1 beyond, log(1 + z), and
    arctan(z). Complex residuals are minimized as their real and imaginary parts together.

    A local minimum is found, where the Hessian of the cost, with the second derivatives of the
    residuals, is positive definite. The damped steps end if one without damping is short, or predicts
    a small decrease rightly. Then Newton's method on the gradient, which converges faster, decides.

    Differentiable in params, in every mode and order, by the implicit function theorem:
    dx = -H^-1 dg/dp dp, for the gradient g and the Hessian H. Not in x0. If a residual is exactly at
    the kink of huber's slope, the derivative is one of the two.

    A batch (vmap) is differentiated inside the vmap or outside, as in `root`. In PyTorch small problems
    are one iteration, in which each stops on its own; else they are solved one by one.

    Cost: for each step 1 Jacobian (as many products as the pattern has colors), and mostly 1 Cholesky
    factorization of J^T W J + mu D^2 and 1 solve. At the end it takes 2 or 3 Hessians, on the pattern of
    J^T J, with a factorization each. The last one is that at x and serves the derivative, which takes 1
    solve and 1 product with dg/dp more, in JAX 1 Hessian, too. One factor lives at a time. A row of J
    with k entries has k^2 in J^T J: unknowns that all residuals share make it dense. The points of a
    bundle adjustment, each of which meets cameras alone, come first in the order of these
    factorizations, which is elimination by their Schur complement.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, chapter 10; Triggs, McLauchlan, Hartley and
    Fitzgibbon, Bundle Adjustment: A Modern Synthesis (2000).

    Examples
    --------
    >>> import ldiv, torch
    >>> t = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    >>> y = torch.tensor([2.0, 1.2, 0.7, 0.4], dtype=torch.float64, requires_grad=True)
    >>> x0 = torch.ones(2, dtype=torch.float64)
    >>> x = ldiv.least_squares(lambda x, y: x[0] * torch.exp(-x[1] * t) - y, x0, y)
    >>> x.detach()
    tensor([2.0058, 0.5261], dtype=torch.float64)
    >>> torch.autograd.grad(x[1], y)[0]  # of the rate in each measurement
    tensor([ 0.2681, -0.1743, -0.2996, -0.2932], dtype=torch.float64)
    """
    start: Array = require_vector("x0", x0)
    require_callable("residual", residual, "a function of (x, params)", "It returns an array (m,).")
    require_option("loss", loss, tuple(LOSSES))
    require_number("f_scale", f_scale, 0, above=True)
    require_option("method", method, METHODS)
    maxiter = require_int("maxiter", maxiter, 0)
    if tol is not None:
        require_number("tol", tol, 0, above=True)
    if require_int("verbose", verbose, 0) > 2:
        raise value_error("verbose", "0, 1 or 2", shown(verbose), "2 prints each step.")
    observed = require_flag("info", info) or verbose
    path, newton = (FitPath(verbose), Path()) if observed else (None, None)
    wanted, advice = "an array (m,)", "Flatten them; it takes (x, params), in this order."
    r, p = checked(residual, start, params, "residual", 1, wanted, advice)
    m, n = r(p, start).shape[0], start.shape[0]
    equations = _equations(pattern, m, n)
    like = namespace(start).broadcast_to(0 * start[:1], equations.nnz)
    structure, _ = promised(Matrix(equations.base, like), "pos")
    own = Scaled(loss, float(f_scale))
    rule = Fit(
        f=Gradient(r, own),
        axes=tuple(leaf.ndim for leaf in p),
        structure=structure,
        jacobian=equations.hessian,
        assume_a="pos",
        method="auto",
        steps=polishing(numpy_dtype(start), tol, newton),
        function=r,
        search=FitSearch(
            equations=equations,
            structure=structure,
            loss=own,
            damped=method == "lm",
            maxiter=maxiter,
            observer=path,
        ),
        given=None if jac is None else _given(jac, r, equations),
    )
    if path is None or newton is None:
        return cast(ArrayT, bind(rule, p, start)[0])
    asked = "info=True" if info else f"verbose={verbose}"
    x, of_newton = with_info(newton, rule, p, start, asked)
    how = path.info(of_newton)
    return (x, how) if info else cast(ArrayT, x)


def _given(jac: Any, beside: Checked, equations: Equations) -> GivenJacobian:
    require_callable("jac", jac, "a function of (x, params)", "It returns the Jacobian (m, n).")
    return GivenJacobian(
        WithParams(ParamsFirst(jac, beside.has_params), beside.f.outline), equations
    )


def _equations(pattern: Any, m: int, n: int) -> Equations:
    return DenseEquations(m, n) if pattern is None else SparseEquations(on_pattern(pattern, (m, n)))


@dataclass(frozen=True, kw_only=True)
class Fit(Minimum):
    """A minimum of a cost of residuals, whose Jacobian may be given."""

    search: FitSearch
    given: GivenJacobian | None = None

    called: ClassVar[str] = "least_squares"
    traits = Traits(name=called)
    iteration: ClassVar[str] = "least_squares"
    causes: ClassVar[str] = OF_MINIMA
    matrix: ClassVar[str] = "hessian"

    def problem(self, p: tuple[Array, ...], x: Array) -> Problem:
        at_p, call = partial(self.function, p), frontend_of(x).user.call
        J: Callable[[Array], Any]
        if self.given is None:
            J, of = partial(self.search.equations.jacobian, at_p), at_p
        else:
            J, of = partial(call, self.given, p), None
            self.given.check(at_p, J(x), x)
        return Problem(lambda x: call(self.function, p, x, of), at_p, J, self.system(p, x))

    @property
    def numbers(self) -> int:
        made = self.search.equations
        return super().numbers * (1 + made.m // max(1, made.base.shape[0]))

    def undefined(self) -> ValueError:
        return ValueError(
            "residual: expected a gradient of the cost that is finite, got NaN or infinity. "
            "Divide large residuals by their unit, or look for a pole of their derivatives."
        )
