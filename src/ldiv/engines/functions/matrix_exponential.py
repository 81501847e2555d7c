"""exp(A) = sum of A^j / j!, and its derivatives: scaling and squaring of hyperdual matrices.

    exp(X) = r(X / 2^s)^(2^s),    r = (V - U)^-1 (V + U), Pade's approximation of degree 3 .. 13

to first order the algorithm of Al-Mohy and Higham for the Frechet derivative, SIAM J. Matrix Anal.
Appl. 30 (2009): 2^s is chosen so that the backward error of r', too, is rounding. Values are made
in the same way, those of triangles, whose diagonals it keeps, by SciPy, which for full real
matrices loses a digit or two. Unknowns in units of their own are balanced before: the norm that
decides on squarings, and on the digits that these lose, is that of T^-1 A T.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, log2, perm
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.accuracy.limits import BALANCED
from ldiv.engines.functions.checked_lu import EPS, lu
from ldiv.engines.functions.exponential_calls import one_exponential
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.hyperdual import hyperdual, identity, product, quotient
from ldiv.errors import LinAlgOverflowError

# |X|_1 up to which the approximation of this degree is exact to rounding, and its derivative
REACH = {3: 1.08e-2, 5: 2.00e-1, 7: 7.83e-1, 9: 1.78, 13: 4.74}
COEFFICIENTS = {  # of V + U, all divided by the first
    d: [comb(d, j) * perm(2 * d - j, d - j) / perm(2 * d, d) for j in range(d + 1)] for d in REACH
}
LOST = 1e-3  # times |A|: one rounding of A moves exp(A) by that much
IN_RANGE = 300.0  # exponents of which no product overflows
AGREE = 1e-8  # to which two ways agree, or as far as rounding of A lets them
LARGE = 50.0  # a norm from which on values are computed twice


@dataclass(frozen=True)
class Exponential:
    """exp(A) = sum of A^j / j!."""

    name: str = "expm"
    units: ClassVar[Homogeneous | None] = None

    def value(self, a: HostArray) -> HostArray:
        if (found := one_exponential(a)) is not None:
            return found
        triangular = not (np.tril(a, -1).any() and np.triu(a, 1).any())
        # exp(A) = T exp(T^-1 A T) T^-1
        if not triangular and (t := _units(a)) is not None:
            return _in_units(1 / t, self.value(_in_units(t, a)))
        size = _size(a, self.name, triangular)
        y: HostArray = scipy.linalg.expm(a) if triangular else exponential(a[None], self.name)[0]
        # a second value in another way: exp(A / 3)^3, or SciPy's
        if size > LARGE and np.isfinite(y).all():
            other = scipy.linalg.expm(a / 3 if triangular else a)  # which rounds otherwise
            other = other @ other @ other if triangular else other
            # a rounding of A moves exp(A) by eps |A|: as much is no disagreement
            agree = max(AGREE, 100 * size * EPS)
            if not abs(other - y).max() <= agree * abs(y).max():
                raise _no_digits(self.name, size)
        return y

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        found = one_exponential(a, *es)
        return exponential(hyperdual(a, es), self.name)[-1] if found is None else found


def exponential(x: HostArray, name: str) -> HostArray:
    """exp(X) of a hyperdual X; errors are those of the function `name`."""
    if (t := _units(x[0])) is not None:
        return _in_units(1 / t, exponential(_in_units(t, x), name))
    _size(x[0], name, False)
    # exp(X) = e^mu exp(X - mu I); mu only shifts the part without any e
    mu, off = _about_the_mean(x[0])
    x = np.concatenate([off[None], x[1:]]) if mu else x
    # m derivatives: X has 2^m parts
    m, size = len(x).bit_length() - 1, float(abs(off).sum(0).max())
    reach = 1 + m / 10  # higher derivatives of the backward error grow
    # the lowest degree that reaches |X|, else the highest for |X| / 2^s
    degree = next((d for d, bound in REACH.items() if size * reach <= bound), 13)
    steps = max(ceil(log2(size * reach / REACH[13])), 0) if 0 < size < np.inf else 0
    y = _pade(x / 2.0**steps if steps else x, degree)
    # exp(X) = exp(X / 2^s)^(2^s)
    for _ in range(steps):
        y = product(y, y)
    return y * np.exp(mu) if mu else y


def _units(a: HostArray) -> HostArray | None:
    """t: T^-1 A T, balanced, has a norm so much smaller that exp(A) = T exp(T^-1 A T) T^-1 keeps more
    digits; else None.
    """
    size = abs(a).sum(0).max()
    if not LARGE < size < np.inf:
        return None
    balanced, (t, _) = scipy.linalg.matrix_balance(a, permute=False, separate=True)
    return t if abs(balanced).sum(0).max() <= BALANCED * size else None


def _in_units(t: HostArray, x: HostArray) -> HostArray:
    """T^-1 X T; t are powers of two."""
    y: HostArray = x / t[:, None] * t
    return y


def _pade(x: HostArray, degree: int) -> HostArray:
    """(V - U)^-1 (V + U), of which U are the odd terms and V the even ones."""
    # powers[j] = X^(2 j)
    b, powers = COEFFICIENTS[degree], [identity(x), product(x, x)]
    while len(powers) < (4 if degree == 13 else len(b) // 2):
        powers.append(product(powers[-1], powers[1]))
    if degree == 13:  # x^6 (..) + .., with 6 products in all
        x6, rest = powers[3], powers[1:]
        odd = product(x6, _sum(b[9::2], rest)) + _sum(b[1:8:2], powers)
        even = product(x6, _sum(b[8::2], rest)) + _sum(b[:7:2], powers)
    else:
        odd, even = _sum(b[1::2], powers), _sum(b[::2], powers)
    # (V - U) Y = V + U,  U = X times its even polynomial
    odd = product(x, odd)
    below = even - odd
    return quotient(lu(below[0]), below, even + odd)


def _sum(b: list[float], powers: list[HostArray]) -> HostArray:
    """The polynomial with these coefficients."""
    total = b[0] * powers[0]
    for c, p in zip(b[1:], powers[1:], strict=True):
        total = total + c * p
    return total


def _about_the_mean(a: HostArray) -> tuple[Any, HostArray]:
    """mu and A - mu I: exp(A) = e^mu exp(A - mu I) takes fewer squarings, and loses fewer digits.
    mu = 0 where a factor could overflow.
    """
    n, off = len(a), np.array(a, order="C")
    # the diagonal as a view: every (n + 1)-th number of a row-major array
    diagonal = off.reshape(-1)[:: n + 1]
    mu = diagonal.mean()
    diagonal -= mu
    safe = 1 < abs(mu) < IN_RANGE and abs(off).sum(0).max() < IN_RANGE
    return (mu, off) if safe else (0.0, a)


def _size(a: HostArray, name: str, exact: bool) -> float:
    """|A|_1, or |A - mu I|_1; an error if a rounding of A moves exp(A) by more than LOST. `exact`: it does
    not, because A is triangular and SciPy keeps its diagonal.
    """
    size = float(abs(a).sum(0).max())
    if size * EPS <= LOST:
        return size
    # exp(A) = e^mu exp(A - mu I): only what differs from mu I loses digits
    size = float(np.linalg.norm(a - np.diag(a).mean() * np.eye(len(a)), 1))
    if size * EPS > LOST and not exact:
        raise _no_digits(name, size)
    return size


def _no_digits(name: str, size: float) -> LinAlgOverflowError:
    return LinAlgOverflowError(
        f"{name}: |A|_1 is {size:.1e}, and so many squarings leave no digit certain. "
        "Take shorter times; for a Hermitian A ldiv.spectral_function."
    )
