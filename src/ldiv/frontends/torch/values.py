"""Queries of tensors: type, device, and NumPy's view of their values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from ldiv.core.arrays.pytree import on_register_pytree
from ldiv.core.frameworks.looks import decided, stays_on_device
from ldiv.errors import EngineError, expected_got, shown, type_error
from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import only_shapes, recording_error, traced

HALVES = (torch.float16, torch.bfloat16)
PLAIN = (torch.Tensor, torch.nn.Parameter)  # the types of plain tensors


def owns(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def constant(x: torch.Tensor) -> torch.Tensor:
    return x.detach()


def host(x: torch.Tensor) -> bool:
    return bool(x.device.type == "cpu") and not traced(x)


def signature(x: torch.Tensor) -> Any:
    """The key of a tensor in a call, None for half precision, which is accepted only in autocast."""
    if type(x) not in PLAIN or x.is_nested or x.dtype in HALVES:
        return None
    return x.dtype, x.ndim, x.is_cpu or x.device, x.layout  # a device is slow to compare


def promoted(x: torch.Tensor) -> torch.Tensor:
    """Convert integers and booleans to double precision, which keeps them exactly, as lists are.
    Under torch.autocast convert the half precision that it makes to single precision, as
    torch.linalg does.
    """
    if not (x.is_floating_point() or x.is_complex() or x.is_quantized):
        return x.double()
    return x.float() if x.dtype in HALVES and torch.is_autocast_enabled(x.device.type) else x


def without_autocast(x: torch.Tensor) -> Any:
    """A context in which torch.autocast leaves the precision of products as it is.

    Levels of torch.func restore whether autocast is on, but not the dtype to which it casts.
    """
    return _casting_to_single(x.device.type) if is_cast(x) else nullcontext()


def is_cast(x: torch.Tensor) -> bool:
    """Whether torch.autocast rounds products of such tensors to half precision."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return False
    return torch.get_autocast_dtype(kind) != torch.float32


@contextmanager
def _casting_to_single(kind: str) -> Iterator[None]:
    before = torch.get_autocast_dtype(kind)
    torch.set_autocast_dtype(kind, torch.float32)
    try:
        yield
    finally:
        torch.set_autocast_dtype(kind, before)


def own(x: torch.Tensor) -> torch.Tensor:
    """A copy of a constant that lies in memory of somebody else, as torch.from_numpy makes it.

    Others are shared: writes to them are counted by torch, and a leaf is there to be written to,
    by optimizers. Whose the memory is stands in its storage, which torch can resize if it owns it.
    """
    if x.requires_grad or traced(x) or private.is_wrapped(x) or private.is_legacy_batch(x):
        return x  # a wrapper, without storage, among them
    return x if x.untyped_storage().resizable() else x.clone()


def copied(x: torch.Tensor, cached: dict[int, Any]) -> torch.Tensor:
    """A deep copy. The copy of a result is a leaf with the same `requires_grad`, as after pickling;
    torch's own deepcopy accepts only leaves.
    """
    if id(x) not in cached:
        cached[id(x)] = (
            copy.deepcopy(x, cached)
            if x.is_leaf
            else x.detach().clone().requires_grad_(x.requires_grad)
        )
    twin: torch.Tensor = cached[id(x)]
    return twin


# -- tensors as NumPy arrays, and back ----------------------------------------


def asnumpy(x: torch.Tensor) -> Any:
    if traced(x):
        raise recording_error()
    if _is_member(x):
        advice = "Call it outside of torch.vmap, on a batch, if it takes one."
        raise type_error("a call", "numbers that are known now", _MEMBER, advice)
    return values_of(x)


_MEMBER = "those of any member of a batch that torch.vmap maps over"


def _is_member(x: torch.Tensor) -> bool:
    """Whether x is a member of a batch that torch.func maps over, without values of its own."""
    while private.is_wrapped(x):
        if private.batch_axis(x) >= 0:
            return True
        x = private.unwrapped(x)
    return False


def innermost(x: Any) -> Any:
    """x below the levels of torch.func, with the numbers of all members."""
    while isinstance(x, torch.Tensor) and private.is_wrapped(x):
        x = private.unwrapped(x)
    return x


def host_values(x: torch.Tensor) -> Any:
    """The values as a NumPy array; None if they are on a device or not known yet."""
    return values_of(x) if x.device.type == "cpu" and not traced(x) else None


def numbers(x: torch.Tensor) -> Any:
    """The values of all members, also of those over which torch.func maps."""
    if private.is_legacy_batch(x):
        return None
    while private.is_wrapped(x):
        axis, x = private.batch_axis(x), private.unwrapped(x)
        if axis > 0:
            with private.without_transforms():
                x = x.movedim(axis, 0)
    return host_values(x)


def values_of(x: torch.Tensor) -> Any:
    """The numbers of x as a NumPy array, cut off from the graph."""
    if not private.are_transforms_active():
        return plain_values_of(x)
    # under a transform detach would wrap a plain tensor, an index say, once more
    with private.without_transforms():
        return plain_values_of(x)


def plain_values_of(x: torch.Tensor) -> Any:
    """`values_of` outside of transforms. The trap: forward mode makes zeros without memory, which
    torch converts to an array of arbitrary values.
    """
    return (x.clone() if private.is_zero(x) else x).numpy(force=True)


def as_tensor(y: Any) -> torch.Tensor:
    """Return a tensor that shares no memory with an argument."""
    return torch.from_numpy(y if type(y) is np.ndarray and y.base is None else np.array(y))


def on_host(f: Callable[..., Any], specs: Any, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if only_shapes():
        x = arrays[0]
        dtypes = (getattr(torch, np.dtype(dtype).name) for _, dtype in specs)
        return tuple(
            torch.empty(shape, dtype=dtype, device=x.device)
            for (shape, _), dtype in zip(specs, dtypes, strict=True)
        )
    if traced(arrays[0]):
        raise recording_error()
    for x in arrays:
        if not x.is_cpu:
            raise EngineError(expected_got(*_AT_HOST[:2], f"one on {x.device}", _AT_HOST[2]))
    return tuple(torch.from_numpy(np.asarray(x)) for x in f(*map(values_of, arrays)))


_AT_HOST = (
    "a function whose algorithm runs on the host",
    "an array on the cpu",
    "Pass x.cpu(), and bring the result back by .to(x.device): gradients flow through both.",
)


def host_callback(f: Callable[..., Any], *xs: torch.Tensor) -> None:
    if not (only_shapes() or stays_on_device(xs[0])):
        f(*xs)


def loop(
    going: Callable[[Any], Any], body: Callable[[Any], Any], state: Any, most: int | None = None
) -> Any:
    """Repeat the body while `going`; in a trace of shapes, which no step changes, run it once."""
    if only_shapes():
        return body(state)
    if most is not None and stays_on_device(state[0]):
        for _ in range(most):
            state = _moved(going(state), body(state), state)
        return state
    on = going(state)
    while decided(on if (is_one := not private.is_wrapped(on)) else ~every_member(~on)):
        new = body(state)
        state = new if is_one else _moved(on, new, state)
        on = going(state)
    return state


def _moved(on: torch.Tensor, new: Any, old: Any) -> Any:
    """The new state where it goes on, for a tuple of tensors."""
    found = [torch.where(on, y, x) for y, x in zip(new, old, strict=True)]
    return type(old)(*found) if hasattr(old, "_fields") else tuple(found)


def every_member(ok: Any) -> Any:
    if not isinstance(ok, torch.Tensor) or not private.is_wrapped(ok):
        return ok
    with private.without_transforms():
        return innermost(ok).all()


def standard_normal(key: Any, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """Independent normal numbers in the precision of `like`, from its generator."""
    if not isinstance(key, torch.Generator):
        raise type_error(
            "key",
            "a torch.Generator",
            shown(key),
            "Make one with torch.Generator().manual_seed(seed).",
        )
    return torch.randn(shape, generator=key, dtype=like.dtype, device=like.device)


# -- matrices are registered as pytrees: their parameters are leaves, the rest is static


def _register(cls: type, flatten: Any, unflatten: Any, packing: Any) -> None:
    def flattened(x: Any) -> tuple[list[Any], Any]:
        children, static = flatten(x)
        return list(children), static

    private.register_tree(
        cls,
        flattened,
        lambda children, static: unflatten(static, tuple(children)),
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
    )


on_register_pytree(_register)
