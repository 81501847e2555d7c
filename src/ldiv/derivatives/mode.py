"""The mode of exp(-f): a minimum of f, where df/dx = 0 and the Hessian of f is positive definite.

Newton's method on the gradient ends the steps, and f is compared with where it began. An error names
the unknowns along which f curves least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ldiv.core.arrays.shapes import alike, eps
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, frontend_of, namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.traits import Traits
from ldiv.derivatives.curvature import Function
from ldiv.derivatives.damped_steps import POLISHING
from ldiv.derivatives.minimum import Checked, Minimum
from ldiv.errors import OF_MODES, ConvergenceError, NotPositiveDefiniteError, SingularMatrixError
from ldiv.rules.newton_step import Refusal, in_words

DENSE = 500  # unknowns of which all eigenvalues are found for an error
NAMED = 3  # unknowns in an error
SHIFT = 1e-8  # of the largest sum of a column, below 0: the eigenvalue nearest to it is named
ROUNDINGS = 10  # of f, by which it may be larger at the mode
COUNTS = 0.5  # power of eps: a smaller difference of logarithms of densities says nothing


@dataclass(frozen=True)
class Slope:
    """g(p, x) = df/dx."""

    f: Checked

    def __call__(self, p: Tree, x: Array) -> Array:
        frontend = frontend_of(x, *leaves(p))
        if frontend is not frontend_of(x):  # p is recorded, in autograd, and x is not
            x = frontend.namespace(x).asarray(x)
        value, pull = frontend.user.vjp(partial(self.f, p), (x,))
        g: Array = pull(namespace(value).ones((), **alike(value)))[0]
        return g


@dataclass(frozen=True, kw_only=True)
class Mode(Minimum):
    """The minimum of f."""

    called: ClassVar[str] = "laplace"
    traits = Traits(name=called)
    iteration: ClassVar[str] = "laplace"
    causes: ClassVar[str] = OF_MODES
    matrix: ClassVar[str] = "curvature"

    def derivative(self, p: tuple[Array, ...], x: Array) -> tuple[Function, Callable[[Array], Any]]:
        slope = partial(self.f, p)
        return slope, lambda x: (self.jacobian(slope, x), slope(x))

    def solved(self, J: Array, b: Array) -> Array:
        try:
            return super().solved(J, b)
        except (NotPositiveDefiniteError, SingularMatrixError) as error:
            if traced(J):
                raise
            raise _along(error, self.structure, J) from error

    def look(self, f: Function, near: Array, x: Array) -> None:
        xp, before, after = namespace(x), f(near), f(x)
        # Newton's method on the gradient does not see f: it may have left the valley, or the domain
        size = xp.maximum(ROUNDINGS * eps(x) ** (1 - COUNTS) * xp.abs(before), 1 + 0 * before)
        most = before + eps(x) ** COUNTS * size
        check_or_raise(xp.isfinite(after) & (after <= most), _uphill, after - before)

    def undefined(self) -> ValueError:
        return ValueError(
            "f: expected a gradient that is finite, got NaN or infinity. Is the mode at the edge of "
            "where f is defined? Write positive unknowns as exponentials."
        )


def _uphill(change: Any) -> ConvergenceError:
    what = "at the root of its gradient f is larger than where the steps ended, by"
    return ConvergenceError(Mode.called, POLISHING, float(change), 0.0, what, OF_MODES)


def _along(error: Refusal, structure: Any, H: Array) -> Refusal:
    """The same error, with the unknowns along which f curves least."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import ArpackError, eigsh

    n, (rows, cols) = structure.shape[0], structure.base.entries.places
    matrix = csc_array((asnumpy(H).astype(np.float64), (rows, cols)), shape=(n, n))
    size = float(abs(matrix).sum(axis=0).max())
    try:
        if n <= DENSE:
            w, v = np.linalg.eigh(matrix.toarray())
        else:
            w, v = eigsh(matrix, 1, sigma=-SHIFT * size)
    except (ArpackError, np.linalg.LinAlgError, RuntimeError):  # of SuperLU
        return error
    if w[0] > SHIFT * size:  # another one, farther away, is negative
        return error
    largest = np.argsort(-abs(v[:, 0]))[:NAMED]
    unknowns = ", ".join(f"x[{i}] {v[i, 0]:+.2f}" for i in largest.tolist())
    evidence = f"{error.evidence}: f curves by {w[0]:.1e} along ({unknowns})"
    return in_words(type(error)(error.engine, evidence), Mode.matrix)
