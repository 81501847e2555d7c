"""Functions of users: called by kernels, with a watch on what they close over, and in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ldiv.core.arrays.closures import closures_count
from ldiv.core.frameworks.trees import leaves
from ldiv.errors import LinAlgError
from ldiv.frontends.torch import private
from ldiv.frontends.torch.graph import closures


def call(f: Callable[..., torch.Tensor], p: Any, x: torch.Tensor) -> torch.Tensor:
    """Kernels see no graph; switched on for f alone, it shows what f closes over, as a watch shows
    what is above the kernel. f may write to x, and use its result again: both are copies.
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
    """Of a tensor; what else a function returns is told apart later, in words."""
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
