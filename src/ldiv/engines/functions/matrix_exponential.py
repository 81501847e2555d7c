"""exp(A) = sum of A^j / j!, and its derivatives: scaling and squaring of hyperdual matrices.

    exp(X) = r(X / 2^s)^(2^s),    r = (V - U)^-1 (V + U), Pade's approximation of degree 3 .. 13

to first order the algorithm of Al-Mohy and Higham for the Frechet derivative, SIAM J. Matrix Anal.
Appl. 30 (2009): 2^s is chosen so that the backward error of r', too, is rounding. Values are SciPy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, log2, perm
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.engines.functions.checked_lu import EPS, lu
from ldiv.engines.functions.hyperdual import hyperdual, identity, product, quotient
from ldiv.errors import LinAlgOverflowError

Array = np.ndarray[Any, Any]
# |X|_1 up to which the approximation of this degree is exact to rounding, and its derivative
REACH = {3: 1.08e-2, 5: 2.00e-1, 7: 7.83e-1, 9: 1.78, 13: 4.74}
COEFFICIENTS = {  # of V + U, all divided by the first
    d: [comb(d, j) * perm(2 * d - j, d - j) / perm(2 * d, d) for j in range(d + 1)] for d in REACH
}
LOST = 1e-3  # times |A|: one rounding of A moves exp(A) by that much
IN_RANGE = 300.0  # exponents of which no product overflows
LARGE = 1e3  # a norm from which on values are computed twice


@dataclass(frozen=True)
class Exponential:
    """exp(A) = sum of A^j / j!."""

    name: str = "expm"

    def value(self, a: Array) -> Array:
        mu, off, size = _about_the_mean(a, self.name, triangular=True)
        y: Array = scipy.linalg.expm(off)
        y = y * np.exp(mu) if mu else y
        if size > LARGE and np.isfinite(y).all():
            third = scipy.linalg.expm(a / 3)  # other steps round otherwise
            if not abs(third @ third @ third - y).max() <= LOST * abs(y).max():
                raise _no_digits(self.name, size)
        return y

    def derivative(self, a: Array, es: list[Array]) -> Array:
        return exponential(hyperdual(a, es), self.name)[-1]


def exponential(x: Array, name: str) -> Array:
    """exp(X) of a hyperdual X; errors are those of the function `name`."""
    mu, off, _ = _about_the_mean(x[0], name)
    x = np.concatenate([off[None], x[1:]]) if mu else x
    m, size = len(x).bit_length() - 1, float(abs(off).sum(0).max())
    reach = 1 + m / 10  # higher derivatives of the backward error grow
    degree = next((d for d, bound in REACH.items() if size * reach <= bound), 13)
    steps = max(ceil(log2(size * reach / REACH[13])), 0) if 0 < size < np.inf else 0
    y = _pade(x / 2.0**steps if steps else x, degree)
    for _ in range(steps):
        y = product(y, y)
    return y * np.exp(mu) if mu else y


def _pade(x: Array, degree: int) -> Array:
    """(V - U)^-1 (V + U), of which U are the odd terms and V the even ones."""
    b, powers = COEFFICIENTS[degree], [identity(x), product(x, x)]
    while len(powers) < (4 if degree == 13 else len(b) // 2):
        powers.append(product(powers[-1], powers[1]))
    if degree == 13:  # x^6 (..) + .., with 6 products in all
        x6, rest = powers[3], powers[1:]
        odd = product(x6, _sum(b[9::2], rest)) + _sum(b[1:8:2], powers)
        even = product(x6, _sum(b[8::2], rest)) + _sum(b[:7:2], powers)
    else:
        odd, even = _sum(b[1::2], powers), _sum(b[::2], powers)
    odd = product(x, odd)
    below = even - odd
    return quotient(lu(below[0]), below, even + odd)


def _sum(b: list[float], powers: list[Array]) -> Array:
    """The polynomial with these coefficients."""
    total = b[0] * powers[0]
    for c, p in zip(b[1:], powers[1:], strict=True):
        total = total + c * p
    return total


def _about_the_mean(a: Array, name: str, triangular: bool = False) -> tuple[Any, Array, float]:
    """mu, A - mu I and |A - mu I|_1: exp(A) = e^mu exp(A - mu I) takes fewer squarings, and loses
    fewer digits. mu = 0 where a factor could overflow, and for triangles, whose diagonals SciPy
    keeps exact.

    An error if one rounding of A moves exp(A) by more than LOST; `triangular`: unless A is, as
    rounding does not fill it.
    """
    n, off = len(a), np.array(a, order="C")
    diagonal = off.reshape(-1)[:: n + 1]
    mu = diagonal.mean()
    diagonal -= mu
    size = float(abs(off).sum(0).max())
    beside = (np.tril(off, -1).any(), np.triu(off, 1).any()) if size * EPS > LOST else (False,)
    if all(beside) if triangular else any(beside):
        raise _no_digits(name, size)
    full = 1 < abs(mu) < IN_RANGE and size < IN_RANGE and off.reshape(-1)[n :: n + 1].any()
    return (mu, off, size) if full else (0.0, a, size)


def _no_digits(name: str, size: float) -> LinAlgOverflowError:
    return LinAlgOverflowError(
        f"{name}: |A|_1 is {size:.1e}, and so many squarings leave no digit certain. "
        "Take shorter times; for a Hermitian A ldiv.spectral_function."
    )
