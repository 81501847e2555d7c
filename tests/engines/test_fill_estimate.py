"""The estimate of work for each entry of the factors from two samples, compared with a count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.accuracy.sparse_checked import SparseLu
from ldiv.engines.libraries import native
from ldiv.engines.libraries.fill_estimate import extrapolated

compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)


def mesh(*sides: int) -> Any:
    a = sp.csc_array((1, 1))
    for side in sides:
        path = sp.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(side, side))
        a = sp.kron(a, sp.eye_array(side)) + sp.kron(sp.eye_array(a.shape[0]), path)
    return a


def pattern(a: Any) -> Pattern:
    result: Pattern = ldiv.asarray(sp.csc_array(a)).structure.pattern
    return result


def counted(p: Pattern) -> float:
    return SparseLu(p).work


@compiled
@pytest.mark.parametrize("sides", [(70, 70), (20, 2000), (15, 15, 15)])
def test_a_mesh_in_the_right_order_of_magnitude(sides: tuple[int, ...]) -> None:
    p = pattern(mesh(*sides))
    assert 1 / 3 < extrapolated(p, counted) / counted(p) < 3


@compiled
def test_what_couples_all_does_not_hide_the_mesh_behind_it() -> None:
    """Each vertex of it is a neighbor of one whose row and column are full."""
    side, one = 100, np.ones((1, 100**2))
    p = pattern(sp.block_array([[np.ones((1, 1)), one], [one.T, mesh(side, side)]]))
    assert extrapolated(p, counted) > 30


def test_small_and_odd_patterns() -> None:
    def rows(p: Pattern) -> float:
        return float(p.shape[0])

    for a in (np.ones((1, 1)), np.eye(3), np.ones((5, 5)), np.tri(30), sp.eye_array(5000)):
        found = extrapolated(pattern(a), rows)
        assert 0 <= found <= 1.1 * a.shape[0]
    assert extrapolated(pattern(mesh(60, 60)), rows) == pytest.approx(3600)


def test_what_is_dense_is_not_counted() -> None:
    def never(p: Pattern) -> float:
        raise AssertionError("it takes as long as a factorization")

    assert extrapolated(pattern(np.ones((400, 400))), never) == np.inf


def test_a_sample_is_a_submatrix_of_neighbors() -> None:
    seen: list[Pattern] = []
    a = mesh(60, 60)
    extrapolated(pattern(a), lambda p: seen.append(p) or 1.0)  # type: ignore[func-returns-value]
    small, large = (p.csc(np.ones(p.slots)) for p in seen)
    assert small.shape == (400, 400) and large.shape == (1600, 1600)
    for part in (small, large):
        assert (part != part.T).nnz == 0
        assert part.diagonal().all()
        assert sp.csgraph.connected_components(part)[0] == 1
