"""f over a batch of torch's older kind, which few operations know, by torch.func.vmap.

It comes from torch.autograd.grad(is_grads_batched=True) and, with vectorize=True, from
torch.autograd.functional: cotangents, or tangents of the saved tensors, arrive as batched tensors
of one nesting level. Each is unwrapped to a plain tensor with a leading axis, f is mapped over that
axis, and the results are wrapped again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from ldiv.frontends.torch import private

Results = Sequence[torch.Tensor | None]


def over_legacy_batch(f: Callable[..., Results], xs: Sequence[torch.Tensor | None]) -> Results:
    """f(*xs), where some xs are batched in this way, or have tangents that are."""
    level = _legacy_level()
    if not level or private.are_transforms_active():
        return f(*xs)
    if any(map(_is_legacy, xs)):  # reverse mode: the cotangents
        plain = [_unwrapped(x, level) for x in xs]
        return [
            None if y is None else private.add_batch_axis(y.contiguous(), 0, level)
            for y in _mapped(f, plain, [*map(_is_legacy, xs)])
        ]
    # forward mode: plain tensors, each with a batch of tangents, become a batch of dual tensors
    tangents = [_tangent_of(x) for x in xs]
    if not any(map(_is_legacy, tangents)):
        return f(*xs)
    batches = [_unwrapped(t, level) for t in tangents]
    count = max(
        len(t)
        for t, given in zip(batches, tangents, strict=True)
        if t is not None and _is_legacy(given)
    )
    duals = [
        x if x is None or t is None else _repeated(x, t, count)
        for x, t in zip(xs, batches, strict=True)
    ]
    return [
        None if y is None else _once(y, level)
        for y in _mapped(f, duals, [t is not None for t in tangents])
    ]


def _legacy_level() -> int:
    """The number of active legacy batches; torch returns it only on entering a new one."""
    level = private.enter_legacy_batch() - 1
    private.leave_legacy_batch()
    return level


def _is_legacy(x: torch.Tensor | None) -> bool:
    return x is not None and private.is_legacy_batch(x)


def _unwrapped(x: torch.Tensor | None, level: int) -> torch.Tensor | None:
    """Return x with the legacy batch as its first axis."""
    return private.remove_batch_axis(x, level, 1, 0) if x is not None and _is_legacy(x) else x


def _tangent_of(x: torch.Tensor | None) -> torch.Tensor | None:
    return None if x is None or not private.in_forward_mode() else forward_ad.unpack_dual(x).tangent


def _repeated(x: torch.Tensor, tangents: torch.Tensor, count: int) -> torch.Tensor:
    """x with each of its tangents."""
    primal = forward_ad.unpack_dual(x).primal
    return forward_ad.make_dual(
        *(y.expand(count, *primal.shape).clone() for y in (primal, tangents))
    )


def _once(y: torch.Tensor, level: int) -> torch.Tensor:
    """Return one y with a batch of tangents, for a y that is equal in the whole batch."""
    primal, tangent = forward_ad.unpack_dual(y)
    return (
        primal[0]
        if tangent is None
        else forward_ad.make_dual(
            primal[0].clone(), private.add_batch_axis(tangent.contiguous(), 0, level)
        )
    )


def _mapped(
    f: Callable[..., Results], xs: Sequence[torch.Tensor | None], batched: Sequence[bool]
) -> Results:
    """torch.func.vmap of f, of which some results are None."""
    results: list[torch.Tensor | None] = []
    places: list[int] = []

    def present(*xs: torch.Tensor | None) -> tuple[Any, ...]:
        # run once, while vmap traces: which results are None does not depend on the numbers
        results[:] = f(*xs)
        places[:] = [i for i, y in enumerate(results) if y is not None]
        return tuple(results[i] for i in places)

    found = torch.func.vmap(present, tuple(0 if b else None for b in batched))(*xs)
    for i, y in zip(places, found, strict=True):
        results[i] = y
    return results
