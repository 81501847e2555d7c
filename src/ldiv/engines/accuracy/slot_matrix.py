"""A Hermitian M = R P A P^T R (*batch) by its values in slots, in the memory of any device.

    y_i = sum of x_e over the e with place[e] = i

Such sums gather the terms of a place side by side, and add them up in one order: equal inputs give
equal bits, which sums by atomic additions do not. Index arrays are sent to a device once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, batch_of, beside, conj, device_of, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, unseen
from ldiv.core.frameworks.looks import believed
from ldiv.core.frameworks.pattern import Index
from ldiv.engines.accuracy.dense_matrix import inverse_root
from ldiv.engines.accuracy.equilibration import are_alike
from ldiv.engines.accuracy.sparse_matrix import Arrangement
from ldiv.engines.accuracy.verifiable import Normed
from ldiv.structures.asymmetry import are_near, refuse_asymmetry_in


class Indices:
    """Index arrays, which each device gets once, as one array; the copies count as bytes held."""

    def __init__(self, arrays: Sequence[Index]) -> None:
        self._whole = np.concatenate([np.ravel(x).astype(np.int64) for x in arrays])
        self._ends = np.cumsum([0, *(x.size for x in arrays)]).tolist()
        self._there: dict[Any, list[Array]] = {}

    def on(self, like: Array) -> list[Array]:
        """The arrays, each with one axis, beside `like`."""
        xp = namespace(like)
        key = xp.__name__, device_of(like)
        if (found := self._there.get(key)) is None:
            whole = xp.asarray(self._whole, **beside(like))
            ends = zip(self._ends[:-1], self._ends[1:], strict=True)
            found = self._there[key] = [whole[start:end] for start, end in ends]
        return found

    @property
    def heap_bytes(self) -> int:
        """The bytes of the copies on devices."""
        return self._whole.nbytes * sum(device != "cpu" for _, device in self._there)


class Sums:
    """Sums of terms by their place, in the order of the terms: widths are rounded up to powers of two."""

    def __init__(self, place: Index, size: int) -> None:
        # terms by place; the additional last one is the zero that __call__ appends
        order = np.append(np.argsort(place, kind="stable"), len(place))
        count = np.bincount(place, minlength=size)
        starts = np.cumsum(count) - count
        # widths are powers of two: a few shapes, and less than twice the terms
        wide = np.maximum(1, 2 ** np.ceil(np.log2(np.maximum(count, 1))).astype(int))
        rows = [np.flatnonzero(wide == width) for width in np.unique(wide)]
        # inverse[i]: where place i is among all places, which are sorted by width
        inverse = np.empty(size, int)
        inverse[np.concatenate([*rows, []]).astype(int)] = np.arange(size)
        terms = []
        for some in rows:
            number = np.arange(wide[some[0]])
            # a term that is not there is the zero that is appended
            inside = number < count[some][:, None]
            terms.append(order[np.where(inside, starts[some][:, None] + number, len(place))])
        self._shapes = [x.shape for x in terms]
        self._indices = Indices([*terms, inverse])

    def __call__(self, x: Array, by: str = "sum") -> Array:
        """(*batch, terms, k) -> (*batch, size, k); `by` may be max, of what is not negative."""
        xp, (*terms, inverse) = namespace(x), self._indices.on(x)
        x = xp.concat([x, xp.zeros_like(x[..., :1, :])], axis=-2) if x.shape[-2] else x
        parts = [
            getattr(xp, by)(gathered(x, at, shape), axis=-2)
            for at, shape in zip(terms, self._shapes, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        return xp.concat(parts, axis=-2)[..., inverse, :]


def gathered(x: Array, at: Array, shape: tuple[int, ...]) -> Array:
    """x[..., at, :] in this shape, (*batch, *shape, k)."""
    found: Array = namespace(x).reshape(x[..., at, :], (*batch_of(x, 2), *shape, x.shape[-1]))
    return found


class Slots:
    """The places of the entries of A, and of its slots, for an arrangement with a symmetric pattern."""

    def __init__(self, arrangement: Arrangement, slot: Index) -> None:
        pattern = arrangement.pattern
        self.n, self.count = arrangement.n, pattern.slots
        self.has_diagonal = arrangement.layout.diagonal is not None
        diagonal = arrangement.layout.diagonal if self.has_diagonal else np.empty(0, int)
        arrays = pattern.indices, pattern.columns, pattern.transposition, diagonal
        order = arrangement.rows, arrangement.row_place
        self._indices = Indices([*arrays, *order, slot])  # type: ignore[list-item]
        self._of_entries, self._of_rows = Sums(slot, self.count), Sums(pattern.indices, self.n)

    def on(self, like: Array) -> list[Array]:
        """Rows, columns, mirror images, the diagonal; the order of rows, its inverse; slots of entries."""
        return self._indices.on(like)

    def of_direction(self, p: Array) -> Array:
        """The slots of (S + S^H) / 2 for entries (*batch, nnz) of any S."""
        slots = self._of_entries(p[..., None])[..., 0]
        # halves first, since the sum of both may overflow
        return slots / 2 + self._mirrored(slots) / 2

    def of_matrix(self, p: Array) -> Array:
        """The slots of A; raises if S is far from Hermitian."""
        slots = self._of_entries(p[..., None])[..., 0]
        mirror = self._mirrored(slots)
        # nearly every pair is symmetric by its own size: no scales need be found
        if unseen(p) or not believed(are_near(slots, mirror).all()):
            rows, cols = self.on(p)[:2]
            refuse_asymmetry_in(
                slots,
                mirror,
                "H",
                lambda size: self.by_rows(size, "max"),
                lambda d: (d[..., rows], d[..., cols]),
            )
        return slots / 2 + mirror / 2

    def _mirrored(self, slots: Array) -> Array:
        return conj(slots[..., self.on(slots)[2]])

    def by_rows(self, slots: Array, by: str = "sum") -> Array:
        """The sums of the rows, or their maxima."""
        return self._of_rows(slots[..., None], by)[..., 0]

    def product(self, values: Array, x: Array) -> Array:
        """M x."""
        # (M x)_i = the sum of m_e x[col_e] over the slots e of row i
        return self._of_rows(values[..., None] * x[..., self.on(x)[1], :])


class SlotMatrix(Normed):
    """M by its values in slots."""

    core = (1,)
    is_single, has_sizes = False, True

    def __init__(self, slots: Slots, values: Array) -> None:
        super().__init__(slots.n, numpy_dtype(values), values.nbytes)
        self.slots, self.values, self.arrays = slots, values, (values,)
        self.is_traced = unseen(values)
        self._norm: Any = None

    @property
    def remake(self) -> Callable[..., SlotMatrix]:
        return _Remade(self.slots)

    def product(self, x: Array, op: str) -> Array:
        # M = M^H, so M^T x = conj(M conj(x))
        if op == "T":
            return conj(self.slots.product(self.values, conj(x)))
        return self.slots.product(self.values, x)

    def sizes(self, x: Array, op: str) -> Array:
        xp = namespace(x)
        return self.slots.product(xp.abs(self.values), xp.abs(x))

    def norm(self, op: str) -> Any:
        if self._norm is None:
            xp = namespace(self.values)
            # M = M^H: its row sums are its column sums
            sums = self.slots.by_rows(xp.abs(self.values))
            self._norm = xp.max(sums, axis=-1)[..., None, None]
        return self._norm

    def direction(self, z: Any) -> Array:
        return namespace(self.values).asarray(z.copy(), **alike(self.values))

    def arranged(self, b: Array, op: str) -> Array:
        return astype(b[..., self.slots.on(b)[4], :], self.dtype)

    def rearranged(self, x: Array, op: str) -> Array:
        return x[..., self.slots.on(x)[5], :]


@dataclass(frozen=True, eq=False)
class _Remade:
    slots: Slots

    def __call__(self, values: Array) -> SlotMatrix:
        return SlotMatrix(self.slots, values)


def equilibrated(slots: Slots, values: Array) -> tuple[SlotMatrix, tuple[Array, Array]]:
    """(R A R, (r, r)): a positive matrix in units in which its diagonal is near 1, in one step and
    without reading from a device; r = 1 where it is balanced.
    """
    xp, (rows, cols, _, diagonal, *_) = namespace(values), slots.on(values)
    largest = slots.by_rows(xp.abs(values), "max")
    balanced = are_alike(xp.min(largest, axis=-1), xp.max(largest, axis=-1))[..., None]
    size = xp.abs(values[..., diagonal])
    # r_i = |m_ii|^(-1/2): |r_i m_ij r_j| <= 1 for a positive definite M
    r = inverse_root(xp.where(balanced, xp.ones_like(size), size))
    scaled = r[..., rows] * values * r[..., cols]
    return SlotMatrix(slots, scaled), (r, r)
