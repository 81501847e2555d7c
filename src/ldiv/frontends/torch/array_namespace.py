"""The functions of the array API standard for tensors, by which the host's numbers reach an
accelerator without a wait.

PyTorch's own copy from ordinary memory waits until all that was asked of the device before is done.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import array_api_compat.torch as compat
import array_api_compat.torch.fft as fourier
import numpy as np
import torch

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.owners.caches import emptied_by
from ldiv.frontends.torch.recorders import traced

# the devices that read page-locked memory themselves, in the order of their queue; PyTorch keeps
# that memory until they have
reading: set[str] = {"cuda"}


def namespace(x: torch.Tensor) -> Any:
    return _standard


def eye(n: int, m: int | None = None, /, *, k: int = 0, **how: Any) -> torch.Tensor:
    """The identity, made without in-place writes, which tracers of derivatives would miss."""
    if k == 0 and m in (None, n):
        return torch.diag_embed(torch.ones(n, **how))
    return asarray(np.eye(n, m, k), **how)


def where(condition: torch.Tensor, x: Any, y: Any, /) -> torch.Tensor:
    """Select elementwise, by one operation if x or y is a number, which needs no array."""
    if _fills(x, y):
        return y.masked_fill(condition, x)
    return compat.where(condition, x, y)


def take(x: torch.Tensor, indices: torch.Tensor, /, *, axis: int) -> torch.Tensor:
    """x at indices that are not negative: a search for negative ones costs twice as much."""
    return torch.index_select(x, axis, indices)


def sign(x: torch.Tensor, /) -> torch.Tensor:
    """The sign, without indexing by a mask, which vmap cannot map."""
    return torch.sgn(x) if x.is_complex() else torch.where(torch.isnan(x), x, torch.sign(x))


def _of_any_batch(transform: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A Fourier transform that takes an empty batch, which MKL refuses."""

    def transformed(x: torch.Tensor, /, **how: Any) -> torch.Tensor:
        if x.numel():
            return transform(x, **how)
        like = transform(x.new_ones([max(size, 1) for size in x.shape]), **how)
        none = tuple(slice(size if size == 0 else None) for size in x.shape)
        return like[none] + 0 * x.abs().sum()  # which is 0, and in the graph of x

    return transformed


def _fills(number: Any, array: Any) -> bool:
    """Whether `number` is a number that the dtype of `array` can hold."""
    return isinstance(array, torch.Tensor) and (
        (type(number) in (int, float) and array.is_floating_point())
        or (type(number) in (int, float, complex) and array.is_complex())
        or (type(number) is int and not array.is_complex() and array.dtype != torch.bool)
    )


def asarray(x: Any, /, *, device: Any = None, **how: Any) -> torch.Tensor:
    if device is None or isinstance(x, torch.Tensor):
        return compat.asarray(x, device=device, **how)
    return sent(compat.asarray(x, **how), device)


def sent(x: torch.Tensor, device: Any) -> torch.Tensor:
    """A tensor of the cpu, on this device."""
    kind = torch.device(device).type
    # a recorded copy would read that memory again in each replay, when others have it: torch refuses
    is_recorded = kind == "cuda" and torch.cuda.is_current_stream_capturing()
    if kind not in reading or is_recorded or type(x) is not torch.Tensor:
        return x.to(device)
    return x.pin_memory().to(device, non_blocking=True)


_standard = ModuleType(compat.__name__, compat.__doc__)
vars(_standard).update(vars(compat))
vars(_standard).update(asarray=asarray, eye=eye, where=where, sign=sign, take=take)
vars(_standard).update(moveaxis=torch.movedim)  # older maps have no rule for torch.moveaxis
vars(_standard).update(
    fft=SimpleNamespace(
        **{name: _of_any_batch(getattr(fourier, name)) for name in ("fft", "ifft", "rfft", "irfft")}
    )
)


def places(pattern: Pattern, x: torch.Tensor) -> tuple[Any, Any]:
    """The rows and columns of a pattern, kept on a device, since iterations multiply in each step."""
    if x.device.type == "cpu" or traced(x):
        return pattern.rows, pattern.cols
    rows, cols = kept_there(
        pattern, "places", lambda pattern: (pattern.rows, pattern.cols), x.device
    )
    return rows, cols


def kept_there(
    pattern: Pattern, name: str, indices: Callable[[Pattern], Any], device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Copies of indices of a pattern on a device, kept as long as the pattern lives."""
    kept = _kept.setdefault(pattern, {})
    if (name, device) not in kept:
        every = (torch.as_tensor(i, dtype=torch.int64) for i in indices(pattern))
        kept[name, device] = tuple(sent(i, device) for i in every)
    return kept[name, device]


_kept: WeakKeyDictionary[Pattern, dict[tuple[str, torch.device], Any]] = WeakKeyDictionary()
emptied_by(_kept.clear)
