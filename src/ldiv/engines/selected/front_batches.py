"""The fronts of a factorization in batches, for devices: all that depends on the pattern alone.

Fronts of sizes alike are one batch, if their children are in batches before it. Each has k own
columns and r rows below, the most of any of them. The rest is padding: an identity among the own
columns, zeros below. Sizes are alike up to a power of two or the middle of two of them; the columns
of small fronts are alike up to a power of two. Smaller fronts join a batch while their padding costs
less than a batch of their own.
Children of one batch are added to the fronts of another in calls that meet each front once. So a sum
has one order. The members of a batch are sorted such that those of one call are adjacent. Upper
triangles alone are added: other numbers of an update are zeros, which may go anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Index
from ldiv.engines.accuracy.slot_matrix import Indices, passes
from ldiv.engines.selected.fronts import Fronts

FREE = 20_000  # numbers of padding that cost no more than a batch
LARGE = 64  # rows below from which columns are padded by a half at most: operations count there


@dataclass(frozen=True)
class Kid:
    """Members start:stop of an earlier batch, which are added to fronts of this one: number (i, j) of
    their updates, i <= j, to number first_i + to_j.
    """

    batch: int
    start: int
    stop: int
    first: Any  # (c, r, 1)
    to: Any  # (c, 1, r)


@dataclass(frozen=True)
class Batch:
    """`count` fronts of k + r rows. Their numbers are the own rows, k (k + r) of each front, and then
    the r^2 of the rows below of each.
    """

    k: int
    r: int
    count: int
    values: slice  # of this batch among what is assembled
    work: slice  # of this batch in the memory of fronts, until its updates are added
    own: slice  # of this batch among the own columns of all batches
    below: slice  # of this batch among the rows below of all batches
    places: Any  # where the values are among the own rows
    column: Any  # (count, r) where the rows below are among the own columns
    sums: Any  # the rows below that are added to the own columns, by `passes`
    kids: tuple[Kid, ...]


class FrontBatches:
    """Batches of fronts, in an order in which children come before parents."""

    def __init__(self, fronts: Fronts) -> None:
        self.n, self.slots = fronts.n, fronts.pattern.slots
        batch, shapes = _batches(fronts.width, fronts.below, fronts.parent)
        position, runs = _ordered(batch, fronts.parent)
        self._fronts, self._batch, self._position = fronts, batch, position
        self._k, self._r = shapes.T
        self._count = np.bincount(batch, minlength=len(shapes))
        # own columns, and rows below, of all batches, one batch after the other
        self._own, self._below = (_starts(size * self._count) for size in (self._k, self._r))
        of_front = self._own[batch] + position * self._k[batch]
        self._of_column = of_front[fronts.owner] + np.arange(self.n) - fronts.starts[fronts.owner]
        self._made(runs)

    def _made(self, runs: list[tuple[int, int, int, int]]) -> None:
        f, all_k, all_r = self._fronts, self._k, self._r
        upper, places, of_slot = self._upper()
        # slots, and supernodes, by batch
        slots = _split(np.argsort(of_slot, kind="stable"), of_slot, len(all_k))
        by_batch = _split(np.lexsort((self._position, self._batch)), self._batch, len(all_k))
        parent = np.repeat(f.parent, f.below)
        to, columns = self._padded(parent, f.relative), self._of_column[f.rows_below]
        sums, done = self._sums(columns), 0
        work, self.work = _in_memory(all_k, all_r, self._count, runs)
        self.batches, sources, owners = [], list[Index](), list[Index]()
        for g, (some, members) in enumerate(zip(slots, by_batch, strict=True)):
            k, r, count = int(all_k[g]), int(all_r[g]), len(members)
            inside = np.arange(k) < f.width[members][:, None]
            owners.append(
                np.where(inside, f.starts[members][:, None] + np.arange(k), self.n).ravel()
            )
            which, column = np.nonzero(~inside)
            # a padded column has a 1 at (which, column, column) of (count, k, k + r)
            ones = (which * k + column) * (k + r) + column
            sources.append(np.append(upper[some], np.full(len(which), self.slots)))
            kids = []
            for child, _, start, stop in (run for run in runs if run[1] == g):
                own_kids, size = by_batch[child][start:stop], int(all_r[child])
                # children have zeros where they are padding, which are added anywhere
                at = self._rows(own_kids, to, size)
                row = self._position[f.parent[own_kids]][:, None]
                # own rows have k + r numbers; rows below have r, which are those from column k on
                first = np.where(
                    at < k,
                    (row * k + at) * (k + r),
                    count * k * (k + r) + (row * r + at - k) * r - k,
                )
                kids.append(Kid(child, start, stop, first[..., None], at[:, None, :]))
            own, below = int(self._own[g]), int(self._below[g])
            self.batches.append(
                Batch(
                    k,
                    r,
                    count,
                    slice(done, done := done + len(sources[-1])),
                    slice(*work[g]),
                    slice(own, own + count * k),
                    slice(below, below + count * r),
                    np.append(places[some], ones),
                    self._rows(members, columns, r),
                    sums[g],
                    tuple(kids),
                )
            )
        self._indices = self._sent(np.concatenate(sources), np.concatenate(owners))

    def _upper(self) -> tuple[Index, Index, Index]:
        """The upper slots, their places among the own rows of all fronts of a batch, and these batches."""
        f = self._fronts
        i, j = (x.astype(np.int64) for x in (f.pattern.indices, f.pattern.columns))
        upper = np.flatnonzero(i <= j)
        i, j = i[upper], j[upper]
        s = f.owner[i]
        batch = self._batch[s]
        k = self._k[batch]
        row = self._position[s] * k + i - f.starts[s]
        return upper, row * (k + self._r[batch]) + self._padded(s, f.position(s, j)), batch

    def _padded(self, s: Index, position: Index) -> Index:
        """A position in a front of supernode s, after padding."""
        width = self._fronts.width[s]
        return position + np.where(position < width, 0, self._k[self._batch[s]] - width)

    def _sums(self, columns: Index) -> list[list[tuple[Index, Index]]]:
        """`Batch.sums` of each batch: the rows below of descendants that are in its own columns."""
        f, last = self._fronts, int((self._r * self._count).sum())
        s = np.repeat(np.arange(f.count), f.below)
        batch = self._batch[s]
        first = self._below[batch] + self._position[s] * self._r[batch]
        terms = first + np.arange(len(s)) - f.row_starts[s]
        order = np.lexsort((terms, columns))
        columns, terms = columns[order], terms[order]
        found = []
        for start, stop in zip(self._own, self._own + self._k * self._count, strict=True):
            a, b = np.searchsorted(columns, [start, stop])
            own = np.append(terms[a:b], last)
            pairs = passes(columns[a:b] - start, stop - start) if b > a else []
            found.append([(some, own[at]) for some, at in pairs])
        return found

    def _rows(self, some: Index, of_rows: Index, r: int) -> Index:
        """`of_rows` of the rows below some supernodes, (len(some), r); 0 for padding."""
        f, number = self._fronts, np.arange(r)
        inside = number < f.below[some][:, None]
        at = np.where(inside, f.row_starts[some][:, None] + number, 0)
        return np.where(inside, of_rows[at] if len(of_rows) else 0, 0)

    def _sent(self, sources: Index, owners: Index) -> Indices:
        """All index arrays, which a device gets together."""
        arrays: list[Index] = []
        for b in self.batches:
            arrays += [b.places, b.column, *(x for pair in b.sums for x in pair)]
            for kid in b.kids:
                arrays += [kid.first, kid.to]
        mirror = np.asarray(self._fronts.pattern.transposition)
        real = np.flatnonzero(sources < self.slots)
        slots = np.empty(self.slots, np.int64)
        # an entry (i, j) of an inverse is wanted for slot (j, i); those of the other triangle are conjugates
        slots[sources[real]] = len(sources) + real
        slots[mirror[sources[real]]] = real
        return Indices(
            [*arrays, sources, owners, self._of_column, slots], partial(_there, self.batches)
        )

    def on(self, like: Array) -> tuple[list[Batch], Array, Array, Array, Array]:
        """The batches with their indices beside `like`, and four arrays of all batches.

        The slots that are assembled, and for padding one that is appended. The own columns, n for
        padding, and where each column is among them. Where each slot is among what was assembled,
        and its conjugates.
        """
        found: tuple[list[Batch], Array, Array, Array, Array] = self._indices.on(like)
        return found

    @property
    def entries(self) -> int:
        """The numbers in L."""
        return sum(b.count * b.k * (b.k + b.r) for b in self.batches)


def _there(
    batches: list[Batch], arrays: Iterator[Array]
) -> tuple[list[Batch], Array, Array, Array, Array]:
    """The batches with the index arrays of a device, and the last four of these."""
    found = []
    for b in batches:
        places, column = next(arrays), next(arrays)
        sums = [(next(arrays), next(arrays)) for _ in b.sums]
        kids = tuple(replace(kid, first=next(arrays), to=next(arrays)) for kid in b.kids)
        found.append(replace(b, places=places, column=column, sums=sums, kids=kids))
    return found, next(arrays), next(arrays), next(arrays), next(arrays)


def _in_memory(
    k: Index, r: Index, count: Index, runs: Sequence[tuple[int, int, int, int]]
) -> tuple[list[tuple[int, int]], int]:
    """The first place in memory that is free for the fronts of each batch; and the size of that memory.

    The own rows are free after the elimination, the rows below when the last parents have them.
    """
    last = {child: parent for child, parent, *_ in sorted(runs, key=lambda run: run[1])}
    taken, found = dict[int, tuple[int, int]](), list[tuple[int, int]]()
    for g, (own, below) in enumerate(zip(count * k * (k + r), count * r * r, strict=True)):
        start = 0
        for begin, end in sorted(taken.values()):
            if begin - start >= own + below:
                break
            start = end
        found.append((start, int(start + own + below)))
        taken = {child: at for child, at in taken.items() if last[child] > g}
        if g in last:
            taken[g] = (start + int(own), found[-1][1])
    return found, max((end for _, end in found), default=0)


def _starts(sizes: Index) -> Index:
    """The beginning of each of some parts, one after the other."""
    return np.cumsum(sizes) - sizes


def _numbers(k: Any, r: Any) -> Any:
    """The numbers of a front: its own rows, and the square of the rows below."""
    return k * (k + r) + r * r


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
        k, r = width[some].max(), below[some].max()
        # smaller ones that are ready, too, as long as they cost less than a batch of their own
        rest = np.flatnonzero(ready & (kind != chosen) & (width <= k) & (below <= r))
        padding = _numbers(k, r) - _numbers(width[rest], below[rest])
        order = np.argsort(padding, kind="stable")
        some = np.append(some, rest[order[np.cumsum(padding[order]) <= FREE]])
        batch[some] = len(shapes)
        shapes.append((k, r))
        np.subtract.at(left, kind[some], 1)
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
