"""M = R P A P^T C (*batch) by its values in slots, in the memory of any device.

    y_i = sum of x_e over the e with place[e] = i

Such sums gather the terms of a place side by side, and add them up in one order: equal inputs give
equal bits, which sums by atomic additions do not. Index arrays are sent to a device once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    alike,
    astype,
    batch_of,
    beside,
    conj,
    device_of,
    numpy_dtype,
    put,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_opaque, namespace
from ldiv.core.frameworks.looks import assumed_true, decided, is_elsewhere
from ldiv.core.frameworks.pattern import Index
from ldiv.core.rules.structure import VIEWS
from ldiv.engines.accuracy.dense_matrix import inverse_root
from ldiv.engines.accuracy.equilibration import are_alike
from ldiv.engines.accuracy.limits import BALANCED, SCALINGS
from ldiv.engines.accuracy.sparse_matrix import Arrangement
from ldiv.engines.accuracy.verifiable import Normed
from ldiv.structures.asymmetry import are_near, refuse_asymmetry_in


class Indices:
    """Index arrays, which each device gets once, as one array; the copies count as bytes held.

    make: of the iterator over the arrays on a device, what `on` returns
    """

    def __init__(
        self, arrays: Sequence[Index], make: Callable[[Iterator[Array]], Any] = list
    ) -> None:
        self._whole = np.concatenate([np.ravel(x).astype(np.int64) for x in arrays])
        self._ends = np.cumsum([x.size for x in arrays]).tolist()
        self._shapes, self._make = [x.shape for x in arrays], make
        self._there: dict[Any, Any] = {}

    def on(self, like: Array) -> Any:
        """The arrays beside `like`."""
        xp = namespace(like)
        key = xp.__name__, device_of(like)
        if key not in self._there:
            whole = xp.asarray(self._whole, **beside(like))
            ends = zip(self._ends, self._shapes, strict=True)
            self._there[key] = self._make(
                xp.reshape(whole[end - prod(shape) : end], shape) for end, shape in ends
            )
        return self._there[key]

    @property
    def heap_bytes(self) -> int:
        """The bytes of the copies on devices."""
        return self._whole.nbytes * sum(device != "cpu" for _, device in self._there)


class Sums:
    """Sums of terms by their place, in the order of the terms."""

    def __init__(self, place: Index, size: int) -> None:
        found = passes(place, size)
        self._indices = Indices([x for one in found for x in one])
        self._is_padded = any((terms == len(place)).any() for _, terms in found)

    def __call__(self, x: Array, by: str = "sum") -> Array:
        """Add terms: (*batch, terms, k) -> (*batch, size, k). `by` may be max, for numbers that are
        not negative.
        """
        xp, indices = namespace(x), self._indices.on(x)
        if self._is_padded and x.shape[-2]:
            x = xp.concat([x, xp.zeros_like(x[..., :1, :])], axis=-2)
        return summed(x, list(zip(indices[::2], indices[1::2], strict=True)), by)


def passes(place: Index, size: int) -> list[tuple[Index, Index]]:
    """Pairs of places and (places, width) the terms that are added to them, the first for all places.

    A pass is twice as wide as its places have terms left on average. So few of its terms are padding,
    len(place), and few passes follow where some places have many.
    """
    # terms by place; the last one is padding
    order = np.append(np.argsort(place, kind="stable"), len(place))
    count = np.bincount(place, minlength=size)
    starts, done = np.cumsum(count) - count, 0
    some, found = np.arange(size), list[tuple[Index, Index]]()
    while not found or some.size:
        left = count[some] - done
        width = max(1, min(left.max(initial=0), int(np.ceil(2 * left.sum() / max(1, len(some))))))
        number = done + np.arange(width)
        inside = number < count[some][:, None]
        at = np.where(inside, starts[some][:, None] + number, len(place))
        found.append((some, order[at]))
        done += width
        some = np.flatnonzero(count > done)
    return found


def summed(x: Array, pairs: Sequence[tuple[Any, Any]], by: str = "sum") -> Array:
    """The sums of the terms (*batch, terms, k), of which the last one is 0, by `passes`."""
    xp, y = namespace(x), None
    for some, terms in pairs:
        if terms.shape[-1] == 1:
            part = gathered(x, terms[..., 0])
        else:
            part = getattr(xp, by)(gathered(x, terms), axis=-2)
        if y is None:
            y = part
        else:
            both = xp.stack([gathered(y, some), part], axis=-2)
            y = put(y, (..., some, slice(None)), getattr(xp, by)(both, axis=-2))
    assert y is not None
    return y


def gathered(x: Array, at: Array) -> Array:
    """x[..., at, :]."""
    xp, k = namespace(x), x.shape[-1]
    # one column is a vector, which PyTorch gathers several times as fast
    y, axis = (x[..., 0], -1) if k == 1 else (x, -2)
    found = xp.take(y, xp.reshape(at, (-1,)), axis=axis)
    return xp.reshape(found, (*batch_of(x, 2), *at.shape, k))


class Slots:
    """The places of the entries of A, and of its slots.

    symmetry: "H" where A = A^H, "T" where A = A^T, and the pattern is symmetric; "" elsewhere
    """

    def __init__(self, arrangement: Arrangement, slot: Index, symmetry: str = "H") -> None:
        pattern, none = arrangement.pattern, np.empty(0, int)
        self.n, self.count, self.symmetry = arrangement.n, pattern.slots, symmetry
        self.is_natural = arrangement.is_natural
        self.has_diagonal = arrangement.layout.diagonal is not None
        diagonal = arrangement.layout.diagonal if self.has_diagonal else none
        mirror = pattern.transposition if symmetry else none
        order = (none, none) if self.is_natural else (arrangement.rows, arrangement.row_place)
        arrays = pattern.indices, pattern.columns, mirror, diagonal
        self._indices = Indices([*arrays, *order, slot])  # type: ignore[list-item]
        self._of_entries, self._of_rows = Sums(slot, self.count), Sums(pattern.indices, self.n)
        self._of_cols = self._of_rows if symmetry else Sums(pattern.columns, self.n)

    def on(self, like: Array) -> Any:
        """Rows, columns, mirror images, the diagonal; the order of rows, its inverse; slots of entries."""
        return self._indices.on(like)

    def of_direction(self, p: Array) -> Array:
        """The slots of (S + S^H) / 2 for entries (*batch, nnz) of any S."""
        slots = self._of_entries(p[..., None])[..., 0]
        # halves first, since the sum of both may overflow
        return slots / 2 + self._mirrored(slots) / 2

    def of_matrix(self, p: Array) -> Array:
        """The slots of A; raises if S is far from as symmetric as A is."""
        slots = self._of_entries(p[..., None])[..., 0]
        if not self.symmetry:
            return slots
        mirror = self._mirrored(slots)
        if not (is_opaque(p) or is_elsewhere(p)) and bool((slots == mirror).all()):
            return slots
        # nearly every pair is symmetric by its own size: no scales need be found
        if is_opaque(p) or not assumed_true(are_near(slots, mirror).all()):
            rows, cols = self.on(p)[:2]
            refuse_asymmetry_in(
                slots,
                mirror,
                self.symmetry,
                lambda size: self.by_rows(size, "max"),
                lambda d: (d[..., rows], d[..., cols]),
            )
        return slots / 2 + mirror / 2

    def _mirrored(self, slots: Array) -> Array:
        mirror = namespace(slots).take(slots, self.on(slots)[2], axis=-1)
        return conj(mirror) if self.symmetry == "H" else mirror

    def by_rows(self, slots: Array, by: str = "sum") -> Array:
        """The sums of the rows, or their maxima."""
        return self._of_rows(slots[..., None], by)[..., 0]

    def by_cols(self, slots: Array, by: str = "sum") -> Array:
        """The sums of the columns, or their maxima."""
        return self._of_cols(slots[..., None], by)[..., 0]

    def product(self, values: Array, x: Array, transposed: bool = False) -> Array:
        """M x or M^T x."""
        rows, cols = self.on(x)[:2]
        if transposed:
            return self._of_cols(values[..., None] * gathered(x, rows))
        # (M x)_i = the sum of m_e x[col_e] over the slots e of row i
        return self._of_rows(values[..., None] * gathered(x, cols))

    def turned(self, op: str) -> tuple[bool, bool]:
        """Return whether op(M) is M^T, and whether it is conjugated; M^T is conj(M), or M, if M is
        symmetric.
        """
        transposed, conjugated = VIEWS[op]
        if transposed and self.symmetry:
            return False, conjugated != (self.symmetry == "H")
        return transposed, conjugated


class SlotMatrix(Normed):
    """M by its values in slots."""

    core = (1,)
    is_single, has_sizes = False, True

    def __init__(self, slots: Slots, values: Array) -> None:
        super().__init__(slots.n, numpy_dtype(values), values.nbytes)
        self.slots, self.values, self.arrays = slots, values, (values,)
        self.is_traced = is_opaque(values)
        self._norms: dict[bool, Any] = {}

    @property
    def remake(self) -> Callable[..., SlotMatrix]:
        return partial(SlotMatrix, self.slots)

    def product(self, x: Array, op: str) -> Array:
        transposed, conjugated = self.slots.turned(op)
        # conj(M) x = conj(M conj(x))
        if conjugated:
            return conj(self.slots.product(self.values, conj(x), transposed))
        return self.slots.product(self.values, x, transposed)

    def sizes(self, x: Array, op: str) -> Array:
        xp = namespace(x)
        return self.slots.product(xp.abs(self.values), xp.abs(x), self.slots.turned(op)[0])

    def norm(self, op: str) -> Any:
        transposed = self.slots.turned(op)[0]
        if transposed not in self._norms:
            xp = namespace(self.values)
            sums = (self.slots.by_cols if transposed else self.slots.by_rows)(xp.abs(self.values))
            self._norms[transposed] = xp.max(sums, axis=-1)[..., None, None]
        return self._norms[transposed]

    def direction(self, z: Any) -> Array:
        return namespace(self.values).asarray(z.copy(), **alike(self.values))

    def arranged(self, b: Array, op: str) -> Array:
        return astype(self._ordered(b, 4), self.dtype)

    def rearranged(self, x: Array, op: str) -> Array:
        return self._ordered(x, 5)

    def _ordered(self, x: Array, which: int) -> Array:
        return x if self.slots.is_natural else gathered(x, self.slots.on(x)[which])


def equilibrated(slots: Slots, values: Array) -> tuple[SlotMatrix, tuple[Array, Array]]:
    """(R A R, (r, r)): a positive matrix in units in which its diagonal is near 1, in one step and
    without reading from a device; r = 1 where it is balanced.
    """
    xp, diagonal = namespace(values), slots.on(values)[3]
    largest = slots.by_rows(xp.abs(values), "max")
    balanced = are_alike(xp.min(largest, axis=-1), xp.max(largest, axis=-1))[..., None]
    size = xp.abs(values[..., diagonal])
    # r_i = |m_ii|^(-1/2): |r_i m_ij r_j| <= 1 for a positive definite M
    r = inverse_root(xp.where(balanced, xp.ones_like(size), size))
    return _scaled(slots, values, r, r)


def normalized(slots: Slots, values: Array) -> tuple[SlotMatrix, tuple[Array, Array]]:
    """(R A C, (r, c)), with maxima of rows and columns near 1; r = c if A is symmetric. For libraries
    that compare pivots with a number of their own. One look decides whether one power of two is enough.
    """
    xp, (rows, cols, *_) = namespace(values), slots.on(values)
    size = xp.abs(values)
    largest = xp.concat([slots.by_rows(size, "max"), slots.by_cols(size, "max")], axis=-1)
    most = xp.max(largest, axis=-1, keepdims=True)
    r = c = inverse_root(xp.zeros_like(largest[..., : slots.n]) + most)
    if not decided((largest >= BALANCED * most).all()):
        for _ in range(SCALINGS):
            # r_i <- r_i / sqrt(max_j |r_i a_ij c_j|), and c_j by the columns, both at once
            scaled = r[..., rows] * size * c[..., cols]
            u, v = slots.by_rows(scaled, "max"), slots.by_cols(scaled, "max")
            r, c = r * inverse_root(u), c * inverse_root(v)
    return _scaled(slots, values, r, c)


def _scaled(
    slots: Slots, values: Array, r: Array, c: Array
) -> tuple[SlotMatrix, tuple[Array, Array]]:
    take, (rows, cols, *_) = namespace(values).take, slots.on(values)
    scaled = take(r, rows, axis=-1) * values * take(c, cols, axis=-1)
    return SlotMatrix(slots, scaled), (r, c)
