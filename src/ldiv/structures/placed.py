"""S(p) x = y,  y[i_e] += p_e x[j_e]: a sparse matrix whose places (i, j) are arguments of a program.

The places have no derivative; S^*(u v^H)_e = sum_q u[i_e, q] conj(v[j_e, q]) is that in the values p.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast, conj, numpy_dtype, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, scatter
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure, compose, view_dense
from ldiv.errors import type_error


@dataclass(frozen=True)
class Placed(Structure):
    """Parameters: values, rows and columns of the entries, each (*batch, nnz), as floating numbers.

    Duplicates are summed. The pattern is known only where the matrix has numbers.
    """

    size: tuple[int, int]
    nnz: int
    op: str = "N"

    core = (1, 1, 1)
    has_entries = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.size[::-1] if VIEWS[self.op][0] else self.size

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(self.nnz,)] * 3

    def view(self, op: str) -> Structure:
        return replace(self, op=compose(self.op, op))

    def unview(self) -> tuple[Structure, str]:
        return replace(self, op="N"), self.op

    def matmul(self, p: Tree, x: Array) -> Array:
        transposed, conjugated = VIEWS[self.op]
        values, *places = p
        rows, cols = reversed(places) if transposed else places
        m, k = self.shape[0], x.shape[-1]
        batch = broadcast(*(batch_of(y, 1) for y in p), batch_of(x, 2))
        values = (conj(values) if conjugated else values)[..., None]
        terms = spread(values * _taken(x, cols, batch), batch)
        at, count = _each(_whole(rows), m, batch), prod(batch)
        xp = namespace(x)
        y = scatter(xp.reshape(terms, (count * self.nnz, k)), at, count * m)
        return xp.reshape(y, (*batch, m, k))

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return self.matmul((dp[0], *p[1:]), x)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        transposed, conjugated = VIEWS[self.op]
        batch = broadcast(*(batch_of(y, 1) for y in p), batch_of(u, 2), batch_of(v, 2))
        u, v = (v, u) if transposed else (u, v)
        products = _taken(u, p[1], batch), _taken(v, p[2], batch)
        one, other = products[::-1] if transposed else products
        g = namespace(u).sum(one * conj(other), axis=-1)
        return (conj(g) if conjugated else g) if need[0] else None, None, None

    def todense(self, p: Tree) -> Array:
        m, n = self.size
        batch = broadcast(*(batch_of(y, 1) for y in p))
        xp, count = namespace(p[0]), prod(batch)
        at = _each(_whole(p[1]) * n + _whole(p[2]), m * n, batch)
        values = xp.reshape(spread(p[0], batch, 1), (count * self.nnz, 1))
        dense = scatter(values, at, count * m * n)
        return view_dense(xp.reshape(dense, (*batch, m, n)), self.op)


def require_known_pattern(name: str, structure: Structure, other: str = "") -> None:
    """Raise if the places of the entries are arguments of a program; `other` is more advice."""
    if isinstance(structure.unview()[0], Placed):
        advice = f"{other}Pass ldiv.asarray({name}), whose pattern is static."
        raise type_error(name, "a known pattern", "an argument of a program", advice)


def _whole(places: Array) -> Any:
    """Floating numbers as whole ones of the same size."""
    xp = namespace(places)
    return xp.astype(places, xp.int64 if numpy_dtype(places).itemsize == 8 else xp.int32)


def _each(places: Any, size: int, batch: tuple[int, ...]) -> Any:
    """Places in the members of a batch as places in all of them, one after another, as a vector."""
    xp, count = namespace(places), prod(batch)
    flat = xp.reshape(spread(places, batch, 1), (count, places.shape[-1]))
    first = xp.asarray(size * np.arange(count), dtype=places.dtype)
    return xp.reshape(flat + first[:, None], (-1,))


def _taken(x: Array, places: Array, batch: tuple[int, ...]) -> Array:
    """x[..., places, :] (*batch, nnz, k)."""
    xp, (n, k) = namespace(x), x.shape[-2:]
    flat = xp.reshape(spread(x, batch), (prod(batch) * n, k))
    return xp.reshape(flat[_each(_whole(places), n, batch)], (*batch, places.shape[-1], k))
