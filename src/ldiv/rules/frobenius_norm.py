"""q = |X|_F^2, X = L^-1 B for lower L and B.

tangent      dq = 2 Re <X, dX>
cotangent    X_bar = 2 q_bar X;  then that of the solve: B_bar = tril(L^-H X_bar),
             L_bar = -tril(B_bar X^H)
cost         2 triangular solves and 1 triangular product, for value and gradient together
reference    Giles (2008), section 2.2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, factors, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Traits, Unit, bind, name_of
from ldiv.core.rules.structure import nonzero, plus
from ldiv.rules.triangular_algebra import LowerSolve


@dataclass(frozen=True)
class QuotientSquares(Rescaled):
    """Arguments (L, B), lower triangles (*batch, n, n), and outputs q (*batch,), X (*batch, n, n)."""

    traits = Traits(name="trace_solve", on_host=True, only_refuses=True)
    core = (2, 2)

    # q is quadratic in B and in L^-1, X linear
    units = Unit((2, 0), (-4, -2), by=(0,), name="L"), Unit((0, 2), (4, 2), by=(1,), name="B")

    def kernel(self, *args: Tree) -> Arrays:
        (X,) = LowerSolve().kernel(*args)
        # division by an infinite pivot gives 0 and hides it; any other infinity appears in q
        require_finite(name_of(self), namespace(X).linalg.diagonal(args[0]))
        return inner(X, X), X

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        _, X = out
        (dX,) = LowerSolve().jvp(tangents, (X,), *args)
        # dq = 2 Re <X, dX>
        return 2 * inner(X, nonzero(dX)), dX

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (q_bar, X_bar), (_, X) = cotangents, out
        # q_bar adds 2 q_bar X to X_bar; the rest is the vjp of the solve
        if q_bar is not None:
            X_bar = plus(X_bar, factors(2 * q_bar) * X)
        return LowerSolve().vjp(need, (X_bar,), (X,), *args)


def quotient_squares(L: Array, B: Array) -> Array:
    """|L^-1 B|_F^2."""
    return bind(QuotientSquares(), L, B)[0]


def inner(X: Array, Y: Array) -> Array:
    """Re tr(X^H Y) as one inner product of vectors, without a temporary array of the size of X."""
    xp, n = namespace(X), X.shape[-1] ** 2
    x, y = (xp.reshape(z, (*z.shape[:-2], n)) for z in (X, Y))
    return real(xp.matmul(conj(x)[..., None, :], y[..., None])[..., 0, 0])


def cases(structures: Any, draw: Any) -> Cases:
    yield QuotientSquares(), (draw(5, 5) + 4 * np.eye(5), draw(5, 5))
    yield QuotientSquares(), (draw(2, 5, 5) + 4 * np.eye(5), draw(5, 5))
