"""Laplace's approximation of an integral over many unknowns, differentiated in everything.

    int exp(-f(x, p)) dx = (2 pi)^(n/2) det(H)^(-1/2) exp(-f(x*, p)),    H = d^2 f / dx^2 at the mode x*

The mode is a root of the gradient, and moves with p by the implicit function theorem; H moves with both,
by third derivatives of f, and its determinant by the selected inverse of H.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import device_of, numpy_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT, ParamsT
from ldiv.core.arrays.validate import require_callable, require_flag, require_int, require_number
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace, traced
from ldiv.core.rules.rule import bind
from ldiv.derivatives.curvature import SparseCurvature, with_diagonal
from ldiv.derivatives.damped_steps import polishing
from ldiv.derivatives.descent import Descent
from ldiv.derivatives.function_arguments import Function, PatternLike, on_pattern, require_vector
from ldiv.derivatives.implicit import with_info
from ldiv.derivatives.least_squares_info import FitPath, LeastSquaresInfo
from ldiv.derivatives.minimum import Gradient, checked
from ldiv.derivatives.mode import Mode
from ldiv.derivatives.points import evaluated
from ldiv.derivatives.root_info import Path
from ldiv.errors import EngineError, expected_got, value_error
from ldiv.linalg.inverses.sparse_cholesky import SparseCholesky
from ldiv.matrices.assumptions import promised
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse

FULL = 1_000  # unknowns whose Hessian is taken for dense where f cannot be followed


class LaplaceApproximation(NamedTuple):
    """The normal distribution N(mode, H^-1) that takes the place of exp(-f), and the integral of exp(-f).

    Attributes
    ----------
    value : array ()
        The logarithm of the integral: the log marginal likelihood, for f the negative logarithm of
        a joint density.
    mode : array (n,)
        Where f is least.
    factor : SparseCholesky
        The factored H at the mode, the precision: solves, determinant, low-rank updates.
    info : LeastSquaresInfo or None
        With info=True the steps to the mode, as those of a fit: `costs` are values of f.
    """

    value: Any
    mode: Any
    factor: SparseCholesky
    info: LeastSquaresInfo | None = None

    def variances(self) -> Any:
        """The diagonal of H^-1 (n,), differentiable as `value` is."""
        return self.factor.inverse_diagonal()

    def sample(self, key: Any, shape: int | tuple[int, ...] = ()) -> Any:
        """Draw samples (*shape, n) of N(mode, H^-1), as `SparseCholesky.sample` does."""
        return self.mode + self.factor.sample(key, shape)


@public
def laplace(
    f: Callable[..., AnyArray],
    x0: ArrayT,
    params: ParamsT | None = None,
    *,
    pattern: PatternLike | None = None,
    tol: float | None = None,
    maxiter: int = 200,
    info: bool = False,
) -> LaplaceApproximation:
    """Integrate exp(-f) over many unknowns by Laplace's approximation, differentiably.

        log int exp(-f(x, p)) dx = -f(x*, p) - log det H / 2 + n log(2 pi) / 2,
        x* = argmin f,  H = d^2 f / dx^2 at x*

    Parameters
    ----------
    f : callable (x, params) -> array ()
        The negative logarithm of the joint density, up to constants, of x (n,) and of the data that
        it knows; without `params` it takes x alone. What it closes over must be constant, as in
        `root`. Where it is infinite or NaN, x is outside of its domain.
    x0 : array (n,)
        Where to start, in the domain: the mode at parameters nearby saves steps.
    params : array, nested tuples, lists and dicts of arrays, or a pytree of JAX, optional
        What f depends on besides x: hyperparameters, covariates, data.
    pattern : sparse matrix or pair (rows, columns), optional
        All places where H may be nonzero, as in `hessian`. Without it the program of f is followed in
        each call, as in `detect_pattern`; if that is impossible, H is dense for up to 1,000 unknowns.
    tol : float, optional
        The last step to the mode is at most tol |x|; eps^(5/6) by default.
    maxiter : int, default 200
        The largest number of steps.
    info : bool, default False
        Report the steps.

    Returns
    -------
    approximation : LaplaceApproximation
        `value`, `mode`, `factor`, `info`, `variances()`, `sample(key, shape)`.

    Raises
    ------
    ConvergenceError
        After maxiter steps, or where there is no minimum.
    NotPositiveDefiniteError, SingularMatrixError
        For H indefinite or singular where the steps end; the message names the unknowns along which f
        curves least.
    EngineError
        For arrays on a device: the sparse factor is made on the host.
    ValueError
        For a pattern that misses an entry or is not symmetric, for f not finite at x0, shapes and NaN.
    TypeError
        For info=True inside of a transformation (jit, vmap); else as in `root`.

    Notes
    -----
    Differentiable in params, in every mode and order, as far as f is: the gradient in p is
    -df/dp - tr(H^-1 dH) / 2, where H moves with p and with x*. It is not differentiable in x0.
    The mode is a local minimum. The steps are damped until f decreases, also where H is indefinite on
    the way, and do not leave the domain. Newton's method on the gradient ends them; there f may be
    larger by rounding, or by sqrt(eps), which is nothing in a logarithm of a density. Value and
    gradient have a relative accuracy of about eps times the condition of H.

    Cost: for each step 1 evaluation of f, a product of its graph for each color of a star coloring,
    and 1 factorization; at the end 1 or 2 more. The pattern is checked at the mode, for which 1 more
    product is taken, and after an error; in a compiled program at each step, unless it shows the pattern.
    One factor lives at a time. A gradient is 1 selected inverse, 1 reverse pass through a Hessian and 1
    solve, for which f is evaluated once, in JAX twice. An f with a `torch.autograd.Function` or a hook is
    evaluated once more, beside the mode, to see that nothing cuts its graph.

    References
    ----------
    Tierney and Kadane, Accurate approximations for posterior moments and marginal densities (1986);
    Kristensen et al., TMB: automatic differentiation and Laplace approximation (2016).

    Examples
    --------
    >>> import ldiv, torch
    >>> counts = torch.tensor([3.0, 5.0, 4.0, 9.0], dtype=torch.float64)
    >>> def f(x, s):  # counts ~ Poisson(exp x), x a random walk with steps of variance 1 / s
    ...     return (x.exp() - counts * x).sum() + s * (x.diff() ** 2).sum() / 2 - 1.5 * s.log()
    >>> s = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
    >>> found = ldiv.laplace(f, torch.ones(4, dtype=torch.float64), s)
    >>> found.mode.detach()
    tensor([1.3324, 1.5299, 1.6318, 2.0121], dtype=torch.float64)
    >>> torch.autograd.grad(found.value, s)[0]
    tensor(0.0671, dtype=torch.float64)
    """
    start: Array = require_vector("x0", x0)
    require_callable("f", f, "a function of (x, params)", "It returns an array of shape ().")
    if (device := device_of(start)) != "cpu" and not traced(start):
        came = f"others on {device}"
        advice = "The sparse factor is made on the cpu. Move them there."
        raise EngineError(expected_got("laplace", "arrays on the cpu", came, advice))
    if tol is not None:
        require_number("tol", tol, 0, above=True)
    maxiter = require_int("maxiter", maxiter, 0)
    path, newton = (FitPath(), Path()) if require_flag("info", info) else (None, None)
    wanted = "a function whose values are numbers"
    advice = "Sum them; it takes (x, params), in this order."
    cost, p = checked(f, start, params, "f", 0, wanted, advice)
    n = start.shape[0]
    slope = Gradient(cost)
    # following f evaluates no derivatives, so its checks must not be cached
    hessians = SparseCurvature(_pattern(pattern, partial(Gradient(cost), p), start))
    like = namespace(start).broadcast_to(0 * start[:1], hessians.nnz)
    structure, _ = promised(Matrix(hessians.base, like), "pos")
    rule = Mode(
        f=slope,
        axes=tuple(leaf.ndim for leaf in p),
        structure=structure,
        jacobian=hessians.hessian,
        assume_a="pos",
        method="auto",
        steps=polishing(numpy_dtype(start), tol, newton),
        function=cost,
        search=Descent(equations=hessians, structure=structure, maxiter=maxiter, observer=path),
    )
    how = None
    if path is None or newton is None:
        x = bind(rule, p, start)[0]
    else:
        x, of_newton = with_info(newton, rule, p, start)
        how = path.info(of_newton)
    at = evaluated(slope, hessians, p, x, partial(slope, p))
    precision = SparseCholesky(SparseArray(hessians.base, at.H))
    value = -at.c - precision.logdet() / 2 + n * math.log(2 * math.pi) / 2
    return LaplaceApproximation(value, x, precision, how)


def _pattern(given: PatternLike | None, slope: Function, x: Array) -> Sparse:
    """The pattern of the Hessian with its diagonal; all places where f cannot be followed."""
    n = x.shape[0]
    if given is None:
        given = _followed(slope, x)
    return with_diagonal(on_pattern(given, (n, n)))


def _followed(slope: Function, x: Array) -> PatternLike:
    """The places that f depends on; all of them where it cannot be followed, if they are few."""
    if (sets := frontend_of(x).dependence(slope, x)) is not None:
        rows, cols = sets.tocoo().coords
        return rows, cols
    if (n := x.shape[0]) > FULL:
        advice = "Find it by ldiv.detect_pattern of the gradient of f, once, or write it down."
        came = f"none, and an f of {n} unknowns that cannot be followed"
        raise value_error("pattern", "the places of the Hessian", came, advice)
    rows, cols = np.indices((n, n)).reshape(2, -1)
    return rows, cols
