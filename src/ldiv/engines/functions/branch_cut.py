"""The domain of derivatives of log A, A^(1/2), A^p: no eigenvalue on the closed negative real axis.

An eigenvalue is taken for one on the axis if rounding of A could put it there. This is so if its
distance to the axis is at most a few units of |A| / c. Here c is the cosine of the angle between
the left and the right vector of the eigenvalue (Golub and Van Loan, section 7.2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.errors import NotDifferentiableError

ROUNDING = 4  # units in the last place, times n
NORMAL = 1e-8  # of |A|^2
NEAR = 1e-2  # of |A|: farther eigenvalues are not looked at closely


def require_off_the_cut(name: str, a: HostArray, t: HostArray) -> None:
    """Raise if an eigenvalue of A, whose Schur form is T, is on the negative axis, or is 0."""
    values = eigenvalues(t)
    # the distance to the closed negative axis: |lam| on the right of 0, |Im lam| on the left
    away = np.where(values.real > 0, abs(values), abs(values.imag))
    if (on := met(a, away)) is not None:
        raise NotDifferentiableError(
            f"no derivative: {name} jumps, or has an infinite slope, where an eigenvalue is 0 or a "
            f"negative real number, and A has {values[on]:.3g}. The value is there; a matrix whose "
            "eigenvalues may come so far needs another function, or a shift."
        )


def principal(f: Callable[[HostArray], HostArray], a: HostArray) -> HostArray:
    """f(A), real for a real A without negative eigenvalues: the imaginary part is rounding.

    With some, f of a triangle in which they are on the upper side of the cut: rounding would take
    any of them to the other side.
    """
    if a.dtype.kind == "c" and not a.imag.any():
        a = a.real
    y = f(a)
    if a.dtype.kind == "c" or y.dtype.kind != "c" or not np.isfinite(y).all():
        return y
    t, q = scipy.linalg.schur(a, output="real", check_finite=False)
    # an entry below the diagonal marks a block of order 2, a conjugate pair
    below = np.diag(t, -1) != 0
    alone = ~(np.append(below, False) | np.insert(below, 0, False))  # no part of a block of order 2
    if not (np.diag(t)[alone] < 0).any():
        return y.real
    real = np.diag(t)[alone]
    # the complex form keeps the places of the real eigenvalues
    t, q = scipy.linalg.rsf2csf(t, q, check_finite=False)
    # above the axis, by less than any rounding: the sign of a zero does not survive
    t[alone, alone] = real + 1j * np.finfo(float).eps ** 2 * abs(real)
    # f(A) = Q f(T) Q^H
    found: HostArray = q @ f(np.triu(t)) @ q.conj().T
    return found


def met(a: HostArray, away: HostArray) -> int | None:
    """The eigenvalue nearest to a set, if rounding of A could put it there; `away` are the
    distances. Those of a triangular A are known exactly.
    """
    n, size = len(away), np.linalg.norm(a)
    if n == 0 or away.min() > NEAR * size:
        return None
    if not np.tril(a, -1).any() or not np.triu(a, 1).any():
        return int(away.argmin()) if away.min() == 0 else None
    # the condition of an eigenvalue is 1 / c, and 1 if A is normal
    cosine = 1.0 if _is_normal(a, size) else _cosine(a)
    nearest = int(away.argmin())
    # rounding of A, n eps |A|, moves an eigenvalue by at most that over c
    close = away[nearest] * cosine <= ROUNDING * n * np.finfo(float).eps * size
    return nearest if close else None


def _is_normal(a: HostArray, size: Any) -> bool:
    """Whether A A^H = A^H A, so that left vectors are right ones."""
    # one factor is divided by |A|, so that the products do not overflow
    ah = a.conj().T / size if size else a
    return bool(abs(a @ ah - ah @ a).max() <= NORMAL * size)


def _cosine(a: HostArray) -> float:
    """The least cosine between a left vector and its right one."""
    _, left, right = scipy.linalg.eig(a, left=True, right=True, check_finite=False)
    return float(abs((left.conj() * right).sum(0)).min())


def eigenvalues(t: HostArray) -> HostArray:
    """The eigenvalues of a Schur form; real forms have blocks of order 2."""
    if t.dtype.kind == "c" or not np.diag(t, -1).any():
        return np.diag(t).astype(complex)
    values: HostArray = np.linalg.eigvals(t)
    return values
