"""The check that digits of A^p are certain: near a singular, defective A rounding changes them all.

A triangular A has eigenvalues as exact as its entries. SciPy's power of it must be nearly that in
units in which entries above the diagonal are no larger than those on it:

    A = D T D^-1,    A^p = D T^p D^-1,    D diagonal with powers of two

Of any other A rounding moves the eigenvalues: A + E and A - E, |E| = eps |A|, must have nearly the
same power, for more than one E, since one may happen to leave the smallest eigenvalue where it is.
Zero may well be an eigenvalue, as long as it has all its vectors: then A^p is small there whatever
rounding makes of it, unless p is so small that eps^p is not.
Reference: Higham, Functions of Matrices (2008), sections 3.1 and 6.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.checked_lu import EPS, reciprocal_condition

SAFE = 1e-6  # a reciprocal condition at which four digits are left even of a defective pair
CHANGED = 1e-3  # of |A^p|
DRAWS = 3  # of E
RANGE = 500  # of the exponents in D


def doubt(a: HostArray, y: HostArray, power: Callable[[HostArray], HostArray]) -> str | None:
    """The reason why no digit of y = power(A) may be right, or None."""
    if reciprocal_condition(a) >= SAFE or not a.any():
        return None
    norm = np.linalg.norm
    with np.errstate(all="ignore"):
        if not np.tril(a, -1).any():
            others, what = [_in_other_units(a, power)], "in other units"
        # lower triangular: (A^T)^p = (A^p)^T
        elif not np.triu(a, 1).any():
            others, what = [_in_other_units(a.T, power).T], "in other units"
        else:
            # A + E and A - E, |E| = eps |A|
            draws = np.random.default_rng(0).standard_normal((DRAWS, *a.shape))
            moves = [e * (EPS * norm(a) / norm(e)) for e in (*draws, *-draws)]
            others, what = [power(a + e) for e in moves], "by rounding of A"
        change = float(np.max([norm(other - y) for other in others]) / norm(y))
    return None if change <= CHANGED else f"a change of {change:.0e} {what}"


def _in_other_units(a: HostArray, power: Callable[[HostArray], HostArray]) -> HostArray:
    """D T^p D^-1 for an upper triangular A."""
    exponents, size = np.zeros(len(a)), np.abs(a)
    for j in range(1, len(a)):
        # the largest power of two d_j <= d_(j-1) with |a_ij| d_j / d_i <= max(|a_ii|, |a_jj|)
        room = np.maximum(size.diagonal()[:j], size[j, j])
        above = (size[:j, j] > 0) & (room > 0)
        fits = np.log2(room[above]) - np.log2(size[:j, j][above]) + exponents[:j][above]
        exponents[j] = np.floor(fits.min(initial=exponents[j - 1]))
    d = np.exp2(np.clip(exponents, -RANGE, RANGE))
    units = d[:, None] / d
    # A^p = D T^p D^-1, T = D^-1 A D
    found: HostArray = power(a / units) * units
    return found
