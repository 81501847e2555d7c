"""y = f(x), whose derivatives are computed anew in a backward pass: one node of the graph.

torch.autocast      PyTorch casts the products of a backward pass that is made inside of it,
                    those of the graph of our derivatives, too: a second derivative would keep
                    three digits. The backward pass of this node makes a graph where nothing is
                    cast, and is such a node again.
torch.func          A level asks for the graph of each derivative, and then nearly always drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ldiv.core.owners.holder import holding, owner
from ldiv.frontends.torch import private
from ldiv.frontends.torch.values import is_cast, without_autocast

Results = Sequence[torch.Tensor | None]


def outside_of_autocast(f: Callable[..., Results], *xs: torch.Tensor | None) -> Results:
    """f(*xs), whose derivatives see no autocast."""
    like = next(x for x in xs if x is not None)
    if not is_cast(like) or not torch.is_grad_enabled() or private.are_transforms_active():
        with without_autocast(like):
            return f(*xs)
    with torch.no_grad(), without_autocast(like):
        found = f(*xs)
    return recomputed(f, found, xs)


def recomputed(
    f: Callable[..., Results], found: Results, xs: Sequence[torch.Tensor | None]
) -> Results:
    """Return what was found for f(*xs), in the graph of this level; `f` runs again if that is used."""
    private.allow_one_level(private.are_transforms_active())
    try:
        made: Results = _apply(partial(_call_holding, owner(), f), tuple(found), *xs)
        return made
    finally:
        private.allow_one_level(False)


class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, f: Callable[..., Results], found: Results, *xs: torch.Tensor | None
    ) -> Results:
        ctx.f = f
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*xs)
        return found

    @staticmethod
    def backward(ctx: Any, *y_bar: torch.Tensor | None) -> Any:
        xs = ctx.saved_tensors
        need = ctx.needs_input_grad[2:]
        return None, None, *outside_of_autocast(partial(_gradients, ctx.f, need), *xs, *y_bar)


_apply: Any = super(torch.autograd.Function, Recomputed).apply


def _call_holding(keeper: Any, f: Callable[..., Results], *xs: torch.Tensor | None) -> Results:
    with holding(keeper):
        return f(*xs)


def _gradients(
    f: Callable[..., Results], need: Sequence[bool], *given: torch.Tensor | None
) -> list[torch.Tensor | None]:
    """The cotangents of the x that `need` marks, from all x and the cotangents of f(x)."""
    xs, y_bar = given[: len(need)], given[len(need) :]
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [
            x if x is None or not n else x.view_as(x) if again else x.detach().requires_grad_()
            for x, n in zip(xs, need, strict=True)
        ]
        pairs = [
            (y, c)
            for y, c in zip(f(*leaves), y_bar, strict=True)
            if y is not None and c is not None and y.requires_grad
        ]
        wanted = [x for x, n in zip(leaves, need, strict=True) if n]
        found = iter(_grad(pairs, wanted, again))
    return [next(found) if n else None for n in need]


def _grad(pairs: list[Any], wanted: list[Any], again: bool) -> Sequence[torch.Tensor | None]:
    if not pairs:
        return [None] * len(wanted)
    ys, cotangents = zip(*pairs, strict=True)
    return torch.autograd.grad(ys, wanted, cotangents, create_graph=again, allow_unused=True)
