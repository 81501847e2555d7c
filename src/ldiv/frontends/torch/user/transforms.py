"""Calls of users' functions by kernels, with a watch on their closures, and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from ldiv.core.arrays.closures import closures_count
from ldiv.core.frameworks.dispatch import each_output
from ldiv.core.frameworks.trees import leaves
from ldiv.errors import LinAlgError
from ldiv.frontends.torch import private
from ldiv.frontends.torch.graph import closures
from ldiv.frontends.torch.recorders import unobserved
from ldiv.frontends.torch.user.reverse_mode import value
from ldiv.frontends.torch.values import PLAIN, plain_values_of

FEW = 64


def call(f: Callable[..., torch.Tensor], p: Any, x: torch.Tensor, of: Any = None) -> torch.Tensor:
    """f(p, x) with an error if f closes over a differentiated tensor. The graph is enabled for f
    alone, which shows such tensors; the watch shows those of levels above the kernel. Both x and the
    result are copies, since f may write to x and reuse its result. The graph of `of` at x is kept.
    """
    watch: Any = closures_count()
    counts = watch is not None and watch is not False
    if of is not None and (kept := value(of, x, counts and _is_constant((p, x)))) is not None:
        return _copy(kept)
    x = x.clone()
    if not counts:
        return _copy(f(p, x))
    with torch.enable_grad(), watch:
        y = f(p, x)
    if getattr(y, "requires_grad", False) and _is_constant((p, x)):
        raise closures.closed_over()
    return _copy(y)


def _is_constant(xs: Any) -> bool:
    """Whether none of these requires grad."""
    return not any(t.requires_grad for t in leaves(xs))


def few(x: torch.Tensor) -> Any:
    """x as a NumPy array, whose scalars cost a tenth of tensors, with the functions to tensors and back.

    None unless it is few numbers in the memory of this process, and nothing looks at operations on tensors.
    """
    is_small = x.is_cpu and type(x) in PLAIN and 0 < x.numel() <= FEW
    is_seen = private.are_transforms_active() or not unobserved()
    return (
        (plain_values_of(x), torch.from_numpy, plain_values_of)
        if is_small and not is_seen
        else None
    )


def _copy(y: Any) -> Any:
    """Clone a tensor; other values of a user's function are refused later, with an error."""
    return y.clone() if isinstance(y, torch.Tensor) else y


def vmap(f: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """f over leading axes by torch.func, or one by one where it lacks a rule, as for sparse matrices."""

    def mapped(*xs: torch.Tensor) -> Any:
        count = next(len(x) for x, a in zip(xs, axes, strict=True) if a == 0)
        try:
            return _mapped(f, count, axes, xs)
        except (RuntimeError, TypeError) as error:
            said = error.__cause__ if isinstance(error, TypeError) else error
            is_of_torch = isinstance(said, RuntimeError) and not isinstance(said, LinAlgError)
            if not count or not is_of_torch or "randomness" in str(said):
                raise
        each = [x.unbind() if a == 0 else [x] * count for x, a in zip(xs, axes, strict=True)]
        found = [f(*args) for args in zip(*each, strict=True)]
        if isinstance(found[0], tuple):
            return tuple(map(torch.stack, zip(*found, strict=True)))
        return torch.stack(found)

    return mapped


def _mapped(
    f: Callable[..., Any], count: int, axes: tuple[int | None, ...], xs: Sequence[torch.Tensor]
) -> Any:
    """torch.func.vmap(f, axes)(*xs), at a third of its cost for few numbers."""
    private.load_rules_of_maps()
    level = private.enter_map(count, "error")
    try:
        given = [
            x if a is None else private.add_mapped_axis(x, a, level)
            for x, a in zip(xs, axes, strict=True)
        ]
        return each_output(lambda y: private.remove_mapped_axis(y, level, count, 0), f(*given))
    finally:
        private.leave_map()


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
