"""Symbolic work is kept by its true bytes: patterns in turn do not evict each other while memory is
there, and what has to go is told once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import ldiv
from ldiv.core.rules.structure import Structure
from ldiv.engines.factors import analyses
from ldiv.engines.factors.held_bytes import HeldBytes, held
from ldiv.matrices.sparse_indexing import structure_at

KILO = 1 << 20  # a unit beside which the index sets of small patterns are nothing
BYTES = 1000 * KILO  # the bound, and half of that of two patterns


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ldiv.clear_cache()
    monkeypatch.setattr(analyses, "BYTES", BYTES)
    monkeypatch.setattr(analyses, "BYTES_OF_TWO", 2 * BYTES)
    yield
    ldiv.clear_cache()


class Analysis:
    """An analysis of `nbytes` bytes, as a foreign one reports them."""

    def __init__(self, size: int) -> None:
        self.heap_bytes = size * KILO


def pattern(k: int) -> Structure:
    at = np.arange(k)
    return structure_at(at, at, (k, k))


def made(sizes: dict[int, int], steps: int) -> int:
    """Count the analyses that steps through these patterns, of these bytes, make in turn."""
    count = 0

    def analyze(size: int) -> Analysis:
        nonlocal count
        count += 1
        return Analysis(size)

    for _ in range(steps):
        for k, size in sizes.items():
            analyses.analysed("fake", pattern(k), lambda size=size: analyze(size))
    return count


@pytest.mark.parametrize(
    "sizes", [{1: 10, 2: 10}, {1: 400, 2: 500}, {1: 900, 2: 900}, {1: 5000}, {1: 1, 2: 1, 3: 990}]
)
def test_patterns_in_turn_stay(sizes: dict[int, int]) -> None:
    assert made(sizes, steps=5) == len(sizes)


@pytest.mark.parametrize("sizes", [{1: 1100, 2: 1100}, {1: 500, 2: 500, 3: 500, 4: 500}])
def test_what_has_to_go_is_told_once(sizes: dict[int, int]) -> None:
    with pytest.warns(UserWarning, match="is repeated") as told:
        assert made(sizes, steps=4) > len(sizes)
    assert len(told) == len(sizes)  # once for each


def test_the_oldest_goes_first() -> None:
    made({1: 400, 2: 400, 3: 400}, steps=1)
    kept = [analyses._used("fake", pattern(k)) is not None for k in (1, 2, 3)]
    assert kept == [False, True, True]


def test_many_small_patterns_go_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(dict.fromkeys(range(1, analyses.RECENT + 3), 1), steps=2)


@pytest.mark.parametrize("view", ["N", "T"])
def test_patterns_of_living_arrays_stay(view: str) -> None:
    """However many they are; those of others leave in the order of their last use."""
    arrays = [
        ldiv.SparseArray(pattern(k).view(view), np.ones(k)) for k in range(1, analyses.RECENT + 20)
    ]
    assert made(dict.fromkeys(range(1, 201), 1), steps=1) == 200
    assert len(analyses._recent) == analyses.RECENT + len(arrays)
    assert made(dict.fromkeys(range(1, len(arrays) + 1), 1), steps=2) == 0
    copies = [A.with_data(A.data + 1) for A in arrays[:3]]
    del arrays
    made({300: 1}, steps=1)
    # beside these an array of another test may live
    assert 0 <= len(analyses._recent) - analyses.RECENT - len(copies) <= 4


def test_the_pattern_that_was_made_for_an_array_stays_with_it() -> None:
    """The augmented matrices of least squares."""
    rng = np.random.default_rng(0)
    arrays = [
        ldiv.asarray(scipy.sparse.random_array((9, 4), density=0.9, rng=rng) + 0) for _ in range(3)
    ]
    for A in arrays:
        ldiv.lstsq(A, np.ones(9), damp=0.1)
    before = ldiv.cache_info().analyses
    made(dict.fromkeys(range(1, analyses.RECENT + 5), 1), steps=1)
    for A in arrays:
        ldiv.lstsq(A.with_data(2 * A.data), np.ones(9), damp=0.1)
    assert ldiv.cache_info().analyses == before


def test_what_patterns_share_counts_once() -> None:
    shared, own, other = np.zeros(100), np.zeros(7), np.zeros(5)
    both = HeldBytes()
    first = both.count({}, (shared, own))
    second = both.count({}, [shared[::2]])
    assert both.total == shared.nbytes + own.nbytes
    first = both.count(first, {"grown": (shared, own, other)})
    assert both.total == shared.nbytes + own.nbytes + other.nbytes
    both.release(first)
    assert both.total == shared.nbytes
    both.release(second)
    assert both.total == 0


def test_what_has_grown_is_counted_again() -> None:
    thing, held = SimpleNamespace(heap_bytes=10), HeldBytes()
    first, other = held.count({}, thing), held.count({}, thing)
    assert held.total == 10
    thing.heap_bytes = 30
    first = held.count(first, thing)
    assert held.total == 30
    held.release(first)
    held.release(other)
    assert held.total == 0


def test_true_bytes_are_those_of_the_arrays_counted_once() -> None:
    a = np.zeros(100)
    assert sum(held(((a, a[::2], [a]), {"a": a})).values()) == a.nbytes


@pytest.mark.parametrize("assumption", ["gen", "pos"])
def test_the_bytes_of_an_analysis(assumption: str) -> None:
    """The bytes are of the order of the index sets, a few for each entry, and not five hundred."""
    n = 4000
    band = [np.full(n - 1, -1.0), np.full(n, 4.0), np.full(n - 1, -1.0)]
    A = ldiv.csc_array(scipy.sparse.diags_array(band, offsets=[-1, 0, 1]).tocsc())
    ldiv.solve(A, np.ones(n), assume_a=assumption)
    total = sum(held([*analyses._recent.items()]).values())
    assert 8 * A.nnz <= total <= 400 * A.nnz


def test_a_matrix_that_is_made_again_has_the_plans_of_the_equal_one() -> None:
    a, b = np.array([[2.0, 1.0], [0.0, 1.0]]), ldiv.eye_array(3)
    for make in (
        lambda: ldiv.kron(a, b),
        lambda: ldiv.block_array([[b, None], [None, 2.0 * b]]),
        lambda: b + ldiv.LowRank(np.ones(3), np.ones(3)),
        lambda: 3.0 * ldiv.kron(a, a),
    ):
        first = make().structure
        assert make().structure is first
        ldiv.clear_cache()
        assert make().structure == first
        assert make().structure is not first


def test_no_function_of_the_user_is_kept() -> None:
    operator = ldiv.LinearOperator(lambda p, x: p * x, np.ones(2)[:, None], shape=(2, 2))
    before = len(analyses._recent)
    total = ldiv.eye_array(2) + operator
    assert not total.structure.on_host
    assert len(analyses._recent) == before


def test_matrices_made_of_others_are_kept_within_the_bound() -> None:
    """Two hundred shapes in turn leave the recent ones."""
    for n in range(2, 200):
        ldiv.kron(ldiv.eye_array(n), np.ones((1, 1)))
    assert len(analyses._recent) <= analyses.RECENT + 4
