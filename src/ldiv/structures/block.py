"""S = sum_e E_row(e) A_e E_col(e)^T: blocks at (row, column) of a grid, zeros elsewhere.

S^*(u v^H)_e = A_e^*(u_row(e) v_col(e)^H).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure, outer, plus, push
from ldiv.structures.composed import (
    Composed,
    Places,
    all_entries,
    concatenated,
    entry_values,
    joined,
    powers_of,
)
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Block(Composed):
    """Matrices on a grid with row `heights` and column `widths`. Parameters: the tuple of theirs.

    `places`: the (row, column) of every part.
    """

    parts: tuple[Structure, ...]
    places: tuple[tuple[int, int], ...]
    heights: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def arrangement(self) -> tuple[Any, ...]:
        return self.places, self.heights, self.widths

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.heights), sum(self.widths)

    @property
    def definite(self) -> bool:
        return (
            all(i == j for i, j in self.places)
            and len(self.parts) == len(self.heights)
            and all(part.definite for part in self.parts)
        )

    @property
    def unit_powers(self) -> Tree | None:
        return powers_of(self.parts)

    def matmul(self, p: Tree, x: Array) -> Array:
        xs = cut(x, self.widths)
        return self._stacked(
            [
                part.matmul(q, xs[j])
                for part, q, (_, j) in zip(self.parts, p, self.places, strict=True)
            ],
            x,
        )

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        xs = cut(x, self.widths)
        return self._stacked(
            [
                push(part, q, dq, xs[j])
                for part, q, dq, (_, j) in zip(self.parts, p, dp, self.places, strict=True)
            ],
            x,
        )

    def _stacked(self, terms: list[Array | None], x: Array) -> Array:
        """The terms summed in the rows of their blocks; None is zero."""
        xp = namespace(x)
        rows: list[Array | None] = [None] * len(self.heights)
        for (i, _), term in zip(self.places, terms, strict=True):
            rows[i] = plus(rows[i], term)
        like = next(row for row in rows if row is not None)
        batch = broadcast(*(batch_of(row, 2) for row in rows if row is not None))
        zero = [xp.zeros((*batch, m, x.shape[-1]), **alike(like)) for m in self.heights]
        return xp.concat(
            [z if row is None else spread(row, batch) for row, z in zip(rows, zero, strict=True)],
            axis=-2,
        )

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        us, vs = cut(u, self.heights), cut(v, self.widths)
        return tuple(
            outer(part, q, us[i], vs[j], n)
            for part, q, n, (i, j) in zip(self.parts, p, need, self.places, strict=True)
        )

    def viewed(self, op: str) -> Structure:
        parts = tuple(part.view(op) for part in self.parts)
        if not VIEWS[op][0]:
            return Block(parts, self.places, self.heights, self.widths)
        return Block(parts, tuple((j, i) for i, j in self.places), self.widths, self.heights)

    def todense(self, p: Tree) -> Array:
        every = [part.todense(q) for part, q in zip(self.parts, p, strict=True)]
        xp, batch = namespace(every[0]), broadcast(*(batch_of(a, 2) for a in every))
        grid = [
            [xp.zeros((*batch, m, n), **alike(every[0])) for n in self.widths] for m in self.heights
        ]
        for (i, j), a in zip(self.places, every, strict=True):
            grid[i][j] = grid[i][j] + a
        return xp.concat([xp.concat(row, axis=-1) for row in grid], axis=-2)

    def entries(self) -> Places | None:
        if (places := all_entries(self.parts)) is None:
            return None
        tops, lefts = (np.cumsum((0, *sizes)) for sizes in (self.heights, self.widths))
        return concatenated(
            (rows + tops[i], cols + lefts[j])
            for (rows, cols), (i, j) in zip(places, self.places, strict=True)
        )

    def entry_values(self, p: Tree) -> Any:
        return joined(entry_values(part, q) for part, q in zip(self.parts, p, strict=True))


def cut(x: Array, sizes: tuple[int, ...]) -> list[Array]:
    """x (*batch, sum of sizes, k) in blocks of rows."""
    ends = list(accumulate(sizes))
    return [x[..., end - size : end, :] for end, size in zip(ends, sizes, strict=True)]


def cases(draw: Any) -> Iterator[tuple[Block, Tree]]:
    sparse = Sparse(Pattern(np.array([0, 1, 1]), np.array([0, 1, 0]), (2, 2)))
    strong = np.array([3.0, 3.0, 0.0])
    saddle = ((0, 0), (0, 1), (1, 0))
    yield (
        Block((sparse, Diagonal(2), sparse.T), saddle, (2, 2), (2, 2)),
        (draw(3) + strong, draw(2) + 3, draw(3) + strong),
    )
    yield (
        Block((Dense(2, 2), Dense(2, 1), Dense(1, 2)), saddle, (2, 1), (2, 1)),
        (draw(2, 2, 2) + 3 * np.eye(2), draw(2, 1), draw(1, 2)),
    )
    yield Block((Dense(2, 1), Diagonal(1)), ((1, 0), (0, 1)), (1, 2), (1, 1)), (draw(2, 1), draw(1))
