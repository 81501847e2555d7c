"""The memory of a tensor: where it is, who counts the writes to it, copies of it."""

from __future__ import annotations

from typing import Any

import torch

from ldiv.core.arrays.buffers import Memory

_IN_A_GRAPH = (
    "a tensor without a graph, as shadows hold its cotangent",
    "one that requires grad",
    "Pass x.detach().",
)
_UNCOUNTED = (
    "a tensor that counts its versions",
    "one made in inference mode",
    "Use torch.no_grad() instead.",
)


def memory(x: torch.Tensor) -> Memory:
    strides = tuple(s * x.element_size() for s in x.stride())
    try:
        address = x.data_ptr()
    except RuntimeError:  # under torch.func
        address = None
    return Memory(address, strides, (x.is_conj(), x.is_neg()))


def version(x: torch.Tensor) -> int:
    return int(x._version)


def unwritable(x: torch.Tensor) -> tuple[str, str, str] | None:
    if x.requires_grad:
        return _IN_A_GRAPH
    return _UNCOUNTED if x.is_inference() else None


def graphless() -> bool:
    return torch.is_inference_mode_enabled()


def clone(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def conj(x: torch.Tensor) -> torch.Tensor:
    """The conjugate, written out, since vmap and NumPy do not read torch's lazy conjugates. The product
    with 1 writes the gradient out, too.
    """
    return (x * 1 if x.requires_grad else x).conj().resolve_conj()


def to(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return x.to(*args, **kwargs)
