"""The error of the gradient of L(x), A x = b, when both of its linear solves are inexact.

    x ~ A^-1 b,   u ~ A^-H L'(x);   gradient:  b_bar = u,  A_bar = -outer(u, x)
    correction    x' = x + dx,  A dx = b - A x;    u' = u + du,  A^H du = L'(x') - A^H u,
                  both inexact
    delayed       x' the iterate whose residual passed 10 times the tolerance,  A^H u' = L'(x') to
                  that tolerance, and u goes on from u'
    error         |gradient(u', x') - gradient(u, x)|

Measured on conjugate gradients at tolerances 1e-2 to 1e-8, linear, quadratic and quartic losses:
The correction finds 0.85 to 1.0 of the true error, and the corrected gradient is 3 to 40 times
better. The delayed gradient finds 0.92 to 1.0 of its own error, which is 9 to 60 times that of the
gradient returned. Norm bounds would be 70 to 800 times too large.

Reference: Becker and Rannacher, Acta Numerica 10 (2001), with the exact residual of the adjoint in
place of L''.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ldiv.core.arrays.pytree import ArrayHolder
from ldiv.core.arrays.shapes import alike, conform, real
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_float, require_option, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of, namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import matmul, outer
from ldiv.derivatives.vjp_jvp import flat_of, like
from ldiv.errors import type_error, value_error
from ldiv.linalg.arguments.iteration import Iteration
from ldiv.linalg.arguments.solve_problem import build_problem
from ldiv.linalg.systems.factorization import Factorized
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import Matrix, MatrixLike
from ldiv.rules.solve import Solve

DIGIT = 0.03  # the tolerance of a correction
DEFAULT = 1e-5  # the tolerance, SciPy's
DELAY = 10  # the delayed iterates have residuals of this multiple of the tolerance


@dataclass(frozen=True)
class GradientError(ArrayHolder):
    """The gradient from inexact solves, a second one to compare it with, and their distance.

    Attributes
    ----------
    x, u : array
        The solution and the adjoint solution.
    gradient : tuple (A_bar, b_bar)
        The gradient from x and u; A_bar is like A.
    other : tuple (A_bar, b_bar)
        The corrected gradient, or the delayed one.
    errors : tuple of two floats
        |A_bar - other A_bar| and |b_bar - other b_bar| in the 2-norm.
    """

    x: Any
    u: Any
    gradient: tuple[Any, Any]
    other: tuple[Any, Any]
    errors: tuple[float, float]


@public
def gradient_error(
    x_bar: Callable[[ArrayT], ArrayT] | ArrayT,
    A: MatrixLike,
    b: ArrayT,
    *,
    assume_a: Literal["gen", "sym", "her", "pos"] = "gen",
    method: str = "iterative",
    rtol: float | None = None,
    maxiter: int | None = None,
    restart: int | None = None,
    M: Matrix | Factorized | str | None = None,
    estimate: Literal["correction", "delayed"] = "correction",
) -> GradientError:
    """The gradient of L(x), A x = b, by inexact solves, with a reliable estimate of its error.

        A_bar = -outer(u, x),  b_bar = u,    A x = b,  A^H u = dL/dx

    Parameters
    ----------
    x_bar : callable x -> dL/dx, or array
        The gradient of L (with PyTorch, `torch.func.grad(L)`), or an array where L is linear.
    A : array (n, n), SparseArray, LinearOperator, or any other matrix
        As in `solve`; one matrix.
    b : array (n,) or (n, k)
        The right-hand side.
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        As in `solve`.
    method : str, default "iterative"
        As in `solve`.
    rtol : float, optional
        The tolerance of both solves; 1e-5 by default.
    maxiter, restart : int, optional
        As in `solve`.
    M : preconditioner, optional
        As in `solve`.
    estimate : {"correction", "delayed"}, default "correction"
        "correction" solves both systems once more, for the residuals, to 3 %: `other` is the
        corrected gradient, better than `gradient`, and `errors` are the errors of `gradient` to
        within a factor of two. "delayed" costs next to nothing: `other` is the gradient from the
        iterates whose residuals first were below 10 rtol, and `errors` are the errors of `other`,
        which bound those of `gradient`.

    Returns
    -------
    found : GradientError
        Both gradients and the errors.

    Raises
    ------
    TypeError
        For traces (jit) and batches: one matrix, whose values are known now.
    ValueError
        For shapes; further errors as in `solve`.

    Notes
    -----
    Not differentiable, and not for tracing (jit): it looks at numbers.
    Cost: 2 iterations, and 2 to 3 % (delayed: 1 that is started afresh).

    References
    ----------
    Becker and Rannacher, Acta Numerica 10 (2001).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.linspace(1.0, 50.0, 40)], offsets=[0], shape=(40, 40))
    >>> found = ldiv.gradient_error(lambda x: 2 * x, A, np.ones(40), assume_a="pos", rtol=1e-2)
    >>> d = A.data
    >>> true = np.linalg.norm(found.gradient[0].data + 2 / d**3)
    >>> bool(0.5 < found.errors[0] / true < 2)
    True
    """
    require_option("estimate", estimate, ("correction", "delayed"))
    require_option("assume_a", assume_a, ("gen", "sym", "her", "pos"))
    matrix, structure, params, assumption = promised_square(A, assume_a)
    rtol = DEFAULT if rtol is None else rtol
    iteration = Iteration(rtol=rtol, maxiter=maxiter, restart=restart, M=M)
    rule, (p, block, *auxiliaries), vector = build_problem(
        structure, params, b, assumption, method, iteration
    )
    if any(map(traced, [*leaves(p), block])) or block.ndim > 2 or matrix.batch:
        expected = "one matrix and b (n,) or (n, k), their values known now"
        raise type_error("gradient_error", expected, "a trace or a batch", "Ask for one at a time.")

    def cotangent(x: Any) -> Array:
        at = x[..., 0] if vector else x
        bar = require_float("x_bar", x_bar(at) if callable(x_bar) else x_bar)
        together("x_bar", bar, at)
        if bar.shape != at.shape:
            raise value_error(
                "x_bar",
                f"the shape {tuple(at.shape)} of x, or a function with such values",
                str(tuple(bar.shape)),
                "It is dL/dx.",
            )
        return bar[..., None] if vector else bar

    if estimate == "correction":
        x = _iterated(rule, p, block, auxiliaries)
        u = _iterated(rule.adjoint, p, cotangent(x), auxiliaries)
        x_other = x + _iterated(rule, p, block - matmul(structure, p, x), auxiliaries, rtol=DIGIT)
        u_other = u + _iterated(
            rule.adjoint, p, cotangent(x_other) - matmul(structure.H, p, u), auxiliaries, rtol=DIGIT
        )
    else:
        # the adjoint is delayed on its way to the gradient at the delayed x, and goes on from there
        kept = Delayed()
        x = _iterated(rule, p, block, auxiliaries, observers=(kept,))
        x_other = x if kept.x is None else kept.x
        u_other = _iterated(rule.adjoint, p, cotangent(x_other), auxiliaries, rtol=DELAY * rtol)
        u = _iterated(rule.adjoint, p, cotangent(x), [*auxiliaries, u_other], start=True)

    def gradient(u: Array, x: Array) -> tuple[Any, Array]:
        need = rebuild(structure.core, [True for _ in leaves(p)])
        found = leaves(outer(structure, p, -u, x, need))
        b_bar = conform(u, block)
        return like(A, list(map(conform, found, leaves(p)))), b_bar[..., 0] if vector else b_bar

    one, two = gradient(u, x), gradient(u_other, x_other)
    of_A, of_b = _distances((flat_of(one[0]), flat_of(two[0])), ([one[1]], [two[1]]))
    return GradientError(
        x[..., 0] if vector else x, u[..., 0] if vector else u, one, two, (of_A, of_b)
    )


def _iterated(rule: Solve, p: Tree, b: Array, auxiliaries: list[Tree], **changes: Any) -> Array:
    """The solution of a rule's system, with some options changed."""
    assert rule.options is not None
    return bind(replace(rule, options=replace(rule.options, **changes)), p, b, *auxiliaries)[0]


class Delayed:
    """A callback that keeps the first iterate with a residual of at most DELAY tolerances."""

    x: Array | None = None

    def __call__(self, engine: str, steps: Any, x: Array, ratio: Any) -> None:
        if self.x is None and float(ratio) <= DELAY:
            self.x = x


def _distances(*pairs: tuple[list[Array], list[Array]]) -> tuple[float, ...]:
    """Return |x - y| for each pair of arrays, with one read of the device."""
    like = pairs[-1][0][0]
    none = namespace(like).zeros((), **alike(real(like)))  # of a matrix without numbers
    squares = [
        sum((namespace(x).sum(abs(x - y) ** 2) for x, y in zip(xs, ys, strict=True)), none)
        for xs, ys in pairs
    ]
    return tuple(np.sqrt(asnumpy(frontend_of(like).stacked(squares))).tolist())
