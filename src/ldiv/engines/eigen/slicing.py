"""The check that a search near sigma has skipped no eigenvalue, by spectrum slicing.

    #{lam < s} = number of negative eigenvalues of A - s B             (Sylvester)

The interval reaches from sigma into a gap between two eigenvalues found, to both sides or to one;
its ends are where the counts are taken, one factorization each. The factor of A - sigma B, which
the search used, may tell its signs for nothing: that counts the two sides of sigma.
Reference: Ericsson, Ruhe, Math. Comp. 35 (1980); Parlett, The Symmetric Eigenvalue Problem, ch. 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.eigen.inertia import inertia
from ldiv.engines.eigen.shift_invert import shifted
from ldiv.engines.eigen.task import EigenTask

SEPARATE = 100  # error bounds that lie between two eigenvalues with a gap
SIDES = {"LM": (-1, 1), "LA": (1,), "SA": (-1,)}  # of sigma


def skipped(task: EigenTask, pA: Tree, pB: Tree, lam: Any, error_bound: Any) -> int:
    """The number of eigenvalues missing among those found up to a gap; negative for too many.

    `lam`: the wanted ones first. The gap is beyond all wanted eigenvalues, or before those of them
    that are too close to the next ones.
    """
    assert task.sigma is not None
    sides = SIDES[task.which]
    distance = np.abs(lam - task.sigma)
    if len(sides) == 1:  # pairs of the other side are not what was searched for
        kept = (lam - task.sigma) * sides[0] > 0
        distance, error_bound = distance[kept], error_bound[kept]
    order = np.argsort(distance)
    # distance[0] = 0 is sigma itself, distance[j] that of the j-th nearest eigenvalue
    distance = np.concatenate([[0.0], distance[order]])
    # wide[j]: the gap beyond the j nearest eigenvalues, less the uncertainty of the next one
    wide = np.diff(distance) - SEPARATE * np.concatenate([[0.0], error_bound[order]])[1:]
    count = _gap(wide, task.k)
    if count is None:
        return 0
    # the interval ends in the middle of that gap
    radius = (distance[count] + distance[count + 1]) / 2
    low, high = (task.sigma + side * radius if side in sides else task.sigma for side in (-1, 1))
    # #{low <= lam < high} by Sylvester's law, less the count found there
    return _below(task.A, task.B, pA, pB, high) - _below(task.A, task.B, pA, pB, low) - count


def contradicted(task: EigenTask, signs: tuple[int, int], lam: Any, error_bound: Any) -> int:
    """The number of eigenvalues missing on a side of sigma, by the signs of A - sigma B alone.

    Negative for too many. All eigenvalues of the searched side are wanted, up to the number found.
    """
    assert task.sigma is not None
    if task.which not in SIDES or task.offset:
        return 0
    # `signs` counts all eigenvalues above sigma, and all below it
    for side, count in zip((1, -1), signs, strict=True):
        distance = (lam - task.sigma) * side
        # more eigenvalues are certain on this side than there are
        if (certain := int((distance > SEPARATE * error_bound).sum())) > count:
            return count - certain
        # all of the searched side is wanted: min(count, found) of them must lie on it
        if SIDES[task.which] == (side,):
            possible = int((distance > -SEPARATE * error_bound).sum())
            if possible < (expected := min(count, len(lam))):
                return expected - possible
    return 0


def _gap(wide: Any, k: int) -> int | None:
    """The number of eigenvalues in the interval, which ends at the widest gap from the k-th on, or
    at the last gap before it; None if all coincide.
    """
    if (beyond := wide[k:]).size and beyond.max() > 0:
        return k + int(np.argmax(beyond))
    before = np.flatnonzero(wide[:k] > 0)
    return int(before[-1]) if before.size else None


def _below(A: Structure, B: Structure, pA: Tree, pB: Tree, s: float) -> int:
    """The number of eigenvalues less than s, which is none."""
    return inertia(*shifted(A, B, pA, pB, s))[1]
