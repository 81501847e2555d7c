"""Symbolic work is kept by its true bytes: patterns in turn do not evict each other while memory is
there, and what has to go is told once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse

import ldiv
from ldiv.core.pattern import Pattern
from ldiv.core.structure import Structure
from ldiv.engines.factors import analyses
from ldiv.engines.factors.held_bytes import held_bytes
from ldiv.structures.sparse import Sparse

BYTES = 1000  # the bound, and half of that of two patterns


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ldiv.clear_cache()
    monkeypatch.setattr(analyses, "BYTES", BYTES)
    monkeypatch.setattr(analyses, "BYTES_OF_TWO", 2 * BYTES)
    # of a fake analysis, an integer: that many bytes
    monkeypatch.setattr(analyses, "held_bytes", lambda made, counted: made[0])
    yield
    ldiv.clear_cache()


def pattern(k: int) -> Structure:
    at = np.arange(k)
    return Sparse(Pattern(at, at, (k, k)))


def made(sizes: dict[int, int], steps: int) -> int:
    """How many analyses are made by steps through these patterns, of these bytes, in turn."""
    count = 0

    def analyze(size: int) -> int:
        nonlocal count
        count += 1
        return size

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
    kept = [analyses._used(("fake", pattern(k))) is not None for k in (1, 2, 3)]
    assert kept == [False, True, True]


def test_many_small_patterns_go_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(dict.fromkeys(range(1, analyses.RECENT + 3), 1), steps=2)


def test_true_bytes_are_those_of_the_arrays_counted_once() -> None:
    a = np.zeros(100)
    counted: set[int] = set()
    assert held_bytes(((a, a[::2], [a]), {"a": a}), counted) == a.nbytes
    assert held_bytes(a, counted) == 0


@pytest.mark.parametrize("assumption", ["gen", "pos"])
def test_the_bytes_of_an_analysis(assumption: str) -> None:
    """Of the order of the index sets, a few for each entry, and not five hundred bytes."""
    n = 4000
    band = [np.full(n - 1, -1.0), np.full(n, 4.0), np.full(n - 1, -1.0)]
    A = ldiv.csc_array(scipy.sparse.diags_array(band, offsets=[-1, 0, 1]).tocsc())
    ldiv.solve(A, np.ones(n), assume_a=assumption)
    kept = [*analyses._recent.values()]
    counted: set[int] = set()
    total = sum(held_bytes(one, counted) for one in kept)
    assert kept
    assert 8 * A.nnz <= total <= 400 * A.nnz
