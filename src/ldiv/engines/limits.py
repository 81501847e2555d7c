"""What a dtype can do, and which backward errors engines accept in it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

REFINED = 4  # a backward error below this many eps needs no refinement
ENOUGH = 100  # above this many eps a more careful attempt is made


class Limits(NamedTuple):
    """Numbers of Python, which are made once: `np.finfo` takes as long as a small solve."""

    eps: float
    tiny: float
    max: float
    accurate: float  # the backward error that is accepted of the last attempt
    usually_accurate: float  # of those before


@cache
def limits(dtype: np.dtype[Any]) -> Limits:
    """The limits of a dtype of NumPy."""
    info = np.finfo(dtype)
    eps = float(info.eps)
    accurate = eps ** (2 / 3)
    return Limits(eps, float(info.tiny), float(info.max), accurate, min(ENOUGH * eps, accurate))
