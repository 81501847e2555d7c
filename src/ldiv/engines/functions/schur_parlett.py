"""F = f(A) for any analytic f: Parlett's recurrence over groups of eigenvalues that are close.

    A = Q T Q^H,    T = [[T1, C], [0, T2]]:    T1 F12 - F12 T2 = F1 C - C F2

for T1 and T2 without eigenvalues that are close to one another. In a group f is its Taylor series
about the mean, whose coefficients come from values on a circle (Cauchy). Derivatives are values
too, of [[A, E], [0, A]], where each eigenvalue is there twice. Two groupings, on different circles,
must agree.
Reference: Davies and Higham, SIAM J. Matrix Anal. Appl. 25 (2003); Deadman, Higham and Ralha (2013),
the recurrence by halves; Lyness and Moler (1967), the circles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.triangular_sylvester import triangular_sylvester
from ldiv.errors import NotDifferentiableError, shown, type_error, value_error

POINTS = 128  # on a circle
WIDTHS = (0.2, 0.05, 0.01, 2e-3, 4e-4, 8e-5)  # of a group, in units of the spread of eigenvalues
AGREE = 1e-8  # of the part of F that is wanted
NOISE = 1e-13  # of |F|, which is no disagreement
ALIKE = 1e-10  # of |F|, to which F is the same by the Schur form of the transpose
FEW = 1e-11  # an error below which eigenvalues are far enough apart to stand alone


@dataclass(frozen=True)
class ScalarFunction:
    """f(A) of a function of NumPy arrays, elementwise."""

    f: Callable[[Any], Any]
    name: str = "funm"
    units: ClassVar[Homogeneous | None] = None

    def value(self, a: HostArray) -> HostArray:
        t, q = scipy.linalg.schur(a, output="complex", check_finite=False)
        y = self._alone(t)
        if y is not None and np.triu(t, 1).any():  # the recurrence may lose digits: another order
            # A^T = P S P^H, so f(A) = (P f(S) P^H)^T, with eigenvalues in another order
            s, p = scipy.linalg.schur(a.T, output="complex", check_finite=False)
            other, y_here = self._alone(s), q @ y @ q.conj().T
            if other is None or not (
                abs((p @ other @ p.conj().T).T - y_here).max() <= ALIKE * abs(y_here).max()
            ):
                y = None
        y = self._in_groups(t, (slice(None), slice(None))) if y is None else y
        if y is None:
            advice = (
                "It must be analytic between eigenvalues that are close: their divided differences "
                "are found on circles in the complex plane."
            )
            raise value_error("func", "a smooth function", "one that is not", advice)
        return self._real(q @ y @ q.conj().T, t, a)

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        n = len(a)
        t, q = scipy.linalg.schur(a, output="complex", check_finite=False)
        for e in es:  # [[M, I x E], [0, M]]
            e = np.kron(np.eye(len(t) // n), q.conj().T @ e @ q)
            t = np.block([[t, e], [np.zeros_like(t), t]])
        # the derivative is the upper right block of order n
        y = self._in_groups(t, (slice(n), slice(len(t) - n, None)))
        if y is None:
            raise NotDifferentiableError(
                "no derivative: funm found no circle around the eigenvalues on which func is "
                "analytic, in which its derivatives agree to eight digits."
            )
        return self._real(q @ y @ q.conj().T, t, a, *es)

    def _real(self, y: HostArray, t: HostArray, *given: HostArray) -> HostArray:
        """Y, real where all that is given is, and f is real on the real axis: f(z*) = f(z)*."""
        if any(x.dtype.kind == "c" for x in given):
            return y
        z = np.diag(t)
        at = _values(self.f, z)
        off = abs(_values(self.f, z.conj()) - at.conj()).max()
        return y.real if off <= AGREE * abs(at).max() else y

    def _alone(self, t: HostArray) -> HostArray | None:
        """f(T) with a group for each eigenvalue, as in SciPy; None unless these are far apart."""
        values = np.diag(t)
        # gaps |lam_i - lam_j|, infinite on the diagonal
        gaps = abs(values[:, None] - values) + np.diag(np.full(len(t), np.inf))
        off = np.linalg.norm(np.triu(t, 1), 1)
        # the recurrence divides by gaps: its error is about eps |T - diag T| / gap
        if off and off * np.finfo(float).eps >= FEW * gaps.min():
            return None
        at = _values(self.f, values)
        if not off:  # A is normal
            return np.diag(at)
        # groups of one: their starts 0, 1, .., n - 1, and the end n
        return _parlett(t, list(range(len(t) + 1)), lambda i, _: at[i : i + 1, None])

    def _in_groups(self, t: HostArray, wanted: tuple[slice, slice]) -> HostArray | None:
        """The part of F that is wanted, on which two groupings agree."""
        previous = None
        # two widths in a row must agree
        for turn, width in enumerate(WIDTHS):
            if (y := self._grouped(t, width, turn)) is None:
                previous = None
                continue
            found, noise = y[wanted], NOISE * abs(y).max()
            if previous is not None and abs(found - previous).max() <= max(
                AGREE * abs(found).max(), noise
            ):
                return found
            previous = found
        return None

    def _grouped(self, t: HostArray, width: float, turn: int) -> HostArray | None:
        values = np.diag(t)
        spread = abs(values - values.mean()).max()
        labels = _groups(values, width * spread)
        t, q, starts = _reordered(t, labels)
        scale = max(abs(values).max(), spread) or 1.0
        blocks: list[HostArray] = []
        for i, j in pairwise(starts):
            block = _on_circles(self.f, t[i:j, i:j], scale, turn)
            if block is None:
                return None
            blocks.append(block)
        at = dict(zip(starts, blocks, strict=False))
        # f(T) = Q f(T') Q^H of the reordered T', which is triangular again
        y = _parlett(t, starts, lambda i, _: at[i])
        return np.triu(q @ y @ q.conj().T)


# -- groups ---------------------------------------------------------------------


def _groups(values: HostArray, width: float) -> HostArray:
    """A label for each number: the same for those that a chain of steps below `width` connects."""
    labels = np.arange(len(values))
    for i in range(len(values)):
        # join all groups that have a member within `width` of value i
        close = np.unique(labels[abs(values - values[i]) <= width])
        labels[np.isin(labels, close)] = close.min()
    return labels


def _reordered(t: HostArray, labels: HostArray) -> tuple[HostArray, HostArray, list[int]]:
    """A Schur form in which groups stand together, its vectors, and where each group starts."""
    q = np.eye(len(t), dtype=t.dtype)
    trsen = scipy.linalg.get_lapack_funcs("trsen", (t,))
    # each call moves a group to the front, so that the last one goes first
    for label in np.unique(labels)[::-1]:
        chosen = labels == label
        t, q, *_ = trsen(chosen.astype(np.int32), t, q, job="N")
        labels = np.concatenate([labels[chosen], labels[~chosen]])
    starts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(t)]
    return np.triu(t), q, starts


def _parlett(t: HostArray, starts: list[int], block: Callable[[int, int], HostArray]) -> HostArray:
    """f(T) from f of its diagonal blocks, block(i, j); the halves first, then what is between."""
    if len(starts) <= 2:
        return block(starts[0], starts[-1])
    half = len(starts) // 2
    mid, low, high = starts[half], starts[0], starts[-1]
    f1, f2 = _parlett(t, starts[: half + 1], block), _parlett(t, starts[half:], block)
    t1, t2, c = t[low:mid, low:mid], t[mid:high, mid:high], t[low:mid, mid:high]
    # T1 X - X T2 = F1 C - C F2
    x = triangular_sylvester(t1, -t2, f1 @ c - c @ f2, "NN")
    return np.block([[f1, x], [np.zeros(c.shape[::-1]), f2]])


# -- a group ----------------------------------------------------------------------


def _on_circles(f: Callable[[Any], Any], t: HostArray, scale: float, turn: int) -> HostArray | None:
    """f(T) for eigenvalues that are close, from the circle where rounding plus aliasing is least."""
    center = np.diag(t).mean()
    # T = center I + N
    nilpotent = t - center * np.eye(len(t))
    reach, order = abs(np.diag(nilpotent)).max(), len(t) - 1
    if order == 0:
        return _values(f, np.diag(t))[:, None]
    # the points are turned by a tenth of their distance for each new grouping
    circle = np.exp(2j * np.pi * (np.arange(POINTS) + 0.1 * turn) / POINTS)
    best, chosen = np.inf, None
    # radii go down from four scales, while the circle keeps off the eigenvalues
    for radius in scale * (1 + 0.1 * turn) * 2.0 ** np.arange(2, -40, -1):
        if radius < 2.5 * reach:
            break
        y = _values(f, center + radius * circle, finite=False)
        if not np.isfinite(y).all():
            continue
        # taylor_k = f^(k) radius^k / k!; what is in the upper half is aliasing
        taylor, high = np.fft.fft(y) / POINTS, abs(y).max()
        rounding, tail = np.finfo(float).eps * high, abs(taylor[POINTS // 2 :]).max()
        # powers of N / radius up to `order` magnify the errors on a small circle
        error = (rounding + tail) / min(radius / scale, 1) ** order
        if tail <= 1e-10 * abs(taylor).max() + 8 * rounding and error < best:
            # undo the turn: coefficient k has the phase e^(i k 0.2 pi turn / POINTS)
            taylor = taylor * np.exp(-0.2j * np.pi * turn / POINTS * np.arange(POINTS))
            best, chosen = error, (radius, taylor[: POINTS // 2])
    if chosen is None:
        return None
    radius, taylor = chosen
    # f(T) = sum_k taylor_k (N / radius)^k, by Horner's rule
    x, y = nilpotent / radius, np.zeros_like(t)
    for c in taylor[::-1]:
        y = x @ y + c * np.eye(len(t))
    return y


def _values(f: Callable[[Any], Any], z: HostArray, finite: bool = True) -> HostArray:
    """f at these numbers."""
    try:
        y = np.asarray(f(z))
    except (TypeError, np.exceptions.ComplexWarning) as error:
        advice = "func gets all eigenvalues at once, a complex array of NumPy, as in SciPy."
        came = f"an error: {error}"
        raise type_error("func", "a function of arrays", came, advice) from error
    if y.shape not in (z.shape, ()) or y.dtype.kind not in "iufcb":
        advice = "func is applied to each element; numpy.vectorize makes such a function."
        raise value_error("func", f"an array of numbers of shape {z.shape}", shown(y), advice)
    if finite and not np.isfinite(y).all():
        raise value_error(
            "func", "finite at every eigenvalue", "NaN or infinity", "Look where it has poles."
        )
    return np.broadcast_to(y, z.shape).astype(complex)
