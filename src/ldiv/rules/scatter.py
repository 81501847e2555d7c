"""y_i = sum of x_e over all e with index_e = i: linear, its adjoint is x_bar_e = y_bar_{index_e}.

reference    the assembly operator of finite elements
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.dispatch import scatter
from ldiv.core.pattern import Pattern
from ldiv.core.rule import Rule, bind
from ldiv.core.trees import Array, Tree


@dataclass(frozen=True)
class Scatter(Rule):
    """Argument x (*batch, entries); output (*batch, size).

    The indices are the rows of a pattern with one column.
    """

    index: Pattern

    may_overflow = True
    core = (1,)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        return (scatter(args[0][..., None], self.index.rows, self.index.shape[0])[..., 0],)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        return (None if tangents[0] is None else bind(self, tangents[0])[0],)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        return (None if cotangents[0] is None else cotangents[0][..., self.index.rows],)


def add_up(x: Array, index: np.ndarray[Any, Any], size: int) -> Array:
    """Differentiable sums (*batch, size) of entries of x (*batch, entries) that share an index."""
    return bind(Scatter(Pattern(index, np.zeros_like(index), (size, 1))), x)[0]


def cases(structures: Any, draw: Any) -> Iterator[tuple[Scatter, tuple[Tree, ...]]]:
    index = np.array([3, 0, 0, 2, 3])
    yield Scatter(Pattern(index, 0 * index, (5, 1))), (draw(5),)
    yield Scatter(Pattern(index, 0 * index, (5, 1))), (draw(2, 5),)
