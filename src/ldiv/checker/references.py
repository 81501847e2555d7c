"""g'(0) of g: R -> R^m by differences, with an error bar.

Richardson extrapolation of central differences; Ridders' choice of the best entry of its table.

    T[k, 0] = (g(h) - g(-h)) / 2h,  h = h0 2^-k
    T[k, j] = (4^j T[k, j-1] - T[k-1, j-1]) / (4^j - 1)
    bar     = 4 max(|T[k, j] - T[k, j-1]|, |T[k, j] - T[k-1, j-1]|) + rounding, the least of the
              table, but no less than the noise / h that smaller steps have shown: two entries may
              agree by chance
    kink    = 2 c(h) - c(2h),  c(h) = (g(h) - 2 g(0) + g(-h)) / h: O(h^3) where g is smooth; where
              it does not shrink it is an error bar

A complex step, Im g(ih) / h, is used where it agrees with the table within the error bar; the bar
is then the distance of the two.
References: Ridders, Adv. Eng. Software 4 (1982); Squire and Trapp, SIAM Rev. 40 (1998).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ldiv.checker.tangents import FIRST
from ldiv.core.arrays.processes import RankError
from ldiv.core.frameworks.trees import HostArray

LEVELS = 32  # halvings of the step: matrices with condition 1e8 want small ones
COLUMNS = 5  # of the table: extrapolations
UNSEEN = 3  # the last levels are not chosen: no smaller step has shown their noise
SAFETY = 4
EPS = 2.0**-52
ENOUGH = 1e-9  # of the derivative, or of a thousandth of the function: accurate enough to stop
STEP = 1e-30  # of the complex step, which has no cancellation
FAILURES = (
    ArithmeticError,
    ValueError,
    RuntimeError,
)  # what LAPACK and the frameworks raise for points outside the domain: singular, indefinite
Level = tuple[float, HostArray, HostArray]  # step, value, error


def derivative(
    g: Callable[[float], HostArray],
    size: HostArray,
    stepped: Callable[[float], HostArray] | None = None,
) -> tuple[HostArray, HostArray]:
    """(g'(0), error bar); the bar is infinite where nothing is known.

    `size` is the size of the terms that g adds up, `stepped(h)` is g(ih).
    """
    above: list[HostArray] = []
    levels: list[Level] = []
    enough = 0
    middle, bends = _at(g, 0.0), list[HostArray]()
    for k in range(LEVELS):
        h = FIRST / 2**k
        sides = _at(g, h), _at(g, -h)
        # outside the domain: halve the step
        if middle is None or sides[0] is None or sides[1] is None:
            above, bends = [], []
            continue
        slope = (sides[0] - sides[1]) / (2 * h)
        bends = [*bends[-2:], (sides[0] - 2 * middle + sides[1]) / h]
        row, errors = [slope], [np.full_like(size, np.inf)]
        for j, coarse in enumerate(above[:COLUMNS], 1):
            row.append((4**j * row[-1] - coarse) / (4**j - 1))
            errors.append(
                SAFETY
                * (
                    np.maximum(np.abs(row[j] - row[j - 1]), np.abs(row[j] - coarse))
                    + EPS * size / h
                )
            )
        above = row
        error, pick = np.maximum(np.min(errors, axis=0), _kink(bends)), np.argmin(errors, axis=0)
        value = np.choose(pick, row)
        levels.append((h, value, error))
        asked = ENOUGH * np.maximum(np.abs(value), 1e-3 * size)
        enough = enough + 1 if (error <= asked).all() else 0
        if enough == 2:  # once may be chance
            value, bar = _chosen(levels, size, 0)
            return _sharpened(value, np.maximum(bar, asked), size, stepped)
    return _sharpened(*_chosen(levels, size, UNSEEN), size, stepped)


def _chosen(levels: list[Level], size: HostArray, unseen: int) -> tuple[HostArray, HostArray]:
    """The level with the least error bar, no less than the noise that smaller steps have shown."""
    best, bar = np.zeros_like(size), np.full_like(size, np.inf)
    noise = np.zeros_like(size)
    for back, (h, value, error) in enumerate(reversed(levels)):
        noise = np.maximum(noise, np.where(np.isfinite(error), error * h, 0))
        bound = np.maximum(error, noise / h)
        if back >= unseen:
            best, bar = np.where(bound < bar, value, best), np.minimum(bound, bar)
    return best, bar


def _at(g: Callable[[float], HostArray], t: float) -> HostArray | None:
    """g(t), or None outside the domain of g."""
    try:
        with np.errstate(all="ignore"):
            value = g(t)
    except RankError:
        raise
    except FAILURES:
        return None
    return value if np.isfinite(value).all() else None


def _kink(bends: list[HostArray]) -> HostArray:
    """The jump of the derivative, from c at the last steps; zero where there is none."""
    jumps = [np.abs(2 * fine - coarse) for coarse, fine in pairwise(bends)]
    if not jumps:
        return np.zeros_like(bends[0])
    return jumps[0] if len(jumps) == 1 else np.where(jumps[1] > jumps[0] / 2, jumps[1], 0)


def _sharpened(
    best: HostArray, bar: HostArray, size: HostArray, stepped: Callable[[float], HostArray] | None
) -> tuple[HostArray, HostArray]:
    """The complex step in place of the best entry, where the two agree within the error bar."""
    exact = None if stepped is None else _complex_step(stepped)
    if exact is None:
        return best, bar
    distance = np.abs(exact - best)
    agrees = (distance <= bar) & np.isfinite(bar)
    return np.where(agrees, exact, best), np.where(agrees, distance + SAFETY * EPS * size, bar)


def _complex_step(stepped: Callable[[float], HostArray]) -> HostArray | None:
    """The complex step, or None where the function does not take complex numbers.

    A warning says that an imaginary part was discarded.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            slope = stepped(STEP).imag / STEP
    except RankError:
        raise
    except Exception:  # a function of real numbers may raise anything for complex ones
        return None
    return slope if np.isfinite(slope).all() else None
