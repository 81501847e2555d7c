"""Covering arrays: every t values of t axes meet in few cases; the other cases are exhaustive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

import pytest
from covering import covering


@pytest.mark.parametrize(
    ("sizes", "t", "most"),
    [((5, 2, 4, 20), 2, 100), ((4, 4, 2, 19), 3, 304), ((2, 3, 4), 1, 4), ((3, 3, 3, 3), 2, 15)],
)
def test_every_values_meet(sizes: Sequence[int], t: int, most: int) -> None:
    rows = covering(sizes, t)
    assert len(set(rows)) == len(rows) <= most
    for axes in combinations(range(len(sizes)), t):
        assert len({tuple(row[a] for a in axes) for row in rows}) == prod(sizes[a] for a in axes)


@pytest.mark.covering(1)
@pytest.mark.parametrize("a", [0, 1, 2])
@pytest.mark.parametrize(("b", "c"), [(0, 1), (1, 0)])
def test_few(request: pytest.FixtureRequest, a: int, b: int, c: int) -> None:
    assert c == 1 - b
    few = {(0, 0), (1, 1), (2, 0)}
    assert ((a, b) in few) == (request.node.get_closest_marker("exhaustive") is None)
