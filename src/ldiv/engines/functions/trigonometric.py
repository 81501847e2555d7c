"""cos, sin, tan, cosh, sinh, tanh of A, and their derivatives, by exponentials.

    cosh A = (exp(A) + exp(-A)) / 2,    sinh A = (exp(A) - exp(-A)) / 2,    tanh A = (cosh A)^-1 sinh A
    cos A = cosh(i A),    sin A = sinh(i A) / i,    tan A = (cos A)^-1 sin A

for hyperdual A, and by their series where |A| <= 1: there the exponentials would cancel.
Reference: Higham, Functions of Matrices (2008), ch. 12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, factorial, log2
from typing import ClassVar

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.checked_lu import checked_lu
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.hyperdual import hyperdual, identity, product, quotient
from ldiv.engines.functions.matrix_exponential import Exponential, exponential
from ldiv.errors import LinAlgOverflowError, SingularMatrixError

TERMS = 11  # x^22 / 22! is rounding for |x| <= 1
WELL = 1e-6  # a reciprocal condition that costs few digits
COMMUTES = 1e-9  # of |A| |F|, by how much A F and F A may differ
LEAST = 1e-14  # below which no digit is left
OF_POLES = "an eigenvalue at a pole of the tangent."


@dataclass(frozen=True)
class Trigonometric:
    """cosm, sinm, tanm, coshm, sinhm or tanhm."""

    name: str
    units: ClassVar[Homogeneous | None] = None

    def value(self, a: HostArray) -> HostArray:
        y = self._of(a[None], lambda x: Exponential(self.name).value(x[0])[None])[0]
        # every f(A) commutes with A; exponentials that have cancelled do not
        size = np.linalg.norm(a) * np.linalg.norm(y)
        if size < np.inf and abs(a @ y - y @ a).max() > COMMUTES * size:
            raise LinAlgOverflowError(
                f"{self.name}: the exponentials of A and -A are so large that no digit is certain. "
                "Take a smaller multiple of A; for a Hermitian A ldiv.spectral_function."
            )
        return y

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        return self._of(hyperdual(a, es), lambda x: exponential(x, self.name))[-1]

    def _of(self, x: HostArray, exp: Callable[[HostArray], HostArray]) -> HostArray:
        kind, circular = self.name[:3], "h" not in self.name
        if np.linalg.norm(x[0], 1) <= 1:
            even, odd = _series(x, -1 if circular else 1)
        elif circular and x.dtype.kind != "c":
            # exp(i A) = cos A + i sin A for a real A: one exponential instead of two
            turned = exp(1j * x)
            even, odd = turned.real, turned.imag
        else:
            # cos A = cosh(i A),  sin A = sinh(i A) / i
            y = 1j * x if circular else x
            up, down = exp(y), exp(-y)
            even, odd = (up + down) / 2, (up - down) / (2j if circular else 2)
        if kind == "tan":
            return _tangent(x, even, odd, -1 if circular else 1)
        return even if kind == "cos" else odd


def _tangent(x: HostArray, even: HostArray, odd: HostArray, sign: int) -> HostArray:
    """(cosh X)^-1 sinh X; where cosh X is badly conditioned, as for eigenvalues that are large on
    both sides, from a small X / 2^s by

        tanh(2 Y) = (I + tanh(Y)^2)^-1 2 tanh(Y)
    """
    try:
        return quotient(checked_lu(even[0], "cosh A", least=WELL), even, odd)
    except SingularMatrixError:
        steps = max(ceil(log2(np.linalg.norm(x[0], 1))), 0)
        even, odd = _series(x / 2.0**steps, sign)
    # tanh(X / 2^s)
    t = quotient(checked_lu(even[0], "cosh A", OF_POLES, LEAST), even, odd)
    for _ in range(steps):
        # sign is -1 for tan(2 Y) = (I - tan(Y)^2)^-1 2 tan(Y)
        below = identity(t) + sign * product(t, t)
        t = quotient(checked_lu(below[0], "cosh A", OF_POLES, LEAST), below, 2 * t)
    return t


def _series(x: HostArray, sign: int) -> tuple[HostArray, HostArray]:
    """sum of sign^j X^2j / (2j)!, and sum of sign^j X^(2j+1) / (2j+1)!, by Horner's rule."""
    one, square = identity(x), sign * product(x, x)
    # Horner's rule begins with 1 / (2 TERMS)! and 1 / (2 TERMS + 1)!
    even, odd = (one / factorial(2 * TERMS + k) for k in (0, 1))
    for j in range(TERMS - 1, -1, -1):
        even = product(square, even) + one / factorial(2 * j)
        odd = product(square, odd) + one / factorial(2 * j + 1)
    return even, product(x, odd)
