"""S(p)[i, j] = p[i - j + n - 1], a Toeplitz matrix; S(p)[i, j] = p[i + j], a Hankel matrix.

A product is a convolution, by FFT; S^*(u v^H) a correlation: the sums along the diagonals of u v^H.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import beside, conj, is_complex, take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import VIEWS


@dataclass(frozen=True)
class Toeplitz(Linear):
    """An m x n matrix with one number along each diagonal.

    Parameters (*batch, m + n - 1), from the last number of the first row to that of the first
    column.
    """

    m: int
    n: int

    core = 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.m, self.n

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(self._diagonals,)]

    @property
    def _diagonals(self) -> int:
        return max(self.m + self.n - 1, 0)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        transposed, conjugated = VIEWS[op]
        p = conj(p) if conjugated else p
        first, rows = (self.m, self.n) if transposed else (self.n, self.m)
        p = namespace(p).flip(p, axis=-1) if transposed else p
        return convolved(p[..., None], x, self._diagonals)[..., first - 1 : first - 1 + rows, :]

    def project(self, u: Array, v: Array) -> Tree:
        xp = namespace(u)
        return xp.sum(convolved(u, xp.flip(conj(v), axis=-2), self._diagonals), axis=-1)

    def todense(self, p: Tree) -> Array:
        return self.at(p, *np.indices(self.shape))

    def at(self, p: Tree, i: Index, j: Index) -> Array:
        """The entries at these rows and columns, to all digits: a product rounds to eps |A|."""
        return take(p, i - j + self.n - 1)


@dataclass(frozen=True)
class Hankel(Toeplitz):
    """A Toeplitz matrix whose columns are in the other order: one number along each antidiagonal."""

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        if VIEWS[op][0]:
            return flipped(super().apply(p, x, op))
        return super().apply(p, flipped(x), op)

    def project(self, u: Array, v: Array) -> Tree:
        return super().project(u, flipped(v))

    def at(self, p: Tree, i: Index, j: Index) -> Array:
        return take(p, i + j)


def flipped(x: Array) -> Array:
    """The rows of x, the last one first."""
    return namespace(x).flip(x, axis=-2)


def convolved(u: Array, v: Array, size: int) -> Array:
    """The first `size` numbers of the convolution of the columns; of others so many as fit without
    falling on those that are asked for, where one of the two has at most `size`.
    """
    xp = namespace(u)
    if not size or 0 in (u.shape[-2], v.shape[-2]):
        shape = np.broadcast_shapes(u.shape[:-2], v.shape[:-2])
        k = max(u.shape[-1], v.shape[-1])
        return xp.zeros((*shape, size, k), dtype=xp.result_type(u, v), **beside(u))
    import scipy.fft  # here: `import ldiv` loads none of SciPy that it does not need

    room = scipy.fft.next_fast_len(size, not (both := is_complex(u) or is_complex(v)))
    there, back = (xp.fft.fft, xp.fft.ifft) if both else (xp.fft.rfft, xp.fft.irfft)
    u, v = (there(x, n=room, axis=-2) for x in (u, v))
    return back(u * v, n=room, axis=-2)[..., :size, :]


def cases(draw: Any) -> Iterator[tuple[Toeplitz, Tree]]:
    strong = np.zeros(9)
    strong[4] = 6
    yield Toeplitz(5, 5), draw(9) + strong
    yield Toeplitz(3, 5), draw(2, 7)
    yield Hankel(5, 5), draw(2, 9) + strong
    yield Hankel(4, 2), draw(5)
