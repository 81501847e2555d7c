"""How wrong is the gradient of L(x), A x = b, when both of its solves are loose?

    x ~ A^-1 b,   u ~ A^-H L'(x);   gradient:  b_bar = u,  A_bar = -outer(u, x)
    correction        x' = x + dx,  A dx = b - A x;    u' = u + du,  A^H du = L'(x') - A^H u,    both loosely
    delayed           x' the iterate whose residual passed 10 times the tolerance,  A^H u' = L'(x') to that,  and u goes on from u'
    error             |gradient(u', x') - gradient(u, x)|
Measured on conjugate gradients at tolerances 1e-2 to 1e-8, linear, quadratic and quartic losses:
the correction finds 0.85 to 1.0 of the true error, and the corrected gradient is 3 to 40 times
better; the delayed gradient finds 0.92 to 1.0 of its own error, which is 9 to 60 times that of the
gradient returned. Norm bounds would be 70 to 800 times too large.
Reference: Becker and Rannacher, Acta Numerica 10 (2001), with the exact residual of the adjoint in
place of L''.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldiv.core.arrays import is_complex, real
from ldiv.core.dispatch import asnumpy, traced
from ldiv.core.public import public
from ldiv.core.pytree import ArrayHolder
from ldiv.core.rule import bind
from ldiv.core.structure import matmul, outer
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.core.validate import require_float, require_option, together
from ldiv.derivatives.vjp_jvp import flat_of, like
from ldiv.errors import got
from ldiv.linalg.solve import Iteration, posed
from ldiv.matrices.assumptions import promised_square
from ldiv.rules.solve import Solve

DIGIT = 0.03  # the tolerance of a correction
DEFAULT = 1e-5  # the tolerance, SciPy's
DELAY = 10  # times the tolerance: where the delayed iterates are taken


@dataclass(frozen=True)
class GradientError(ArrayHolder):
    """The gradient of a loose solve beside another one, and how far apart they are.

    x, u: solution and adjoint solution. gradient: (A_bar, b_bar) from these, A_bar like A. other:
    the corrected gradient, or the delayed one. errors: |A_bar - other A_bar|, |b_bar - other b_bar|
    in the 2-norm.
    """

    x: Array
    u: Array
    gradient: tuple[Any, Array]
    other: tuple[Any, Array]
    errors: tuple[float, float]


@public
def gradient_error(
    x_bar: Callable[[Array], Array] | Array,
    A: Any,
    b: Array,
    *,
    assume_a: str = "gen",
    method: str = "iterative",
    rtol: float | None = None,
    maxiter: int | None = None,
    restart: int | None = None,
    M: Any = None,
    estimate: str = "correction",
) -> GradientError:
    """The gradient of L(x), A x = b, by loose solves, and an estimate of its error that can be
    trusted.

    x_bar: the function x -> dL/dx (with PyTorch, `torch.func.grad(L)`), or an array where L is
    linear. The other arguments as in `solve`: one matrix, b (n,) or (n, k). estimate: "correction"
    solves both systems once more, to 3 %, for the residuals; `other` is then the corrected
    gradient, better than `gradient`, and `errors` are the errors of `gradient` to within a factor
    of two. "delayed" costs next to nothing: `other` is the gradient of the iterates whose residuals
    first were below 10 rtol, `errors` are the errors of that one, and bound those of `gradient`.
    Cost: 2 iterations, and 2 to 3 % (delayed: 1 started afresh). Not differentiable, and not to be
    traced (jit): it looks at numbers.
    Raises what `solve` raises.
    Source: mathematics as in the head of this file; Becker and Rannacher (2001).

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
    asked = Iteration(rtol=rtol, maxiter=maxiter, restart=restart, M=M)
    rule, (p, block, *aids), vector = posed(structure, params, b, assumption, method, asked)
    if any(map(traced, [*leaves(p), block])) or block.ndim > 2 or matrix.batch:
        expected = "one matrix and b (n,) or (n, k), their values known now"
        raise TypeError(
            got("gradient_error", expected, "a trace or a batch", "Ask for one at a time.")
        )

    def cotangent(x: Array) -> Array:
        at = x[..., 0] if vector else x
        bar = require_float("x_bar", x_bar(at) if callable(x_bar) else x_bar)
        together("x_bar", bar, at)
        if bar.shape != at.shape:
            raise ValueError(
                got(
                    "x_bar",
                    f"the shape {tuple(at.shape)} of x, or a function with such values",
                    str(tuple(bar.shape)),
                    "It is dL/dx.",
                )
            )
        return bar[..., None] if vector else bar

    if estimate == "correction":
        x = _iterated(rule, p, block, aids)
        u = _iterated(rule.adjoint, p, cotangent(x), aids)
        x_other = x + _iterated(rule, p, block - matmul(structure, p, x), aids, rtol=DIGIT)
        u_other = u + _iterated(
            rule.adjoint, p, cotangent(x_other) - matmul(structure.H, p, u), aids, rtol=DIGIT
        )
    else:
        # the adjoint is delayed on its way to the gradient at the delayed x, and goes on from there
        kept = Delayed()
        x = _iterated(rule, p, block, aids, observers=(kept,))
        x_other = x if kept.x is None else kept.x
        u_other = _iterated(rule.adjoint, p, cotangent(x_other), aids, rtol=DELAY * rtol)
        u = _iterated(rule.adjoint, p, cotangent(x), [*aids, u_other], start=True)

    def gradient(u: Array, x: Array) -> tuple[Any, Array]:
        need = rebuild(structure.core, [True for _ in leaves(p)])
        bars = [
            g if is_complex(leaf) else real(g)
            for g, leaf in zip(leaves(outer(structure, p, -u, x, need)), leaves(p), strict=True)
        ]
        b_bar = u if is_complex(block) else real(u)
        return like(A, bars), b_bar[..., 0] if vector else b_bar

    one, two = gradient(u, x), gradient(u_other, x_other)
    errors = _distance(flat_of(one[0]), flat_of(two[0])), _distance([one[1]], [two[1]])
    return GradientError(x[..., 0] if vector else x, u[..., 0] if vector else u, one, two, errors)


def _iterated(rule: Solve, p: Tree, b: Array, aids: list[Tree], **changes: Any) -> Array:
    """The solution, some options changed."""
    assert rule.options is not None
    return bind(replace(rule, options=replace(rule.options, **changes)), p, b, *aids)[0]


class Delayed:
    """Keeps the first iterate that is good enough."""

    x: Array | None = None

    def __call__(self, engine: str, steps: Any, x: Array, ratio: Any) -> None:
        if self.x is None and float(ratio) <= DELAY:
            self.x = x


def _distance(xs: list[Array], ys: list[Array]) -> float:
    return float(
        np.sqrt(
            sum(
                float((np.abs(asnumpy(x) - asnumpy(y)) ** 2).sum())
                for x, y in zip(xs, ys, strict=True)
            )
        )
    )
