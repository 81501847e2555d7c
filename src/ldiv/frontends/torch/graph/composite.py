"""y = f(x), of several rules, as one node of the graph, whose checks on a device are read together.

A rule by itself is a node, and waits for its device at its end (`waiting`), in a gradient too. Here all
rules wait once in the value, and once in the gradient, which comes from a graph of the rules that the
node keeps. If the gradient is differentiated, f is evaluated again, since results of the kept graph are
constants to the graph outside. So each value must have a derivative by itself: eigenvectors alone, whose
basis a loss must not depend on, have none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import Any

import torch

from ldiv.core.policies.errstate import keeping_state
from ldiv.frontends.torch import private
from ldiv.frontends.torch.devices.waiting import in_one_wait
from ldiv.frontends.torch.recorders import traced

Function = Callable[..., Any]  # of tensors; a tensor, or a tuple of them


def as_one_node(f: Function, *xs: torch.Tensor) -> Any:
    """f(*xs) with one wait for the device; a plain call on the CPU and in a trace."""
    if xs[0].is_cpu or traced(None):
        return f(*xs)
    if (
        private.are_transforms_active()
        or private.in_forward_mode()
        or not (torch.is_grad_enabled() and any(x.requires_grad for x in xs))
        or private.top_hooks(True) is not None  # they count the tensors that rules save
    ):
        return in_one_wait(xs[0], partial(f, *xs))
    found = CompositeNode.apply(f, *xs)  # type: ignore[no-untyped-call]
    return found if len(found) > 1 else found[0]


class CompositeNode(torch.autograd.Function):
    """A node for a whole function f of tensors, evaluated with one wait; its value is a tuple."""

    @staticmethod
    def forward(ctx: Any, f: Function, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.f = keeping_state(f)
        ctx.set_materialize_grads(False)
        token = torch.empty(0)  # freed with the buffers of the graph
        graph = _graph(f, xs, ctx.needs_input_grad[1:])
        token.graph, ys = graph, graph[1]  # type: ignore[attr-defined]
        ctx.save_for_backward(token, *xs)
        values = tuple([y.detach() for y in ys])
        ctx.mark_non_differentiable(
            *(v for v, y in zip(values, ys, strict=True) if not y.requires_grad)
        )
        return values

    @staticmethod
    def backward(ctx: Any, *y_bars: torch.Tensor | None) -> Any:
        token, *xs = ctx.saved_tensors
        need = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # the new graph reaches back to the origin of the arguments
            seen = [x.view_as(x) for x in xs]
            return None, *_pulled(xs[0], lambda: (seen, _as_tuple(ctx.f(*seen))), need, y_bars)
        return None, *_pulled(xs[0], lambda: token.graph, need, y_bars)


def _graph(
    f: Function, xs: tuple[torch.Tensor, ...], need: tuple[bool, ...]
) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
    """Return detached arguments, and the values of f with their graph."""
    ins = [x.detach().requires_grad_(n) for x, n in zip(xs, need, strict=True)]
    with torch.enable_grad():
        return ins, in_one_wait(xs[0], lambda: _as_tuple(f(*ins)))


def _pulled(
    x: torch.Tensor, graph: Any, need: tuple[bool, ...], y_bars: tuple[torch.Tensor | None, ...]
) -> list[torch.Tensor | None]:
    """The cotangents of the arguments; None where none is needed."""

    def pull() -> Any:
        ins, ys = graph()
        given = [c is not None for c in y_bars]
        return torch.autograd.grad(
            [*compress(ys, given)],
            [*compress(ins, need)],
            [*compress(y_bars, given)],
            retain_graph=True,
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )

    if all(c is None for c in y_bars):
        return [None] * len(need)
    found = iter(in_one_wait(x, pull))
    return [next(found) if n else None for n in need]


def _as_tuple(y: Any) -> tuple[torch.Tensor, ...]:
    return y if isinstance(y, tuple) else (y,)
