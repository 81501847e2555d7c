"""y_s = sum of x_e over the pairs (s, e) of a list: linear, its adjoint is the list of (e, s).

tangent      dy = G dx
cotangent    x_bar = G^T y_bar
reference    the assembly operator of finite elements, and its transpose
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import take
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import scatter
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind


@dataclass(frozen=True)
class Gather(Rule):
    """Argument x (*batch, n); output (*batch, m). The pairs are the entries of an m x n pattern."""

    pairs: Pattern
    transposed: bool = False

    traits = Traits(may_overflow=True, on_host=True)
    core = (1,)

    units = (Unit((2,), (2,)),)

    def kernel(self, *args: Tree) -> Arrays:
        into, m, out_of = self._sides
        # x_e of each pair (s, e) first, then the sum over the pairs of each s
        x = args[0] if out_of is None else take(args[0], out_of)
        return (x if into is None else scatter(x[..., None], into, m)[..., 0],)

    @cached_property
    def _sides(self) -> tuple[Index | None, int, Index | None]:
        """The numbers of y in the pairs, how many there are of it, and the numbers of x; None: all."""
        # of 64 bits, as which NumPy and PyTorch read them in each call
        sides = [x.astype(np.intp, copy=False) for x in (self.pairs.rows, self.pairs.cols)]
        (into, out_of), (m, n) = sides, self.pairs.shape
        if self.transposed:
            into, out_of, m, n = out_of, into, n, m
        if _is_all(into, m):  # a selection
            return None, m, out_of
        return into, m, None if _is_all(out_of, n) else out_of

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return bind(self, tangents[0])

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return bind(self._adjoint, cotangents[0])

    @cached_property
    def _adjoint(self) -> Gather:
        """G^T: the same pairs with their sides exchanged."""
        return replace(self, transposed=not self.transposed)


def _is_all(index: Index, size: int) -> bool:
    """Whether it is 0, 1 ... size - 1."""
    return len(index) == size and np.array_equal(index, np.arange(size))


def gathering(index: Index, place: Index, sizes: tuple[int, int]) -> Gather:
    """The rule y[place[t]] = sum of x[index[t]], with the sizes (of y, of x)."""
    return Gather(Pattern(place, index, sizes))


def selecting(index: Index, n: int) -> Gather:
    """The rule y = x[..., index] for x of n numbers."""
    return gathering(index, np.arange(len(index)), (len(index), n))


def adding_up(place: Index, size: int) -> Gather:
    """The rule y[place[e]] = sum of x[e]."""
    return gathering(np.arange(len(place)), place, (size, len(place)))


def gather(rule: Gather, x: Array) -> Array:
    """Apply it, differentiably, to the last axis of x."""
    return bind(rule, x)[0]


def add_up(x: Array, place: Index, size: int) -> Array:
    """Differentiable sums (*batch, size) of entries of x (*batch, entries) that share a place."""
    return gather(adding_up(place, size), x)


def cases(structures: Any, draw: Any) -> Cases:
    index, place = np.array([3, 0, 0, 2, 3]), np.array([0, 1, 4, 4, 0])
    yield selecting(index, 5), (draw(5),)
    yield gathering(index, place, (6, 5)), (draw(2, 5),)
    yield adding_up(index, 4), (draw(5),)
    yield Gather(gathering(index, place, (5, 6)).pairs, transposed=True), (draw(5),)
