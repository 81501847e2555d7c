"""The limits of a dtype are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ldiv.engines.accuracy.limits import ENOUGH, limits


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_limits_are_those_of_finfo(dtype: str) -> None:
    found, info = limits(np.dtype(dtype)), np.finfo(dtype)
    assert found[:3] == (float(info.eps), float(info.tiny), float(info.max))
    assert all(type(x) is float for x in found)
    assert found.eps < found.usually_accurate <= ENOUGH * found.eps
    assert found.usually_accurate <= found.accurate < 1e-4
