"""Diagonals and triangles of a pattern, compared with those of dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ldiv.core.frameworks.pattern import Pattern


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


def test_triangles_of_a_pattern_that_is_not_symmetric() -> None:
    assert pattern(sp.coo_array(np.array([[1.0, 2.0], [0.0, 3.0]]))).triangles is None
    assert pattern(sp.coo_array(np.ones((2, 3)))).triangles is None


ENTRIES = {
    "in order": ([0, 2, 1, 0, 2], [0, 0, 1, 2, 2]),
    "rows not sorted": ([2, 0, 1, 0, 2], [0, 0, 1, 2, 2]),
    "columns not sorted": ([1, 0, 2, 0, 2], [1, 0, 0, 2, 2]),
    "one twice": ([0, 2, 2, 0, 2], [0, 0, 0, 2, 2]),
    "by rows": ([0, 0, 1, 2, 2], [0, 2, 1, 0, 2]),
    "none": ([], []),
    "one": ([1], [2]),
}


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
def test_slots_are_those_of_scipy(entries: tuple[list[int], list[int]]) -> None:
    """Columns in order, rows in order, duplicates added up; entries in that order are not copied."""
    rows, cols = (np.array(i, int) for i in entries)
    p, values = Pattern(rows, cols, (3, 4)), np.arange(1.0, 1 + len(rows))
    expected = sp.csc_array((values, (rows, cols)), shape=(3, 4))
    expected.sum_duplicates()
    expected.sort_indices()
    found = p.csc(p.slot_values(values))
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    np.testing.assert_array_equal(p.columns, expected.tocoo().col)
    np.testing.assert_array_equal(p.indices[p.slot], rows)
    if entries is ENTRIES["in order"]:
        assert p.slot_values(values) is values
        assert np.shares_memory(p.indices, p.rows)


def test_has_diagonal() -> None:
    rows, cols = np.array([0, 1, 2, 2, 0]), np.array([0, 1, 2, 2, 2])  # (2, 2) twice
    assert Pattern(rows, cols, (3, 3)).has_diagonal
    assert not Pattern(rows[1:], cols[1:], (3, 3)).has_diagonal
    assert Pattern(rows[:0], cols[:0], (0, 0)).has_diagonal


@pytest.mark.parametrize(("nnz", "n"), [(3, 2), (1, 2), (2, 1), (2, 3)])
def test_a_product_does_not_read_beyond_its_arrays(nnz: int, n: int) -> None:
    pattern = Pattern(np.array([0, 1]), np.array([0, 1]), (2, 2))
    with pytest.raises(ValueError, match="x, values and indptr: expected"):
        pattern.product(np.ones(nnz), np.ones((n, 1)), False)
