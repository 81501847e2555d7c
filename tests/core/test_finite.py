"""The sum of squares that tells whether numbers are finite."""

from __future__ import annotations

import numpy as np
import pytest

from ldiv.core.rules.finite import BLOCK, all_finite, total


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_in_blocks(n: int, dtype: str) -> None:
    x = np.random.default_rng(n).standard_normal((n, 2)).astype(dtype)
    for view in (x, x[:, 0], x.T, x[::-1]):
        assert type(total(view)) is float
        np.testing.assert_allclose(total(view), np.sum(np.abs(view) ** 2.0), rtol=1e-5)
        assert all_finite(view)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, BLOCK, -1])
def test_what_is_not_finite_is_found_in_each_block(at: int, bad: float) -> None:
    x = np.ones(2 * BLOCK + 3)
    x[at] = bad
    assert not np.isfinite(total(x))
    assert not all_finite(x)


def test_squares_may_overflow() -> None:
    assert all_finite(np.full(2 * BLOCK, 1e200))
