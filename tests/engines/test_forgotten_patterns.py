"""A loop with another pattern in each step, an adaptive mesh say: patterns that are no longer among
the recent ones are freed at once, not when the garbage collector comes.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.engines.factors.analyses import RECENT

N = 2 * RECENT + 5


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def with_entry(k: int) -> Any:
    """A positive definite matrix whose pattern no other k has."""
    i, j = np.r_[:N, 0, k], np.r_[:N, k, 0]
    return ldiv.coo_array((np.r_[np.full(N, 4.0), 1.0, 1.0], (i, j)), shape=(N, N))


CALLS: dict[str, Callable[[Any], Any]] = {
    "pos": lambda A: ldiv.solve(A, np.ones(N), assume_a="pos"),
    "gen": lambda A: ldiv.solve(A, np.ones(N)),
    "gradient": lambda A: ldiv.vjp(ldiv.solve, A, np.ones(N))[1](np.ones(N)),
    "logdet": lambda A: ldiv.logdet(A, assume_a="pos"),
    "transposed": lambda A: ldiv.solve(A.T, np.ones(N), trans="T"),
}


@pytest.mark.parametrize("name", CALLS)
def test_old_patterns_are_freed(name: str, uncollected: None) -> None:
    ldiv.clear_cache()
    structures = []
    for k in range(1, N):
        A = with_entry(k)
        structures.append(weakref.ref(A.structure))
        CALLS[name](A)
        del A
    alive = sum(structure() is not None for structure in structures)
    assert alive <= RECENT + 1


def test_a_pattern_that_was_forgotten_serves_again() -> None:
    matrices = [with_entry(k) for k in range(1, N)]
    for _ in range(2):
        for A in matrices:
            x = ldiv.solve(A, np.ones(N), assume_a="pos")
            assert np.allclose(A @ x, np.ones(N))


@pytest.mark.parametrize("name", CALLS)
def test_none_is_left_when_the_caches_are_cleared(name: str) -> None:
    structures = []
    for k in range(1, 4):
        A = with_entry(k)
        structures.append(weakref.ref(A.structure))
        CALLS[name](A)
        del A
    ldiv.clear_cache()
    gc.collect()
    assert not any(structure() for structure in structures)
