"""NaN and infinity are refused where the numbers are first known: under a transformation only engines see them."""

from __future__ import annotations

from cmath import isfinite
from functools import partial

import numpy as np

from ldiv.rule import Array, insist, namespace, traced


def all_finite(x: Array) -> Array:
    """Whether no number is NaN or infinite: seen from their sum, in one pass and no memory, unless that overflows."""
    if not traced(x) and isfinite(_sum(x)):
        return True
    return namespace(x).isfinite(x).all()


def _sum(x: Array) -> complex:
    if isinstance(x, np.ndarray):
        with np.errstate(all="ignore"):
            return complex(x.sum())
    return complex(namespace(x).sum(x))


def require_finite(name: str, *arrays: Array) -> None:
    """Refuse NaN and infinity before any work."""
    for a in arrays:
        insist(all_finite(a), partial(_not_finite, name))


def _not_finite(name: str) -> ValueError:
    return ValueError(f"{name}: expected finite numbers, got NaN or infinity. Look at what made this array.")
