"""Calls of users' functions by kernels, with a watch on their closures, and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from ldiv.core.arrays.closures import closures_count
from ldiv.core.frameworks.trees import leaves
from ldiv.errors import LinAlgError
from ldiv.frontends.torch import private
from ldiv.frontends.torch.graph import closures


def call(f: Callable[..., torch.Tensor], p: Any, x: torch.Tensor) -> torch.Tensor:
    """f(p, x) with an error if f closes over a differentiated tensor. The graph is enabled for f
    alone, which shows such tensors; the watch shows those of levels above the kernel. Both x and the
    result are copies, since f may write to x and reuse its result.
    """
    x = x.clone()
    watch: Any = closures_count()
    if watch is None or watch is False:
        return _copy(f(p, x))
    with torch.enable_grad(), watch:
        y = f(p, x)
    if getattr(y, "requires_grad", False) and not any(t.requires_grad for t in leaves((p, x))):
        raise closures.closed_over()
    return _copy(y)


def _copy(y: Any) -> Any:
    """Clone a tensor; other values of a user's function are refused later, with an error."""
    return y.clone() if isinstance(y, torch.Tensor) else y


def vmap(f: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """torch.func.vmap, or one by one where it lacks a rule, as for sparse matrices."""

    def mapped(*xs: torch.Tensor) -> Any:
        try:
            return torch.func.vmap(f, axes)(*xs)
        except (RuntimeError, TypeError) as error:
            count = next(len(x) for x, a in zip(xs, axes, strict=True) if a == 0)
            said = error.__cause__ if isinstance(error, TypeError) else error
            is_of_torch = isinstance(said, RuntimeError) and not isinstance(said, LinAlgError)
            if not count or not is_of_torch or "randomness" in str(said):
                raise
        each = [x.unbind() if a == 0 else [x] * count for x, a in zip(xs, axes, strict=True)]
        found = [f(*args) for args in zip(*each, strict=True)]
        return private.tree_map(lambda *ys: torch.stack(ys), *found)

    return mapped


def members(
    f: Callable[..., tuple[torch.Tensor, ...]], xs: Sequence[torch.Tensor], most: int
) -> tuple[torch.Tensor, ...]:
    """Return f of each member, `most` of them at a time. Where torch cannot map f, or f refuses a
    member, each is computed alone, which decides.
    """
    if most > 1 and len(xs[0]) > 1:
        with suppress(Exception):
            return torch.func.vmap(f, chunk_size=most)(*xs)
    found = [f(*one) for one in zip(*xs, strict=True)]
    return tuple(map(torch.stack, zip(*found, strict=True)))
