"""Y = X, the values of a sparse matrix, where a product with it agrees with the product that it stands for: S(X) v = y.

tangent      dY = dX
cotangent    X_bar = Y_bar
cost         one product and a copy
reference    Freivalds (1977): a random v tells two matrices apart with probability 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.arrays import numpy_dtype
from ldiv.errors import got
from ldiv.rule import Array, Rule, Tree, bind, insist, namespace
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Agreed(Rule):
    """Arguments X (*batch, nnz), v (*batch, n, 1), y (*batch, m, 1)."""

    structure: Sparse

    @property
    def core(self) -> tuple[Tree, ...]:
        return (1, 2, 2)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        x, v, y = args
        xp, product = namespace(x), self.structure.apply(x, v, "N")
        size = self.structure.apply(xp.abs(x), xp.abs(v), "N") + xp.abs(y)
        allowed = float(np.finfo(numpy_dtype(x)).eps) ** 0.5 * size
        insist((xp.abs(product - y) <= allowed).all(), _misses, xp.max(xp.abs(product - y)))
        return (x + 0,)

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        return (tangents[0],)

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        return cotangents[0] if need[0] else None, None, None


def agreed(structure: Sparse, x: Array, v: Array, y: Array) -> Array:
    """x, unless S(x) v is not y."""
    return bind(Agreed(structure), x, v[..., None], y[..., None])[0]


def _misses(distance: Any) -> ValueError:
    advice = "Add the missing entries; ldiv.detect_pattern finds them at a point."
    return ValueError(
        got("pattern", "an entry wherever the derivative is not zero", f"one that misses some (a product is {distance:.1e} off)", advice)
    )
