"""The arrays that a function returns, and how those of two processes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.validate import require_numbers
from ldiv.core.frameworks.dispatch import is_array
from ldiv.core.frameworks.trees import HostArray, leaves
from ldiv.errors import type_error
from ldiv.matrices.matrix import Matrix

SAME = 1e-9  # of their size: numbers of the whole are equal everywhere, but for rounding


def every_leaf(y: Any) -> list[Any]:
    """The arrays of an output: of tuples, lists and matrices."""
    if isinstance(y, Matrix):
        return leaves(y.params)
    return [v for part in y for v in every_leaf(part)] if isinstance(y, tuple | list) else [y]


def smooth(y: Any) -> bool:
    """Whether an output has a derivative: real and complex ones have, integers have none."""
    if not is_array(y) and not isinstance(y, np.generic):
        advice = "Return arrays, matrices, or tuples of them; not dicts, not Python numbers."
        raise type_error("f", "a function whose values are arrays", type(y).__name__, advice)
    return numpy_dtype(require_numbers("f", y)).kind in "fc"


def largest(y: HostArray) -> float:
    """max |y|, or 1 where that is zero."""
    return maximum(y) or 1.0


def maximum(y: HostArray) -> float:
    """max |y|."""
    return float(np.abs(y).max(initial=0))


def fingerprint(y: HostArray) -> tuple[Any, ...]:
    """The shape of an array, and two numbers that others hardly have."""
    weights = np.random.default_rng(0).standard_normal(y.shape)
    return y.shape, complex((weights * y).sum()), float(np.linalg.norm(y))


def alike(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    """Whether two fingerprints are those of equal arrays, but for rounding."""
    same = np.isclose(one[1:], two[1:], SAME, SAME * abs(two[2]), equal_nan=True)
    return one[0] == two[0] and bool(np.all(same))
