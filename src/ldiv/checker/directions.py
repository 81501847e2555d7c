"""The directions in which arguments move: all entries of one, those of it that are equal, or each.

Entries that are 0 or equal to others are where functions branch, and derivatives are wrong that are
right elsewhere. Beside all other entries their share may be small (a zero has the smallest step, and
a second derivative two of them): so they move once alone, apart from each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ldiv.checker.inner import Pair
from ldiv.checker.loss import Loss, Vector
from ldiv.checker.tangents import Argument
from ldiv.core.frameworks.dispatch import asnumpy

BLOCKS = 4  # values of an argument whose entries move alone: zero, and the most frequent ones


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction in which one argument moves and the others stay."""

    argument: int
    where: str  # which of its entries; empty for all
    d: Vector  # of all arguments
    own: slice  # the arrays of this one

    def along(self, g: Vector) -> Pair:
        """The part of a cotangent g that belongs to the argument that moves, and d."""
        return g[self.own], self.d[self.own]


def full(loss: Loss) -> list[Direction]:
    """All entries of each argument."""
    return [_alone(loss, i, "", a.random(loss.rng_of(a))) for i, a in enumerate(loss.args)]


def entrywise(loss: Loss) -> list[Direction]:
    """Each free entry alone."""
    return [
        _alone(loss, i, where, d) for i, a in enumerate(loss.args) for where, d in _basis(loss, a)
    ]


def blockwise(loss: Loss) -> list[Direction]:
    """The entries of an argument that are 0, or equal to another one, if there are others."""
    return [
        _alone(loss, i, where, d) for i, a in enumerate(loss.args) for where, d in _blocks(loss, a)
    ]


def coincide(loss: Loss) -> bool:
    """Whether entries are 0 or equal to others: the point may be a special one."""
    return any(_coincidences(loss, a) for a in loss.args)


def _alone(loss: Loss, i: int, where: str, d: Vector) -> Direction:
    counts = [len(a.flat) for a in loss.args]
    start = sum(counts[:i])
    every = [np.zeros_like(x) for x in loss.x]
    own = slice(start, start + counts[i])
    every[own] = d
    return Direction(i, where, every, own)


def _basis(loss: Loss, a: Argument) -> list[tuple[str, Vector]]:
    """Return a direction for each free entry, zero here for entries of other processes."""
    own, processes = list(a.basis()), loss.processes
    if processes is None or a.shared:
        return own
    here, rest = [np.zeros_like(asnumpy(x)) for x in a.flat], iter(own)
    return [
        (f"{where} of process {rank}", next(rest)[1] if rank == processes.rank else here)
        for rank, every in enumerate(processes.every([where for where, _ in own]))
        for where in every
    ]


def _blocks(loss: Loss, a: Argument) -> Iterator[tuple[str, Vector]]:
    x, free = [asnumpy(leaf) for leaf in a.flat], a.free
    for where, values in _coincidences(loss, a).items():
        among = [np.isin(leaf, values) for leaf in x]
        d = a.random(loss.rng_of(a), among)
        others = [~own & (leaf != 0) for own, leaf in zip(among, free, strict=True)]
        # all processes must agree
        if all(loss.inputs.any(any(map(np.any, part))) for part in (d, others)):
            yield where, d


def _coincidences(loss: Loss, a: Argument) -> dict[str, list[complex]]:
    """The values that are 0, or that several entries have; the same words on all processes."""
    counts = _counts([asnumpy(leaf) for leaf in a.flat], a.free)
    named = _named(counts)
    if loss.processes is not None and not a.shared:
        every = loss.processes.every(named)
        named = _named(sum(map(Counter, every), Counter[complex]()))
    found = {f"the entries that are {value:.6g}": [value] for value in named}
    rest = [value for value, count in counts.items() if count > 1 and value not in named]
    if loss.inputs.any(rest):
        found["other entries that are equal to one another"] = rest
    return found


def _counts(x: Vector, free: Vector) -> dict[complex, int]:
    """Count the entries with each value that move independently.

    Entries that the projection couples, A[i, j] and A[j, i], move by equal amounts.
    """
    if not x:
        return {}
    value, move = (np.concatenate([leaf.ravel() for leaf in every]) for every in (x, free))
    value, move = value[move != 0], np.abs(move[move != 0])
    order = np.lexsort((move, value.imag, value.real))
    value, move = value[order], move[order]
    alone = np.ones(len(value), bool)
    alone[1:] = (np.diff(value) != 0) | (np.diff(move) != 0)
    values, counts = np.unique(value[alone], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _named(counts: Mapping[complex, int]) -> dict[complex, int]:
    """Zero, and the most frequent values, that three entries have or more."""
    several = [value for value, count in counts.items() if count > 2 or value == 0]
    several.sort(key=lambda value: (value != 0, -counts[value], value.real, value.imag))
    return {value: counts[value] for value in several[:BLOCKS]}
