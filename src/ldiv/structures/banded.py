"""S(p)[i, j] = p[u + i - j, j] for -u <= i - j <= l: a band in SciPy's diagonal-ordered form.

S^*(u v^H)[u + d, j] = (u v^H)[j + d, j].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, masked
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import VIEWS
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Banded(Linear):
    """A square matrix with l diagonals below the main one and u above it.

    Parameters (*batch, l + u + 1, n); the corners outside of the matrix are not read.
    """

    l: int
    u: int
    n: int

    core = 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(self.l + self.u + 1, self.n)]

    @property
    def inside(self) -> Any:
        """A mask of the entries of p inside of the matrix, which leaves out the unused corners."""
        return self.cached("inside", self._inside)

    def _inside(self) -> Any:
        row = np.arange(-self.u, self.l + 1)[:, None] + np.arange(self.n)
        return (row >= 0) & (row < self.n)

    def read(self, p: Tree) -> Tree:
        if type(p) is not np.ndarray:
            return masked(p, self.inside)
        # place j of row r is that of the entry (j + d, j), d = r - u
        corners = [
            (r, slice(None, -d) if d < 0 else slice(max(self.n - d, 0), None))
            for r, d in enumerate(range(-self.u, self.l + 1))
            if d
        ]
        if not any(p[..., r, j].any() for r, j in corners):
            return p
        p = p.copy()
        for r, j in corners:
            p[..., r, j] = 0
        return p

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        """op(S(p)) x, one diagonal at a time; what `roll` wraps around is multiplied by zeros."""
        transposed, conjugated = VIEWS[op]
        xp, p = namespace(x), self.read(p)
        p = (conj(p) if conjugated else p)[..., None]
        diagonals = enumerate(range(-self.u, self.l + 1))
        if transposed:
            return reduce(add, (p[..., r, :, :] * xp.roll(x, -d, axis=-2) for r, d in diagonals))
        return reduce(add, (xp.roll(p[..., r, :, :] * x, d, axis=-2) for r, d in diagonals))

    def project(self, u: Array, v: Array) -> Tree:
        xp = namespace(u)
        return self.read(
            xp.stack(
                [
                    xp.sum(xp.roll(u, -d, axis=-2) * conj(v), axis=-1)
                    for d in range(-self.u, self.l + 1)
                ],
                axis=-2,
            )
        )

    def todense(self, p: Tree) -> Array:
        xp = namespace(p)
        flat = xp.reshape(p, (*p.shape[:-2], -1)) if 0 not in p.shape else p[..., 0, :]
        keep = np.flatnonzero(self.inside.ravel())
        return Sparse(self.pattern).todense(flat[..., keep])

    # -- for sparse engines: compressed columns -----------------------------------

    @property
    def pattern(self) -> Pattern:
        """The positions of the entries inside the matrix, in the order of p."""
        return self.cached("pattern", self._pattern)

    def _pattern(self) -> Pattern:
        r, j = np.nonzero(self.inside)
        return Pattern(j + r - self.u, j, self.shape)

    def slot_values(self, p: Any) -> Any:
        return self.pattern.slot_values(p[..., self.inside])


@bounded_cache(16)
def banded(l: int, u: int, n: int) -> Banded:
    """Return the one structure for bands of a shape, as `dense` does."""
    return Banded(l, u, n)


def cases(draw: Any) -> Iterator[tuple[Banded, Tree]]:
    for l, u in ((2, 1), (0, 2), (0, 0)):
        yield Banded(l, u, 5), draw(l + u + 1, 5) + 5.0 * (np.arange(l + u + 1) == u)[:, None]
    yield Banded(1, 1, 4), draw(2, 3, 4) + 5.0 * np.array([[0], [1], [0]])
    yield Banded(2, 3, 2), draw(6, 2) + 5.0 * (np.arange(6) == 3)[:, None]  # wider than the matrix
