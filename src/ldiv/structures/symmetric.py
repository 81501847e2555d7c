"""S(p) = (B(p) + B(p)^H) / 2, the Hermitian part of a base B, or the symmetric part with ^T.

S^*(u v^H) = B^* of the Hermitian (symmetric) part of u v^H.
This is how the assumption "A is symmetric" enters derivatives: parameters may be perturbed one by
one, and the derivative agrees with finite differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import ishermitian, issymmetric

from ldiv.core.arrays.shapes import batch_of, beside, broadcast, conj, spread, take, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import host, host_values, namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure, Wrapper
from ldiv.structures.asymmetry import is_rounding, refuse_asymmetry, refuse_slot_asymmetry
from ldiv.structures.dense import Dense
from ldiv.structures.sparse import Sparse, runs

ROWS = 64  # of a dense matrix that are compared with their mirror image at a time
LOW = 1  # the rank up to which doubling the rank costs less than mirroring the entries


@dataclass(frozen=True)
class Symmetric(Wrapper):
    """The Hermitian (`op="H"`) or symmetric (`op="T"`) part of a square base, on its parameters."""

    base: Structure
    op: str = "H"

    def matmul(self, p: Tree, x: Array) -> Array:
        if self._is_averaged(p):
            return self.base.matmul(self._averaged(p), x)
        return (self.base.matmul(p, x) + self.base.view(self.op).matmul(p, x)) / 2

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        if self._is_averaged(dp):
            return self.base.push(p, self._averaged(dp), x)
        return (self.base.push(p, dp, x) + self.base.view(self.op).push(p, dp, x)) / 2

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        """The base's outer of (u v^H + v u^H) / 2 = [u v] [v u]^H / 2, of twice the rank.

        With `op="T"` v u^H is conjugated.
        If the base is dense, or its pattern symmetric, and the rank is not low, it is cheaper to
        average the entries of u v^H with their mirror images.
        """
        if u.shape[-1] > LOW and self._has_mirror:
            return self._averaged(self.base.outer(p, u, v, need))
        batch = broadcast(batch_of(u, 2), batch_of(v, 2))
        u, v = spread(u, batch), spread(v, batch)
        xp = namespace(u)
        if u.dtype != v.dtype:
            u, v = (xp.astype(x, xp.result_type(u, v)) for x in (u, v))
        half = u / 2
        w, z = (v, half) if self.op == "H" else (conj(v), conj(half))
        return self.base.outer(p, _side_by_side(half, w), _side_by_side(v, z), need)

    @property
    def _has_mirror(self) -> bool:
        """Whether the base has a place for the mirror image of each parameter."""
        base = self.base
        return isinstance(base, Dense) or (
            isinstance(base, Sparse) and base.pattern.mirror is not None
        )

    def _is_averaged(self, p: Tree) -> bool:
        """Whether S(p) x is one product of the base with averaged entries, instead of two."""
        base = self.base
        return (
            isinstance(base, Sparse)
            and host(p)
            and not base.pattern.has_duplicates
            and self._has_mirror
        )

    def _averaged(self, p: Tree) -> Tree:
        """The parameters of the base for S(p), where each of them has a mirror image."""
        at = None if self.base.pattern is None else self.base.pattern.mirror
        swapped = transpose(p) if at is None else take(p, at)
        return (p + (conj(swapped) if self.op == "H" else swapped)) / 2

    def view(self, op: str) -> Structure:
        return (
            self
            if op in ("N", self.op)
            else self.cached("conjugate", lambda: Symmetric(self.base.C, self.op))
        )

    def unview(self) -> tuple[Structure, str]:
        base, op = self.base.unview()
        transposed, conjugated = VIEWS[op]
        part = (
            self
            if base is self.base
            else base.cached(("part", self.op), lambda: Symmetric(base, self.op))
        )
        return part, "C" if conjugated != (transposed and self.op == "H") else "N"

    def todense(self, p: Tree) -> Array:
        a = self.base.todense(p)
        return (a + (conj(transpose(a)) if self.op == "H" else transpose(a))) / 2

    # -- for engines: compressed columns ------------------------------------------

    @property
    def pattern(self) -> Pattern | None:
        """The pattern of the base if it is symmetric; else with its mirror image appended."""
        if (own := self.base.pattern) is None or own.triangles is not None:
            return own
        rows, cols = (own.indices, own.columns), (own.columns, own.indices)
        return self.cached(
            "pattern", lambda: Pattern(np.concatenate(rows), np.concatenate(cols), own.shape)
        )

    def slot_values(self, p: Any) -> Any:
        """The values of the symmetric part as compressed columns.

        Raises if the base is far from symmetric, also if only one of its triangles was given.
        """
        slots, pattern = self.base.slot_values(p), self.pattern
        assert pattern is not None
        if pattern is not self.base.pattern:
            slots = pattern.slot_values(np.concatenate([slots, np.zeros_like(slots)], axis=-1))
        if slots.dtype.kind != "c" or self.op == "T":
            # half of the work where it is symmetric, as usual
            assert pattern.triangles is not None
            if _alike_at(slots, *pattern.triangles):
                return slots
        mirror = slots.take(pattern.transposition, axis=-1)
        mirror = np.conj(mirror) if self.op == "H" else mirror
        if np.array_equal(slots, mirror):
            return slots
        if not is_rounding(slots, mirror):
            refuse_slot_asymmetry(pattern, slots, mirror, self.op)
        return (slots + mirror) / 2


def _side_by_side(x: Array, y: Array) -> Array:
    """[X Y], column after column: so it is made, and read by sampled products, without strides."""
    return transpose(namespace(x).concat([transpose(x), transpose(y)], axis=-2))


def _alike_at(slots: Any, below: Any, above: Any) -> bool:
    """Whether the values at these places are equal, compared in runs that stay in the cache."""
    return all(
        np.array_equal(slots.take(below[run], axis=-1), slots.take(above[run], axis=-1))
        for run in runs(len(below))
    )


def symmetric_part(a: Array, op: str) -> Array:
    """(A + A^T) / 2, or with `op="H"` (A + A^H) / 2: A itself where it is exactly symmetric.

    Raises for an array that is not symmetric within the tolerance of `asymmetry`.
    """
    if (values := host_values(a)) is None:
        mirror = _mirrored(a, op)
        refuse_asymmetry(a, mirror, op)
        return a / 2 + mirror / 2
    if _is_symmetric(values, op):  # the usual case
        return a
    # block by block, so that all but the result stays in the cache
    part, certain = np.empty_like(values), True
    for start in range(0, a.shape[-1], ROWS):
        rows = slice(start, start + ROWS)
        x, y = values[..., rows, :], _mirrored(values[..., rows], op)
        part[..., rows, :] = x / 2 + y / 2
        certain = certain and is_rounding(x, y)
    if not certain:
        refuse_asymmetry(values, _mirrored(values, op), op)
    return namespace(a).asarray(part, **beside(a))


def _mirrored(a: Array, op: str) -> Array:
    """A^H or A^T, in memory of its own."""
    mirror = transpose(a)
    return namespace(a).asarray(conj(mirror) if op == "H" else mirror, copy=True)


def _is_symmetric(a: Any, op: str) -> bool:
    """Whether a is exactly symmetric; SciPy compares one large matrix block by block."""
    if a.ndim > 2 or len(a) <= ROWS:
        return bool((a == (np.conj(a.mT) if op == "H" else a.mT)).all())
    return bool((ishermitian if op == "H" else issymmetric)(a))


def cases(draw: Any) -> Iterator[tuple[Symmetric, Tree]]:
    rows, cols = np.array([0, 1, 2, 3, 0, 1, 2, 0]), np.array([0, 1, 2, 3, 1, 0, 0, 2])
    entries = draw(8)
    for op in ("H", "T"):
        flip = np.conj if op == "H" else np.asarray
        a = draw(4, 4)
        yield Symmetric(Dense(4, 4), op), (a + flip(a.T)) / 2 + 6 * np.eye(4)
        values = 6.0 * (rows == cols) + entries
        values[:4] = values[:4].real if op == "H" else values[:4]
        values[5], values[7] = flip(values[4]), flip(values[6])
        yield Symmetric(Sparse(Pattern(rows, cols, (4, 4))), op), values
