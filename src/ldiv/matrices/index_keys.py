"""Keys between brackets, A[...], as the rows and columns that they mean.

Each axis is `Along` lines: a range, which for an integer has one number and takes the axis away, or
a vector of indices. Two arrays of indices are `Pairs`, broadcast against each other, unless they are a
column and a row, as `numpy.ix_` makes them, which mean the lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.validate import STATIC, require_numbers
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.dispatch import asnumpy, is_array, traced
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import expected_got, shown, type_error


@dataclass(frozen=True)
class Vector:
    """Indices, none of them negative, hashable by their content."""

    bytes: bytes
    shape: tuple[int, ...]

    @cached_property
    def index(self) -> Index:
        return np.frombuffer(self.bytes, np.int64).reshape(self.shape)


@dataclass(frozen=True)
class Along:
    """The lines of one axis, in their new order; `scalar` if the axis goes."""

    lines: range | Vector
    scalar: bool = False

    @property
    def content(self) -> range | Index:
        return self.lines if isinstance(self.lines, range) else self.lines.index

    def __len__(self) -> int:
        return len(self.content)


@dataclass(frozen=True)
class Pairs:
    """Single entries (row, column), in any shape."""

    rows: Vector
    cols: Vector


def index_key(key: Any, shape: tuple[int, int]) -> tuple[Along, Along] | Pairs:
    """The lines of both axes, or pairs, that A[key] means for A of this shape."""
    parts = _expanded(key)
    if len(parts) == 1 and (mask := _mask(parts[0])) is not None:
        if mask.shape != shape:
            raise _wrong(f"a mask of shape {shape}", f"one of shape {mask.shape}")
        return Pairs(*(_vector(i) for i in np.nonzero(mask)))
    if len(parts) > 2:
        raise _wrong("at most two indices, of rows and columns", str(len(parts)))
    rows, cols = (_axis(part, n) for part, n in zip([*parts, slice(None)], shape, strict=False))
    if isinstance(rows, Along) and isinstance(cols, Along):
        return rows, cols
    return _arrays(rows, cols)


def _expanded(key: Any) -> list[Any]:
    """The indices without the Ellipsis, whose place slices take."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if sum(part is Ellipsis for part in parts) > 1:
        raise _wrong("one Ellipsis", "several")
    for i, part in enumerate(parts):
        if part is Ellipsis:
            return parts[:i] + [slice(None)] * (3 - len(parts)) + parts[i + 1 :]
    return parts or [slice(None)]


def _axis(part: Any, n: int) -> Along | Index:
    """The lines that a slice or an integer means; of an array its indices, from 0 to n - 1."""
    if isinstance(part, slice):
        try:
            return Along(range(n)[part])
        except (TypeError, ValueError) as error:
            raise _wrong("a slice of integers", shown(part)) from error
    host = _host(part)
    if host.dtype == bool:
        if host.shape != (n,):
            raise _wrong(f"a mask of shape ({n},)", f"one of shape {host.shape}")
        return np.flatnonzero(host)
    if host.size and host.dtype.kind not in "iu":
        raise _wrong("integers, slices, masks or vectors of integers", shown(part))
    low, high = (int(host.min()), int(host.max())) if host.size else (0, -1)
    if low < -n or high >= n:
        raise _wrong(f"indices from {-n} to {n - 1}", str(high if high >= n else low))
    if host.ndim == 0:
        return Along(range(n)[low : low + 1 or None], scalar=True)
    host = host.astype(np.int64)
    return np.where(host < 0, host + n, host)


def _arrays(rows: Along | Index, cols: Along | Index) -> tuple[Along, Along] | Pairs:
    """Arrays of indices with slices and integers, or with one another."""
    if isinstance(rows, Along) and not rows.scalar:
        return rows, _one(cols)
    if isinstance(cols, Along) and not cols.scalar:
        return _one(rows), cols
    i, j = (np.asarray(x.content[0]) if isinstance(x, Along) else x for x in (rows, cols))
    if np.shape(i)[1:] == (1,) and np.shape(j)[:1] == (1,) and np.ndim(j) == 2:
        return Along(_vector(i[:, 0])), Along(_vector(j[0]))
    try:
        i, j = np.broadcast_arrays(i, j)
    except ValueError as error:
        raise _wrong("rows and columns that broadcast", f"{np.shape(i)}, {np.shape(j)}") from error
    if i.ndim > 2:
        raise _wrong("a result with at most two axes", f"{i.ndim}")
    return Pairs(_vector(i), _vector(j))


def _one(index: Along | Index) -> Along:
    if isinstance(index, Along):
        return index
    if index.ndim != 1:
        raise _wrong("a vector of indices beside a slice", f"{index.ndim} axes")
    return Along(_vector(index))


def _mask(part: Any) -> Index | None:
    """A mask of the whole matrix, if it is one."""
    if isinstance(part, slice):
        return None
    host = _host(part)
    return host if host.dtype == bool and host.ndim == 2 else None


def _host(part: Any) -> Index:
    """Indices as an array of NumPy."""
    # no framework has Python's integers or masked arrays
    if type(part) is not int and (is_array(part) or isinstance(part, np.ndarray)):
        require_numbers("A[...]", part)
        if traced(part):
            raise type_error("A[...]", "indices that are known now", shown(part), STATIC)
        return asnumpy(part)
    try:
        host = np.asarray(part) if isinstance(part, int | list | tuple | np.generic) else None
    except Exception:  # ragged lists
        host = None
    if host is None or isinstance(part, bool | np.bool_):
        raise _wrong("integers, slices, masks or vectors of integers", shown(part))
    return host


def _vector(index: Index) -> Vector:
    return Vector(np.ascontiguousarray(index, np.int64).tobytes(), np.shape(index))


def _wrong(expected: str, came: str) -> IndexError:
    advice = "Rows and columns are counted from 0, from the end if negative."
    return IndexError(expected_got("A[...]", expected, came, advice))
