"""f(t A) = t^d f(A) + c log(t) I: functions whose values near 1 tell all others.

Roots, powers, signs and logarithms of a matrix at an end of the range are found in units in which
its largest number is near 1. In other units Schur forms overflow, and squares underflow. Units
are powers of 4, so that a square root of them rounds nothing, either.
"""

from __future__ import annotations

from math import floor, frexp, isfinite, log
from typing import NamedTuple

import numpy as np

from ldiv.core.frameworks.trees import HostArray

MIDDLE = 170  # a sixth of the exponents: numbers between 2^-170 and 2^170 stay as they are
BEYOND = 9999  # exponent of what overflows, or vanishes, whatever it multiplies
LARGEST = 1022  # exponent of a power of 4 of which the reciprocal is a normal number, too


class Homogeneous(NamedTuple):
    """The degree d and the number c of logarithms of a function."""

    degree: float
    logarithms: int = 0

    def of_multiple(self, exponent: int, y: HostArray, m: int) -> HostArray:
        """D^m f(t A)[E_1, ..., E_m] from y = D^m f(A)[E_1, ..., E_m], t = 2^exponent."""
        # D^m f(t A) = t^(d - m) D^m f(A)
        y = times_power(y, exponent * (self.degree - m))
        # log(t A) = log A + log(t) I, of which derivatives see no constant
        if not m and self.logarithms:
            y = y + self.logarithms * exponent * log(2) * np.eye(len(y))
        return y


def times_power(y: HostArray, exponent: float) -> HostArray:
    """2^exponent y, which overflows only where it must."""
    # numpy.ldexp takes real numbers only
    if y.dtype.kind == "c":
        z = np.empty_like(y)
        z.real, z.imag = times_power(y.real, exponent), times_power(y.imag, exponent)
        return z
    exponent = min(max(exponent, -BEYOND), BEYOND)
    # a factor in [1, 2) rounds; the power of two is exact, and overflows only if the result does
    whole = floor(exponent)
    product: HostArray = np.ldexp(y * 2.0 ** (exponent - whole), whole)
    return product


def exponent_of(a: HostArray) -> int:
    """The exponent of a power t of 4 for which A / t has its largest number near 1.

    It is 0 in the middle of the range, and where a number of A / t would be lost.
    """
    size = max(abs(a.real).max(initial=0), abs(a.imag).max(initial=0))
    exponent = frexp(size)[1]
    if abs(exponent) <= MIDDLE or not isfinite(size):
        return 0
    # an even exponent: t is a power of 4
    exponent = min(max(exponent // 2 * 2, -LARGEST), LARGEST)
    # 0 if a nonzero part of A / t would be subnormal
    b, tiny = times_power(a, -exponent), np.finfo(float).tiny
    parts = ((b.real, a.real), (b.imag, a.imag))
    return exponent if all(((abs(x) >= tiny) | (y == 0)).all() for x, y in parts) else 0
