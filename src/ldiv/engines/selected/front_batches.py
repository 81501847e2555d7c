"""The fronts of a factorization in batches, for devices: all that depends on the pattern alone.

Fronts of sizes alike are one batch, if their children are in batches before it. Each has k own
columns and r rows below, the most of any of them. The rest is padding: an identity among the own
columns, zeros below. Sizes are alike up to a power of two or the middle of two of them; the columns
of small fronts are alike up to a power of two.
Children of one batch are added to the fronts of another in calls that meet each front once. So a sum
has one order. The members of a batch are sorted such that those of one call are adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Index
from ldiv.engines.accuracy.slot_matrix import Indices
from ldiv.engines.selected.fronts import Fronts

LARGE = 64  # rows below from which columns are padded by a half at most: operations count there


@dataclass(frozen=True)
class Kid:
    """Members start:stop of an earlier batch, which are added to fronts of this one."""

    batch: int
    start: int
    stop: int
    to: Any  # (c, r) for each row: where it is among the rows of all fronts of this batch
    first: (
        Any  # (c, r, 1) to which `to` of a column is added: where their number is among all numbers
    )


@dataclass(frozen=True)
class Batch:
    """`count` fronts of k + r rows."""

    k: int
    r: int
    count: int
    source: Any  # the lower slots that are assembled, and for padding one that is appended
    places: Any  # where they are among the (k + r)^2 numbers of all fronts
    own: Any  # (count, k) the own columns, n for padding
    below: Any  # (count, r) where the rows below are among the own columns of all batches
    kids: tuple[Kid, ...]


class FrontBatches:
    """Batches of fronts, in an order in which children come before parents."""

    def __init__(self, fronts: Fronts) -> None:
        self.n, self.slots = fronts.n, fronts.pattern.slots
        width, below, parent = fronts.width, fronts.below, fronts.parent
        batch, shapes = _batches(width, below, parent)
        position, runs = _ordered(batch, parent)
        self._fronts, self._batch, self._position = fronts, batch, position
        k, r = shapes.T
        count = np.bincount(batch, minlength=len(shapes))
        self._k, self._r = k, r
        # the own columns of all batches, k count of each, one batch after the other
        starts = np.cumsum(k * count) - k * count
        own = starts[batch] + position * k[batch]  # where the columns of each supernode begin
        self._of_column = own[fronts.owner] + np.arange(self.n) - fronts.starts[fronts.owner]
        self.batches = list(self._made(runs))
        self._indices = self._sent()

    def _made(self, runs: list[tuple[int, int, int, int]]) -> Iterator[Batch]:
        f, count = self._fronts, len(self._k)
        lower, places, batch = self._lower()
        # slots, and supernodes, by batch
        slots = _split(np.argsort(batch, kind="stable"), batch, count)
        by_batch = _split(np.lexsort((self._position, self._batch)), self._batch, count)
        to = self._relative()
        of_rows = self._of_column[f.rows_below]
        # children are added to the first row of a front where they are padding, which adds zeros
        for g, (some, members) in enumerate(zip(slots, by_batch, strict=True)):
            k, r = int(self._k[g]), int(self._r[g])
            own = f.starts[members][:, None] + np.arange(k)
            inside = np.arange(k) < f.width[members][:, None]
            which, column = np.nonzero(~inside)
            # a padded column has a 1 at (which, column, column) of (count, m, m), m = k + r
            ones = (which * (k + r) + column) * (k + r) + column
            kids = []
            for child, _, start, stop in (run for run in runs if run[1] == g):
                own_kids, below = by_batch[child][start:stop], int(self._r[child])
                first = self._position[f.parent[own_kids]] * (k + r)
                rows = self._rows(own_kids, to, below, first[:, None])
                # number (i, j) of a front is row_i m + row_j - first; rows count through all fronts
                at = (rows * (k + r) - first[:, None])[..., None]
                kids.append(Kid(child, start, stop, rows, at))
            yield Batch(
                k,
                r,
                len(members),
                np.append(lower[some], np.full(len(which), self.slots)),
                np.append(places[some], ones),
                np.where(inside, own, self.n),
                self._rows(members, of_rows, r, 0),
                tuple(kids),
            )

    def _lower(self) -> tuple[Index, Index, Index]:
        """The lower slots, their places among the numbers of all fronts of a batch, and these batches."""
        f = self._fronts
        i, j = (x.astype(np.int64) for x in (f.pattern.indices, f.pattern.columns))
        lower = np.flatnonzero(i >= j)
        i, j = i[lower], j[lower]
        s = f.owner[j]
        batch = self._batch[s]
        m = (self._k + self._r)[batch]
        # row-major: (position m + row) m + column
        row = self._position[s] * m + self._padded(s, f.position(s, i))
        return lower, row * m + j - f.starts[s], batch

    def _padded(self, s: Index, position: Index) -> Index:
        """A position in a front of supernode s, after padding."""
        width = self._fronts.width[s]
        return position + np.where(position < width, 0, self._k[self._batch[s]] - width)

    def _relative(self) -> Index:
        """The rows below each supernode among those of all fronts of the parent's batch."""
        f = self._fronts
        parent = np.repeat(f.parent, f.below)
        at = self._padded(parent, f.relative)
        m = (self._k + self._r)[self._batch[parent]]
        return self._position[parent] * m + at

    def _rows(self, some: Index, of_rows: Index, r: int, padding: Any) -> Index:
        """`of_rows` of the rows below some supernodes, (len(some), r)."""
        f, number = self._fronts, np.arange(r)
        inside = number < f.below[some][:, None]
        at = np.where(inside, f.row_starts[some][:, None] + number, 0)
        return np.where(inside, of_rows[at] if len(of_rows) else 0, padding)

    def _sent(self) -> Indices:
        """All index arrays, which a device gets together."""
        arrays: list[Index] = []
        for b in self.batches:
            arrays += [b.source, b.places, b.own, b.below]
            for kid in b.kids:
                arrays += [kid.to, kid.first]
        lower = np.concatenate([[], *(b.source for b in self.batches)]).astype(np.int64)
        mirror = np.asarray(self._fronts.pattern.transposition)
        real = np.flatnonzero(lower < self.slots)
        slots = np.empty(self.slots, np.int64)
        # an entry (i, j) of an inverse is wanted for slot (j, i); those of the other triangle are conjugates
        slots[lower[real]] = len(lower) + real
        slots[mirror[lower[real]]] = real
        return Indices([*arrays, self._of_column, slots], partial(_there, self.batches))

    def on(self, like: Array) -> tuple[list[Batch], Array, Array]:
        """The batches with their indices beside `like`; where each column is among the own columns of
        all batches; and where each slot is among what was assembled, and its conjugates.
        """
        found: tuple[list[Batch], Array, Array] = self._indices.on(like)
        return found

    @property
    def entries(self) -> int:
        """The numbers in L."""
        return sum(b.count * b.k * (b.k + b.r) for b in self.batches)


def _there(batches: list[Batch], arrays: Iterator[Array]) -> tuple[list[Batch], Array, Array]:
    """The batches with the index arrays of a device, and the last two of these."""
    found = []
    for b in batches:
        names = ("source", "places", "own", "below")
        own: dict[str, Any] = {name: next(arrays) for name in names}
        own["kids"] = tuple(replace(kid, to=next(arrays), first=next(arrays)) for kid in b.kids)
        found.append(replace(b, **own))
    return found, next(arrays), next(arrays)


def _batches(width: Index, below: Index, parent: Index) -> tuple[Index, Index]:
    """The batch of each supernode, and the sizes (k, r) of each batch."""
    sizes = np.stack([_size(width, below > LARGE), _size(below, True)])
    kind = np.unique(sizes, axis=1, return_inverse=True)[1].reshape(-1)
    # how many of a kind have no batch yet, and how many of the children of each supernode
    left, waits = np.bincount(kind), np.bincount(parent + 1, minlength=len(parent) + 1)[1:]
    batch, shapes = np.full(len(parent), -1), list[tuple[int, int]]()
    while left.any():
        ready = (batch < 0) & (waits == 0)
        # the kind of which the largest part is ready leaves the fewest for other batches
        chosen = np.argmax(np.bincount(kind[ready], minlength=len(left)) / np.maximum(left, 1))
        some = np.flatnonzero(ready & (kind == chosen))
        batch[some] = len(shapes)
        shapes.append((width[some].max(), below[some].max()))
        left[chosen] -= len(some)
        np.subtract.at(waits, parent[some][parent[some] >= 0], 1)
    return batch, np.array(shapes, int).reshape(-1, 2)


def _size(x: Index, between: Any) -> Index:
    """x rounded up to 0 1 2 4 8 16 ..., where `between` to the middle of two of them, too."""
    power = np.ceil(np.log2(np.maximum(x, 1))).astype(int)
    # x is in (2^(power - 1), 2^power]
    step = 2 ** np.where(between, np.maximum(power - 2, 0), power)
    return -(-x // step) * step


def _ordered(batch: Index, parent: Index) -> tuple[Index, list[tuple[int, int, int, int]]]:
    """The position of each supernode in its batch, and runs (batch, batch of the parents, start, stop)
    in which each parent is met once.
    """
    s, inside = np.arange(len(batch)), parent >= 0
    into = np.where(inside, batch[parent], -1)
    # children of one parent in one batch are added one after the other: rank by rank
    siblings = np.lexsort((s, batch, parent))
    fresh = np.ones(len(s), bool)
    fresh[1:] = (np.diff(parent[siblings]) != 0) | (np.diff(batch[siblings]) != 0)
    # the rank of a child among its siblings in the same batch
    begin = np.maximum.accumulate(np.where(fresh, s, 0))
    rank = np.empty(len(s), int)
    rank[siblings] = s - begin
    rank[~inside] = 0
    # by batch, batch of the parent, rank: then each run meets a parent once
    order = np.lexsort((s, rank, into, batch))
    starts = np.searchsorted(batch[order], np.arange(batch.max(initial=-1) + 1))
    position = np.empty(len(s), int)
    position[order] = s - starts[batch[order]]
    keys = np.stack([batch, into, rank])[:, order]
    # a run ends where one of these changes
    ends = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
    bounds = zip([0, *ends.tolist()], [*ends.tolist(), len(s)], strict=True)
    runs = [
        (int(keys[0, a]), int(keys[1, a]), int(position[order[a]]), int(position[order[e - 1]]) + 1)
        for a, e in bounds
        if e > a and keys[1, a] >= 0
    ]
    return position, runs


def _split(order: Index, batch: Index, count: int) -> list[Index]:
    """Split what is sorted by batch."""
    return np.split(order, np.cumsum(np.bincount(batch, minlength=count))[:-1])
