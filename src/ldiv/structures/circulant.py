"""S(p)[i, j] = p[(i - j) mod n]: S is diagonal in the basis of the discrete Fourier transform.

A product is a convolution, S^*(u v^H) a correlation, both on a circle; the eigenvalues are the
transform of p.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, is_complex, take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import VIEWS


@dataclass(frozen=True)
class Circulant(Linear):
    """A circulant matrix. Parameters (*batch, n), its first column."""

    n: int

    core = 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(self.n,)]

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        transposed, conjugated = VIEWS[op]
        p = conj(p) if conjugated else p
        return on_circle(p[..., None], x, mirrored=transposed)

    def project(self, u: Array, v: Array) -> Tree:
        return namespace(u).sum(on_circle(conj(v), u, mirrored=True), axis=-1)

    def todense(self, p: Tree) -> Array:
        return self.at(p, *np.indices(self.shape))

    def at(self, p: Tree, i: Index, j: Index) -> Array:
        """The entries at these rows and columns, to all digits: a product rounds to eps |A|."""
        return take(p, (i - j) % self.n)


def on_circle(u: Array, v: Array, mirrored: bool = False) -> Array:
    """w_i = sum_j u[(i - j) mod n] v_j, or with u[(j - i) mod n], by columns."""
    xp = namespace(u)
    if 0 in u.shape[-2:] or 0 in v.shape[-2:]:
        return u * v
    u_hat, v_hat = (xp.fft.fft(x, axis=-2) for x in (u, v))
    if mirrored:
        u_hat = xp.roll(xp.flip(u_hat, axis=-2), 1, axis=-2)
    w = xp.fft.ifft(u_hat * v_hat, axis=-2)
    return w if is_complex(u) or is_complex(v) else xp.real(w)


def cases(draw: Any) -> Iterator[tuple[Circulant, Tree]]:
    yield Circulant(5), draw(5) + 4.0 * (np.arange(5) == 0)
    yield Circulant(4), draw(2, 4) + 4.0 * (np.arange(4) == 0)
