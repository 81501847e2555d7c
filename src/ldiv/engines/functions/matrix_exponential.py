"""exp(A) = sum of A^j / j!, and its derivatives: scaling and squaring of hyperdual matrices.

    exp(X) = r(X / 2^s)^(2^s),    r = (V - U)^-1 (V + U), Pade's approximation of degree 3 .. 13

to first order the algorithm of Al-Mohy and Higham for the Frechet derivative, SIAM J. Matrix Anal.
Appl. 30 (2009): 2^s is chosen so that the backward error of r', too, is rounding. Values are SciPy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, comb, log2, perm
from typing import Any

import numpy as np
import scipy.linalg

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
        size = require_digits(a, self.name)
        mu = _shift(a)
        y: Array = np.exp(mu) * scipy.linalg.expm(a - mu * np.eye(len(a)) if mu else a)
        if size > LARGE and np.isfinite(y).all():
            third = scipy.linalg.expm(a / 3)  # other steps round otherwise
            if not abs(third @ third @ third - y).max() <= LOST * abs(y).max():
                raise _no_digits(self.name, size)
        return y

    def derivative(self, a: Array, es: list[Array]) -> Array:
        require_digits(a, self.name)
        return exponential(hyperdual(a, es))[-1]


def exponential(x: Array) -> Array:
    """exp(X) of a hyperdual X, whose parts with an e are no larger than needed."""
    mu = _shift(x[0])
    x = x - mu * identity(x)
    m, size = len(x).bit_length() - 1, np.linalg.norm(x[0], 1)
    reach = {degree: bound / (1 + m / 10) for degree, bound in REACH.items()}
    degree = next((d for d, bound in reach.items() if size <= bound), 13)
    steps = max(ceil(log2(size / reach[13])), 0) if 0 < size < np.inf else 0
    y = _pade(x / 2.0**steps, degree)
    for _ in range(steps):
        y = product(y, y)
    return np.exp(mu) * y


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
    factor = scipy.linalg.lu_factor(below[0], check_finite=False)
    solve = partial(scipy.linalg.lu_solve, factor, check_finite=False)
    return quotient(solve, below, even + odd)


def _sum(b: list[float], powers: list[Array]) -> Array:
    """The polynomial with these coefficients."""
    total = b[0] * powers[0]
    for c, p in zip(b[1:], powers[1:], strict=True):
        total = total + c * p
    return total


def _shift(a: Array) -> Any:
    """mu, for which exp(A) = e^mu exp(A - mu I) takes fewer squarings, and loses fewer digits."""
    mu = np.trace(a) / len(a)
    off = a - mu * np.eye(len(a))
    # both factors are in range; of a triangular matrix SciPy keeps the diagonal exact
    safe = 1 < abs(mu) < IN_RANGE and np.linalg.norm(off, 1) < IN_RANGE and np.tril(off, -1).any()
    return mu if safe else 0.0


def require_digits(a: Array, name: str) -> float:
    """|A - mu I|_1, an error if rounding A alone would move exp(A) by more than LOST."""
    off = a - np.trace(a) / len(a) * np.eye(len(a))
    size = float(np.linalg.norm(off, 1))
    if size * np.finfo(float).eps > LOST and np.any(off - np.diag(np.diag(off))):
        raise _no_digits(name, size)
    return size


def _no_digits(name: str, size: float) -> LinAlgOverflowError:
    return LinAlgOverflowError(
        f"{name}: |A|_1 is {size:.1e}, and so many squarings leave no digit certain. "
        "Take shorter times; for a Hermitian A ldiv.spectral_function."
    )
