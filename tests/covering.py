"""Covering arrays: of a product of parametrizations, few cases in which every t values of t of
them meet.

    @pytest.mark.covering(2)
    @pytest.mark.parametrize("n", [0, 1, 5])
    ...

`make test` runs these few, `make test-all` the rest of the product; `covering(0)` leaves the first
case. Reference: Cohen, Dalal,
Fredman, Patton, IEEE Trans. Softw. Eng. 23 (1997).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import prod

import pytest

Case = tuple[int, ...]


def mark_the_rest(items: Sequence[pytest.Function]) -> None:
    """Mark as exhaustive what the covering array leaves of the cases of a test."""
    mark = items[0].get_closest_marker("covering")
    if mark is None:
        return
    sizes = [len(axis.args[1]) for axis in items[0].iter_markers("parametrize")]
    assert len(items) == prod(sizes), f"{items[0].name}: not a product"
    few = set(covering(sizes, *mark.args))
    for item, case in zip(items, product(*map(range, sizes)), strict=True):
        if case not in few:
            item.add_marker("exhaustive")


def covering(sizes: Sequence[int], t: int) -> list[Case]:
    """Cases, a number for each axis, in the order of the product; greedy, axis by axis."""
    if t == 0:
        return [(0,) * len(sizes)]
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    rows = [
        dict(zip(order, first, strict=False))
        for first in product(*(range(sizes[i]) for i in order[:t]))
    ]
    for now, i in enumerate(order[t:], t):
        earlier = order[:now]
        missing = {
            frozenset((*zip(axes, values, strict=True), (i, v)))
            for axes in combinations(earlier, t - 1)
            for values in product(*(range(sizes[a]) for a in axes))
            for v in range(sizes[i])
        }
        used = [0] * sizes[i]
        for row in rows:
            # the value that meets most of what it has not met; of several, the least used
            met = [_meetings(row, earlier, t - 1, (i, v)) for v in range(sizes[i])]
            row[i] = max(range(sizes[i]), key=lambda v: (len(met[v] & missing), -used[v]))
            used[row[i]] += 1
            missing -= met[row[i]]
        for lost in sorted(missing, key=sorted):
            if not any(lost <= row.items() for row in rows):
                rows.append({a: len(rows) % sizes[a] for a in (*earlier, i)} | dict(lost))
    return sorted({tuple(row[i] for i in range(len(sizes))) for row in rows})


def _meetings(
    row: dict[int, int], axes: Iterable[int], many: int, one: tuple[int, int]
) -> set[frozenset[tuple[int, int]]]:
    return {frozenset((*((a, row[a]) for a in few), one)) for few in combinations(axes, many)}
