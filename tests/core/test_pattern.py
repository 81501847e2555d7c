"""What a pattern says of its own diagonal and triangles, beside dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ldiv.core.pattern import Pattern


def pattern(a: sp.coo_array) -> Pattern:
    return Pattern(*a.coords, a.shape)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_triangles_are_mirror_images(n: int) -> None:
    rng = np.random.default_rng(n)
    a = sp.random_array((n, n), density=0.2, rng=rng)
    p = pattern(sp.coo_array(a + a.T))
    below, above = p.triangles
    assert (p.indices[below] > p.columns[below]).all()
    np.testing.assert_array_equal(p.indices[below], p.columns[above])
    np.testing.assert_array_equal(p.columns[below], p.indices[above])
    assert 2 * len(below) + np.count_nonzero(p.indices == p.columns) == p.slots


def test_has_diagonal() -> None:
    rows, cols = np.array([0, 1, 2, 2, 0]), np.array([0, 1, 2, 2, 2])  # (2, 2) twice
    assert Pattern(rows, cols, (3, 3)).has_diagonal
    assert not Pattern(rows[1:], cols[1:], (3, 3)).has_diagonal
    assert Pattern(rows[:0], cols[:0], (0, 0)).has_diagonal
