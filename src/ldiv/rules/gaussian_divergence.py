"""d = s (|X|_F^2 - n - 2 log |det X|), X = L2^-1 L1, for lower L1 and L2; s = 1 of complex numbers and
1/2 of real ones.

value        d = s (sum_{i > j} |X_ij|^2 + sum_i u_i^2 + 2 (u_i - log(1 + u_i))), u_i = |L1_ii / L2_ii| - 1,
             where no term cancels another: d is as small as L1 - L2 makes it
tangent      dd = 2 s Re (<X, dX> + sum_i dL2_ii / L2_ii - dL1_ii / L1_ii)
cotangent    w = 2 s d_bar;   X_bar = w X;  then that of the solve, B_bar = tril(L2^-H X_bar):
             L1_bar = B_bar - w diag(L1)^-H,   L2_bar = w diag(L2)^-H - tril(B_bar X^H)
cost         2 triangular solves and 1 triangular product, for value and gradient together
reference    Kullback and Leibler (1951); Giles (2008), section 2.2
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, conj, factors, is_complex, numpy_dtype, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Traits, Unit, name_of
from ldiv.core.rules.structure import minus, nonzero, plus
from ldiv.engines.factors.triangle_calls import DivergenceCalls
from ldiv.errors import overflowed
from ldiv.rules.frobenius_norm import inner
from ldiv.rules.lower_factor import require_lower
from ldiv.rules.quotient import quotient
from ldiv.rules.triangular_algebra import LowerSolve, require_regular


@dataclass(frozen=True)
class GaussianDivergence(Rescaled):
    """Arguments (L1, L2), lower triangles (*batch, n, n); outputs d (*batch,), X (*batch, n, n)."""

    core = (2, 2)
    traits = Traits(name="gaussian_kl", on_host=True, only_refuses=True)
    units = (Unit((2, 2), (0, 0), by=(0, 1), name="L1 and L2"),)

    def operation(self) -> Compiled:
        return _COMPILED

    def kernel(self, L1: Array, L2: Array) -> Arrays:
        require_lower("L1", L1)
        require_lower("L2", L2)
        require_regular(L1)
        xp, one, two = namespace(L1), _diagonal(L1), _diagonal(L2)
        # smaller pivots have no finite reciprocal, which the derivative of log |L1_ii| needs
        least = float(np.finfo(numpy_dtype(L1)).tiny / 4)
        too_small = partial(overflowed, "the reciprocal of a pivot")
        check_or_raise(~(xp.abs(one) < least).any(), too_small)
        (X,) = LowerSolve().kernel(L2, L1)
        # division by an infinite pivot gives 0 and hides it; any other infinity appears in d
        require_finite(name_of(self), two)
        size, tiny = xp.abs(_diagonal(X)), 4 * least
        # a quotient has no unit; where it is out of range its logarithm is not
        logs = xp.where(size < tiny, xp.log(xp.abs(one)) - xp.log(xp.abs(two)), xp.log(size))
        u = (xp.abs(one) - xp.abs(two)) / xp.abs(two)
        near = 2 * xp.abs(u) < 1
        of_pivots = u * u + 2 * (u - xp.where(near, xp.log1p(xp.where(near, u, 0 * u)), logs))
        below = xp.tril(X, k=-1)
        return scale(X) * (inner(below, below) + xp.sum(of_pivots, axis=-1)), X

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (L1, L2), (dL1, dL2), (_, X) = args, tangents, out
        (dX,) = LowerSolve().jvp((dL2, dL1), (X,), L2, L1)
        # dd = 2 s (Re <X, dX> + d log |det L2| - d log |det L1|)
        of_logs = minus(_of_log_det(dL2, L2), _of_log_det(dL1, L1))
        return 2 * scale(X) * plus(inner(X, nonzero(dX)), of_logs), dX

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (L1, L2), (d_bar, X_bar), (_, X) = args, cotangents, out
        w = None if d_bar is None else 2 * scale(X) * d_bar
        # d_bar adds w X to X_bar, w = 2 s d_bar
        if w is not None:
            X_bar = plus(X_bar, factors(w) * X)
        # the vjp of X = L2^-1 L1, and the terms of the logarithms
        to_L2, to_L1 = LowerSolve().vjp((need[1], need[0]), (X_bar,), (X,), L2, L1)
        if w is not None:
            to_L1 = minus(to_L1, _with_diagonal(w, L1) if need[0] else None)
            to_L2 = plus(to_L2, _with_diagonal(w, L2) if need[1] else None)
        return to_L1, to_L2


def scale(*numbers: Array) -> float:
    """s: 1 of complex distributions, 1/2 of real ones."""
    return 1.0 if any(map(is_complex, numbers)) else 0.5


def _diagonal(L: Array) -> Array:
    return namespace(L).linalg.diagonal(L)


def _of_log_det(dL: Array | None, L: Array) -> Array | None:
    """d log |det L|."""
    if dL is None:
        return None
    return namespace(L).sum(real(quotient(_diagonal(dL), _diagonal(L))), axis=-1)


def _with_diagonal(w: Array, L: Array) -> Array:
    """w diag(L)^-H."""
    n = L.shape[-1]
    eye = namespace(L).eye(n, **alike(L))
    return eye * quotient(w[..., None], conj(_diagonal(L)))[..., None]


_COMPILED = DivergenceCalls()


def cases(structures: Any, draw: Any) -> Cases:
    yield GaussianDivergence(), (draw(5, 5) + 4 * np.eye(5), draw(5, 5) + 4 * np.eye(5))
    yield GaussianDivergence(), (draw(2, 5, 5) + 4 * np.eye(5), draw(5, 5) + 4 * np.eye(5))
