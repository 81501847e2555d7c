"""S = sign(A), S S = I, S A = A S, with the signs of the real parts of eigenvalues, and derivatives.

    X_0 = A,    X <- (mu X + (mu X)^-1) / 2  ->  S

Newton's iteration for hyperdual A: when X_0 has converged, each order takes one step more. Where an
eigenvalue is on the imaginary axis, the value is SciPy's, with signs 0, and there is no derivative.
Reference: Higham, Functions of Matrices (2008), ch. 5; mu is that of his section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.branch_cut import met
from ldiv.engines.functions.checked_lu import checked_lu
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.hyperdual import hyperdual, identity, product, quotient
from ldiv.engines.functions.schur_parlett import ScalarFunction
from ldiv.errors import ConvergenceError, NotDifferentiableError, SingularMatrixError

STEPS = 60
LARGEST = 1e5  # |S|, whose square is the condition of S
RESIDUAL = 1e-8  # of |S|^2, that S S = I is met to


@dataclass(frozen=True)
class Sign:
    """S S = I."""

    name: str = "signm"
    units: ClassVar[Homogeneous | None] = Homogeneous(0)

    def value(self, a: HostArray) -> HostArray:
        if (value := _on_the_axis(a)) is None:
            return sign(a[None])[0]
        try:
            y = ScalarFunction(_rounded_sign, self.name).value(a)
        except ValueError as error:  # close eigenvalues with signs that differ
            raise SingularMatrixError(
                self.name,
                f"the eigenvalue {value:.3g}, on the imaginary axis and not to be told from others",
                what="A",
                verdict="has no certain sign",
                causes="(a) a rank below n - 1, (b) a double eigenvalue "
                "on the imaginary axis. Shift A by a multiple of the identity to one side of it.",
            ) from error
        return y if a.dtype.kind == "c" else y.real

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        if (value := _on_the_axis(a)) is not None:
            raise NotDifferentiableError(
                "no derivative: signm jumps where an eigenvalue crosses the imaginary axis, and A "
                f"has {value:.3g}, on it as far as rounding tells."
            )
        return sign(hyperdual(a, es))[-1]


def _rounded_sign(z: HostArray) -> HostArray:
    """SciPy's: 0 for numbers that rounding may have put beside the axis."""
    least = 1e3 * np.finfo(float).eps * abs(z).max()
    return np.where(abs(z.real) > least, np.sign(z.real), 0.0)


def _on_the_axis(a: HostArray) -> complex | None:
    values = np.linalg.eigvals(a)
    # the distance to the imaginary axis is |Re lam|
    on = met(a, abs(values.real))
    return None if on is None else complex(values[on])


def sign(x: HostArray) -> HostArray:
    """The sign of a hyperdual X without eigenvalues on the imaginary axis."""
    # m + 1 steps from convergence on: each order of e takes one more than the one before
    one, more, steps = identity(x), len(x).bit_length(), 0
    while more and steps < STEPS:
        # X <- (mu X + X^-1 / mu) / 2, with mu = 1 from convergence on
        inverse = quotient(checked_lu(x[0], "A", least=0.0), x, one)
        mu = _scale(inverse[0], x[0]) if more == len(x).bit_length() else 1.0
        y = (mu * x + inverse / mu) / 2
        # Newton's convergence is quadratic: a change of 1e-7 leaves an error of rounding
        near = np.linalg.norm(y[0] - x[0], 1) <= 1e-7 * np.linalg.norm(y[0], 1)
        x, more, steps = y, more - bool(near), steps + 1
    # S S = I, as far as rounding of S lets it
    off = abs(product(x[:1], x[:1])[0] - one[0]).max()
    is_small = off <= RESIDUAL * np.linalg.norm(x[0]) ** 2 and np.linalg.norm(x[0]) < LARGEST
    if more == 0 and is_small:
        return x
    raise ConvergenceError(
        "signm",
        steps,
        None,
        RESIDUAL,
        "S S = I is not met",
        "eigenvalues near the imaginary axis, or vectors that are nearly parallel.",
    )


def _scale(inverse: HostArray, x: HostArray) -> float:
    """mu, which brings the singular values of X near 1."""
    # mu^4 = (|X^-1|_1 |X^-1|_inf) / (|X|_1 |X|_inf)
    sizes = [np.linalg.norm(y, 1) * np.linalg.norm(y, np.inf) for y in (inverse, x)]
    return float((sizes[0] / sizes[1]) ** 0.25)
