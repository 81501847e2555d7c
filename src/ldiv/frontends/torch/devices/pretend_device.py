"""A pretend accelerator for PyTorch: code that runs on it runs on any device, and waits are counted.

The host reads the numbers of its tensors only by explicit copies, each of which would wait for the
queue of a true device. Copies to it that are not `non_blocking` count as waits, too, among them indices
from the host, and so do operations whose shape depends on numbers. Tensors on two devices raise, as on
a true device. It uses torch's experimental backend for Python, of which a process has one: tests that
use it run in a process of their own.

    device = install()
    with waits() as counted:
        ldiv.solve(A.to(device), b.to(device))
    counted.number, counted.largest
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ldiv.frontends.torch import private
from ldiv.frontends.torch.array_namespace import reading

NAME = "pretend"


@dataclass
class Waits:
    """The number of waits of the host for values, the largest number of values at once, and the number
    of operations that the device was asked for.
    """

    number: int = 0
    largest: int = 0
    operations: int = 0

    def add(self, size: int = 0) -> None:
        self.number += 1
        self.largest = max(self.largest, size)


_counted = Waits()
_installed: list[torch.library.Library] = []


def install() -> torch.device:
    """Install the device, of which a process has one, and return it."""
    if not _installed:
        private.set_up_device(NAME)
        library = torch.library.Library("_", "IMPL")
        library.fallback(_run, "PrivateUse1")
        _installed.append(library)
        for name in ("tensor", "asarray", "as_tensor"):  # of numbers: torch fails inside
            setattr(torch, name, partial(_made, getattr(torch, name)))
        reading.add(NAME)
        torch.Tensor.pin_memory = _pinned  # type: ignore[method-assign,assignment]
    return torch.device(NAME, 0)


def _pinned(x: torch.Tensor) -> torch.Tensor:
    """Return x as it is: its memory belongs to the host."""
    return x


def _made(make: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
    made: torch.Tensor = make(*args, **kwargs)
    return made if device is None else made.to(device)


@contextmanager
def waits() -> Iterator[Waits]:
    """Count the waits inside of the context."""
    global _counted
    outer, _counted = _counted, Waits()
    try:
        yield _counted
    finally:
        _counted = outer


class OnDevice(torch.Tensor):
    """A tensor of the device; only the device sees `numbers`."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, numbers: torch.Tensor) -> OnDevice:
        made: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=torch.device(NAME, 0),
        )
        made.numbers = numbers
        return made

    def data_ptr(self) -> int:
        """An address of the device, as buffers have there."""
        return self.numbers.data_ptr()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy")
        _counted.add(self.numel())
        return self.numbers.detach().numpy()

    @classmethod
    def __torch_dispatch__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(f, *args, **(kwargs or {}))


# Below the dispatcher the host's operations do not see what marks a tensor as a conjugate or negative.
_PHYSICAL = {"aten::_conj": torch.conj_physical, "aten::_neg_view": torch.neg}


def _numbers(x: OnDevice) -> torch.Tensor:
    """The values of x, with zeros that hold no memory written out for the host's operations."""
    return torch.zeros_like(x.numbers) if private.is_zero(x.numbers) else x.numbers


_OF_UNKNOWN_SHAPE = {"aten::nonzero", "aten::masked_select", "aten::unique_dim", "aten::_unique2"}
_BY_INDEX = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


def _waits_to_send(name: str, args: Any, kwargs: Any, own: list[OnDevice]) -> bool:
    """Whether an operation copies to the device in a way for which PyTorch waits."""
    if name in _BY_INDEX:  # masks are counted before they are indices
        given = [i for i in args[1] if i is not None]
        return any(i.dtype == torch.bool or not isinstance(i, OnDevice) for i in given)
    if name == "aten::copy_":
        target, source, *blocks = args
        waits = isinstance(target, OnDevice) and not isinstance(source, OnDevice) and source.ndim
        return bool(waits and not (blocks and blocks[0]))
    to_there = name == "aten::_to_copy" and not own and kwargs.get("device") is not None
    return bool(to_there and args[0].ndim and not kwargs.get("non_blocking"))


def _run(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation of the device by that of the host."""
    name = f._schema.name
    given = [x for x in private.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    own = [x for x in given if isinstance(x, OnDevice)]
    if any(x.is_meta for x in given):  # torch asks for a shape alone
        shapes = private.tree_map_only(OnDevice, lambda x: x.numbers.to("meta"), (args, kwargs))
        return f(*shapes[0], **shapes[1])
    moves = name in ("aten::_to_copy", "aten::copy_")
    if own and not moves and any(x.ndim for x in given if not isinstance(x, OnDevice)):
        raise RuntimeError(f"{name}: expected all tensors on one device, got {NAME}:0 and cpu")
    views = (r.alias_info is not None and not r.alias_info.is_write for r in f._schema.returns)
    _counted.operations += not any(views)
    leaves_device = (
        name == "aten::_to_copy" and torch.device(kwargs.get("device") or NAME).type == "cpu"
    ) or (name == "aten::copy_" and not isinstance(args[0], OnDevice))
    if leaves_device or name == "aten::_local_scalar_dense":
        _counted.add(own[0].numel() if own else 0)
    elif _waits_to_send(name, args, kwargs, own) or name in _OF_UNKNOWN_SHAPE:
        _counted.add()
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    numbers = {id(x): _numbers(x) for x in own}
    args, kwargs = private.tree_map_only(OnDevice, lambda x: numbers[id(x)], (args, kwargs))
    found = _PHYSICAL.get(name, f)(*args, **kwargs)
    if leaves_device:
        return found
    same = {id(numbers[id(x)]): x for x in own}  # an operation in place returns what it was given
    return private.tree_map_only(
        torch.Tensor, lambda x: same[id(x)] if id(x) in same else OnDevice(x), found
    )
