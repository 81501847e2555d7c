"""f(t A) = t^d f(A) + c log(t) I: functions whose values near 1 tell all others.

Roots, powers, signs and logarithms of a matrix at an end of the range are found in units in which
its largest number is near 1: on the way to them Schur forms overflow, and squares underflow. Units
are powers of 4, so that a square root of them rounds nothing, either.
"""

from __future__ import annotations

from math import frexp, isfinite, log
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
MIDDLE = 170  # a sixth of the exponents: numbers between 2^-170 and 2^170 stay as they are
LARGEST = 1022  # exponent of a power of 4 of which the reciprocal is a normal number, too


class Homogeneous(NamedTuple):
    """d and c of a function."""

    degree: float
    logarithms: int = 0

    def of_multiple(self, t: float, y: Array, m: int) -> Array:
        """D^m f(t A)[E_1, ..., E_m] from y = D^m f(A)[E_1, ..., E_m]."""
        y = y * t**self.degree
        if not m and self.logarithms:
            y = y + self.logarithms * log(t) * np.eye(len(y))
        for _ in range(m):
            y = y / t
        return y


def unit(a: Array) -> float:
    """t, of which A / t has its largest number near 1; 1 in the middle of the range, and where
    a number of A / t would be lost.
    """
    size = max(abs(a.real).max(initial=0), abs(a.imag).max(initial=0))
    exponent = frexp(size)[1]
    if abs(exponent) <= MIDDLE or not isfinite(size):
        return 1.0
    t = 2.0 ** min(max(exponent // 2 * 2, -LARGEST), LARGEST)
    kept = all(((abs(x / t) >= np.finfo(float).tiny) | (x == 0)).all() for x in (a.real, a.imag))
    return t if kept else 1.0
