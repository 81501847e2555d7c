"""A structure made of others: S(p) = f(S_1(p_1), S_2(p_2) ...), without kernels of its own.

The parameters are the tuple of those of the parts; a part may be composed, too. The four views of S
consist of the views of its parts, and share one factorization: that of the view which comes first
in the order of `_signature`, the same for all four. If all parts have entries so
has S: it has a `pattern` and `slot_values`, and sparse direct engines take it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.space import HERE, Space
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import VIEWS, Structure, compose
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import Triangular

Places = tuple[Index, Index]  # rows, columns
LARGEST = 2**24  # entries up to which a dense part, or a Kronecker product, is written out


@dataclass(frozen=True)
class Composed(Structure):
    """A structure made of `parts`."""

    parts: tuple[Structure, ...]  # in the order of the parameters

    def viewed(self, op: str) -> Structure:
        """op(S), op in T, C, H, made of the views of the parts."""
        return type(self)(tuple(part.view(op) for part in self.parts))

    @property
    def arrangement(self) -> tuple[Any, ...]:
        """The key that distinguishes the views, besides the parts."""
        return ()

    @property
    def core(self) -> Tree:
        return tuple(part.core for part in self.parts)

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        of_parts = [part.sizes for part in self.parts]
        return None if None in of_parts else [size for sizes in of_parts for size in sizes or ()]

    @property
    def on_host(self) -> bool:
        return all(part.on_host for part in self.parts)

    @property
    def space(self) -> Space:
        return next((part.space for part in self.parts if part.space is not HERE), HERE)

    @property
    def states_adjoint(self) -> bool:
        return any(part.states_adjoint for part in self.parts)

    @property
    def has_square_parts(self) -> bool:
        return all(m == n for m, n in (part.shape for part in self.parts))

    def read(self, p: Tree) -> Tree:
        return tuple(part.unview()[0].read(q) for part, q in zip(self.parts, p, strict=True))

    # -- views --------------------------------------------------------------------

    def view(self, op: str) -> Structure:
        # views of views come from one structure, so that each exists once, with all that it caches
        first, own = self._origin
        op = compose(own, op)
        return first if op == "N" else first.cached(("view", op), lambda: first._viewed(op))

    @property
    def _origin(self) -> tuple[Composed, str]:
        """The structure that caches all views, and which view of it this one is."""
        return self.cached("origin", lambda: (self, "N"))

    def _viewed(self, op: str) -> Structure:
        view = self.viewed(op)
        if view == self:
            return self
        view.cached("origin", lambda: (self, op))
        return view

    def unview(self) -> tuple[Structure, str]:
        op = self.cached("unview", lambda: min(VIEWS, key=lambda op: _signature(self.view(op))))
        return self.view(op), op  # every view is its own inverse

    # -- for sparse engines: compressed columns -----------------------------------

    def entries(self) -> Places | None:
        """Rows and columns of the entries, in the order of `entry_values`.

        None if they are not those of the parts, or if a part has none.
        """
        return None

    def entry_values(self, p: Tree) -> Any:
        """The values of the entries, on the host."""
        raise NotImplementedError

    @property
    def pattern(self) -> Pattern | None:
        return self.cached(
            "pattern",
            lambda: None if (places := self.entries()) is None else Pattern(*places, self.shape),
        )

    def slot_values(self, p: Tree) -> Any:
        assert self.pattern is not None
        return self.pattern.slot_values(self.entry_values(p))


def _signature(structure: Structure) -> tuple[Any, ...]:
    assert isinstance(structure, Composed)
    return tuple(
        list(VIEWS).index(part.unview()[1]) for part in structure.parts
    ), structure.arrangement


def powers_of(parts: Iterable[Structure]) -> Tree | None:
    """The `unit_powers` of matrices that change their units together."""
    every = tuple(part.unit_powers for part in parts)
    return None if None in every else every


def powers_of_first(first: Structure, second: Structure) -> Tree | None:
    """The powers of a product, whose second part keeps its units."""
    if first.unit_powers is None:
        return None
    return first.unit_powers, rebuild(second.core, [0 for _ in leaves(second.core)])


def active(tree: Tree) -> bool:
    """Whether any leaf has a tangent, or any cotangent is needed."""
    return any(leaf is not None and leaf is not False for leaf in leaves(tree))


def is_dense(structure: Structure) -> bool:
    """Whether the structure is stored as one dense array."""
    base = structure.unview()[0]
    return (
        is_dense(base.base) if isinstance(base, Symmetric) else isinstance(base, Dense | Triangular)
    )


def entries(part: Structure) -> Places | None:
    """Rows and columns of the entries of a part, in the order of `entry_values`.

    A dense part has all of them, unless they are too many.
    """
    base, op = part.unview()
    if isinstance(base, Diagonal):
        rows = cols = np.arange(base.n)
    elif is_dense(base) and math.prod(base.shape) <= LARGEST:
        rows, cols = (i.ravel() for i in np.indices(base.shape))
    elif (pattern := base.pattern) is not None:
        rows, cols = pattern.indices, pattern.columns
    else:
        return None
    return (cols, rows) if VIEWS[op][0] else (rows, cols)


def all_entries(parts: Iterable[Structure]) -> list[Places] | None:
    """The entries of every part; None if one has none."""
    found = []
    for part in parts:
        if (places := entries(part)) is None:
            return None
        found.append(places)
    return found


def entry_values(part: Structure, p: Tree) -> Any:
    """The values of the entries of a part."""
    base, op = part.unview()
    if isinstance(base, Diagonal):
        values = p
    elif is_dense(base):
        dense = np.asarray(base.todense(p))
        values = dense.reshape(*dense.shape[:-2], -1)
    else:
        values = base.slot_values(p)
    return np.conj(values) if VIEWS[op][1] else values


def concatenated(places: Iterable[Places]) -> Places:
    """The entries of several parts, one after the other."""
    rows, cols = (np.concatenate(indices) for indices in zip(*places, strict=True))
    return rows, cols


def joined(values: Iterable[Any]) -> Any:
    """The values of several parts, one after the other, on common batch axes."""
    every = list(values)
    batch = np.broadcast_shapes(*(v.shape[:-1] for v in every))
    return np.concatenate([np.broadcast_to(v, (*batch, v.shape[-1])) for v in every], axis=-1)
