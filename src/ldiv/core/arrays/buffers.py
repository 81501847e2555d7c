"""The memory of buffers: addresses, overlaps, and a stamp that changes with every write.

Overlap is decided by NumPy, on arrays with the addresses, shapes and strides of the buffers, which
are never read. So different columns of one matrix do not overlap, on a device as well.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.validate import require_dense, require_ours
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_array
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.owners.caches import bounded_cache
from ldiv.errors import type_error, value_error

TRIES = 10_000  # steps of NumPy's overlap test; undecided buffers count as overlapping


class Buffer(Array, Protocol):
    """An array that can be overwritten, of NumPy or PyTorch."""

    @property
    def imag(self) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __iadd__(self, other: Any, /) -> Buffer: ...
    def __imul__(self, other: Any, /) -> Buffer: ...


class Memory(NamedTuple):
    """The memory of an array: its address, None if unknown (under torch.func), its strides in
    bytes, and operations that are applied when it is read (conjugation, say).
    """

    address: int | None
    strides: tuple[int, ...]
    lazy: Hashable = None


def is_buffer(x: Any) -> bool:
    """Whether x is an array that can be overwritten at all; those of JAX cannot."""
    return isinstance(x, np.ndarray) or (is_array(x) and frontend_of(x).memory is not None)


def memory(x: Array) -> Memory:
    """Return the memory of a buffer."""
    if isinstance(x, np.ndarray):
        return Memory(x.__array_interface__["data"][0], x.strides)
    where = frontend_of(x).memory
    assert where is not None  # as `is_buffer` says
    return where(x)


def overlap(x: Array, y: Array) -> bool:
    """True if a write to one buffer could be seen in the other; without addresses, if both are one
    object.
    """
    here, there = memory(x), memory(y)
    if here.address is None or there.address is None:
        return x is y
    (low, high), (first, last) = _span(x, here), _span(y, there)
    if high <= first or last <= low:  # this comparison decides most cases
        return False
    return np.may_share_memory(
        _at(x, here),
        _at(y, there),
        max_work=TRIES,  # type: ignore[arg-type]  # any count is allowed
    )


def _span(x: Array, at: Memory) -> tuple[int, int]:
    """The addresses from the first byte to that after the last."""
    low = high = at.address or 0
    for n, stride in zip(x.shape, at.strides, strict=True):
        if n == 0:
            return low, low
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + numpy_dtype(x).itemsize


def _at(x: Array, where: Memory) -> Any:
    """A NumPy array with the memory layout of x, not to be read."""
    return x if isinstance(x, np.ndarray) else np.asarray(_Interface(x, where))


class _Interface:
    """An array interface with the memory layout of x, for NumPy."""

    def __init__(self, x: Array, at: Memory) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(x.shape),
            "strides": at.strides,
            "typestr": numpy_dtype(x).str,
            "data": (at.address, True),
        }


def require_buffer(name: str, x: Array, written: bool) -> None:
    """Raise unless x is a buffer outside of any autograd graph, and writable if `written`."""
    require_dense(name, x)
    require_ours(name, x)
    if not is_buffer(x):
        raise type_error(
            name,
            "a NumPy or PyTorch buffer",
            f"a {type(x).__name__}, which cannot be overwritten",
            "Use the values returned.",
        )
    if (words := frontend_of(x).unwritable(x)) is not None:
        raise value_error(name, *words)
    if written:
        require_own_entries(name, x)
    if written and isinstance(x, np.ndarray) and not x.flags.writeable:
        raise value_error(name, "an array that can be written", "a read-only one", "Pass a copy.")


def require_own_entries(name: str, x: Array) -> None:
    """Raise if entries share memory, as after a broadcast."""
    strides = memory(x).strides
    if 0 not in x.shape and any(s == 0 and n > 1 for s, n in zip(strides, x.shape, strict=True)):
        raise value_error(
            name,
            "memory for every entry",
            "an array with a stride of 0, whose entries share it",
            "Pass a copy.",
        )


def identity(x: Array) -> Hashable:
    """Return a key that is equal for arrays with the same memory and layout."""
    return memory(x), tuple(x.shape), str(x.dtype)


def stamp(x: Any) -> Hashable:
    """Return a value that changes when x is written to: the number of writes if the framework
    counts them, else a checksum of the bits.
    """
    if (version := frontend_of(x).version(x)) is not None:
        return version
    parts = (x.real, x.imag) if x.dtype == np.complex128 else (x,)
    return tuple(map(_checksum, parts))


def _checksum(x: HostArray) -> int:
    """Sum the bits, weighted along every axis by random odd numbers, so that permutations change
    the sum.
    """
    bits = x.view(f"u{x.dtype.itemsize}")
    for axis in reversed(range(bits.ndim)):
        bits = bits @ _weights(bits.shape[axis], axis).astype(bits.dtype)
    return int(bits)


@bounded_cache(64)
def _weights(n: int, axis: int) -> Any:
    return np.random.default_rng(axis).integers(2**63, size=n, dtype=np.uint64) * 2 + 1
