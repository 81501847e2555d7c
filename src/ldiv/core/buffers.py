"""The memory of buffers: addresses, overlaps, and a stamp that changes with every write.

Overlap is decided by NumPy, on arrays with the addresses, shapes and strides of the buffers, which
are never read. So different columns of one matrix do not overlap, on a device as well.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from ldiv.core.arrays import numpy_dtype
from ldiv.core.trees import Array
from ldiv.core.validate import require_ours
from ldiv.errors import expected_got

TRIES = 10_000  # steps of NumPy's overlap test; undecided buffers count as overlapping


def is_buffer(x: Array) -> bool:
    """Whether x can be overwritten at all; arrays of JAX cannot."""
    return (
        isinstance(x, np.ndarray)
        or hasattr(x, "data_ptr")
        or hasattr(getattr(x, "data", None), "ptr")
    )


def layout(x: Array) -> tuple[int, tuple[int, ...]]:
    """The address of a buffer and its strides in bytes."""
    if isinstance(x, np.ndarray):
        return x.__array_interface__["data"][0], x.strides
    if hasattr(x, "data_ptr"):
        return x.data_ptr(), tuple(s * x.element_size() for s in x.stride())
    return x.data.ptr, x.strides


def overlap(x: Array, y: Array) -> bool:
    """Whether a write to one could be seen in the other.

    Under torch.func nothing has an address: then only identical tensors overlap.
    """
    try:
        # contiguous PyTorch tensors: the same answer, faster
        if getattr(x, "is_contiguous", bool)() and y.is_contiguous():
            here, there = x.data_ptr(), y.data_ptr()
            return bool(here < there + y.nbytes and there < here + x.nbytes)
        return np.may_share_memory(
            _layout_of(x),
            _layout_of(y),
            max_work=TRIES,  # type: ignore[arg-type]  # any count is allowed
        )
    except RuntimeError:
        return x is y


def _layout_of(x: Array) -> Any:
    """A NumPy array with the memory layout of x, not to be read."""
    return x if isinstance(x, np.ndarray) else np.asarray(_Interface(x))


class _Interface:
    """An array interface with the memory layout of x, for NumPy."""

    def __init__(self, x: Array) -> None:
        address, strides = layout(x)
        typestr = numpy_dtype(x).str
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(x.shape),
            "strides": strides,
            "typestr": typestr,
            "data": (address, True),
        }


def require_buffer(name: str, x: Array, written: bool) -> None:
    """Raises unless x is a buffer outside of any autograd graph, and writable if `written`."""
    require_ours(name, x)
    if not is_buffer(x):
        raise TypeError(
            expected_got(
                name,
                "a NumPy, CuPy or PyTorch buffer",
                f"a {type(x).__name__}, which cannot be overwritten",
                "Use the values returned.",
            )
        )
    if getattr(x, "requires_grad", False):
        raise ValueError(
            expected_got(
                name,
                "a tensor without a graph, as shadows hold its cotangent",
                "one that requires grad",
                "Pass x.detach().",
            )
        )
    if getattr(x, "is_inference", bool)():
        raise ValueError(
            expected_got(
                name,
                "a tensor that counts its versions",
                "one made in inference mode",
                "Use torch.no_grad() instead.",
            )
        )
    if written:
        require_own_entries(name, x)
    if written and isinstance(x, np.ndarray) and not x.flags.writeable:
        raise ValueError(
            expected_got(name, "an array that can be written", "a read-only one", "Pass a copy.")
        )


def require_own_entries(name: str, x: Array) -> None:
    """Raises if entries share memory, as after a broadcast. Under torch.func there is no layout."""
    strides = x.strides if isinstance(x, np.ndarray) else x.stride() if hasattr(x, "stride") else ()
    if 0 not in x.shape and any(s == 0 and n > 1 for s, n in zip(strides, x.shape, strict=False)):
        raise ValueError(
            expected_got(
                name,
                "memory for every entry",
                "an array with a stride of 0, whose entries share it",
                "Pass a copy.",
            )
        )


def identity(x: Array) -> Hashable:
    """Equal for arrays with the same memory and layout."""
    return (
        layout(x),
        tuple(x.shape),
        str(x.dtype),
        bool(getattr(x, "is_conj", bool)()),
        bool(getattr(x, "is_neg", bool)()),
    )


def stamp(x: Array) -> Hashable:
    """Changes when x is written to: PyTorch's version counter, else a checksum of the bits."""
    version = getattr(x, "_version", None)
    return (
        version
        if version is not None
        else tuple(
            _checksum(part) for part in ((x.real, x.imag) if x.dtype == np.complex128 else (x,))
        )
    )


def _checksum(x: Array) -> int:
    """The bits, weighted along every axis by random odd numbers: permutations are detected."""
    bits = x.view(f"u{x.dtype.itemsize}")
    for axis in reversed(range(bits.ndim)):
        bits = bits @ _weights(bits.shape[axis], axis).astype(bits.dtype)
    return int(bits)


@lru_cache(maxsize=64)
def _weights(n: int, axis: int) -> Any:
    return np.random.default_rng(axis).integers(2**63, size=n, dtype=np.uint64) * 2 + 1
