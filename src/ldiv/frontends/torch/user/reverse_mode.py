"""x_bar = J^H y_bar, by torch.func, or by the graph of autograd; and dy = J dx, its transpose.

A backward pass may cut the graph (once_differentiable, no_grad, detach, NumPy). To torch its
cotangents are constants then; here a derivative of them is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from typing import Any

import torch

from ldiv.core.arrays.closures import closures_count
from ldiv.core.cached_property import cached_property
from ldiv.errors import LinAlgError, type_error
from ldiv.frontends.torch import private
from ldiv.frontends.torch.graph import closures
from ldiv.frontends.torch.recorders import recording_error, traced
from ldiv.frontends.torch.user.agreement import (
    Linear,
    Pullback,
    Pushforward,
    Tangent,
    Values,
    as_tuple,
    of_like_size,
    random_like,
)
from ldiv.frontends.torch.user.cut_graphs import final
from ldiv.frontends.torch.user.graph_nodes import are_smooth, has_other_leaves, hook_handles
from ldiv.frontends.torch.user.hooks import without_hooks
from ldiv.frontends.torch.user.repeated import Once, are_whole, inside_of, once

DIFFERENTIATING = (private.GRAD, private.JVP)


def vjp(
    f: Callable[..., Any],
    xs: tuple[torch.Tensor, ...],
    whole: list[bool] | None = None,
    has_aux: bool = False,
) -> Any:
    """y = f(*xs) and its pullback, whose results may be differentiated, or say that they may not."""
    y, pull, *aux = pullback_of(f, xs, has_aux)
    given = (*as_tuple(y), *xs)
    if whole is None:
        whole = []
    alone = (lambda *xs: f(*xs)[0]) if has_aux else f

    def pullback(y_bar: Any) -> tuple[torch.Tensor, ...]:
        x_bars = pull(y_bar)
        if traced(None) or not is_differentiated(x_bars, given):
            return x_bars
        if not whole:
            tangents = transposed_tangents(alone, xs, y, pull, _directions(xs, x_bars))
            seen = is_smooth(pull) or are_whole(lambda: all(t.agrees() for t in tangents))
            whole.append(seen)
        return x_bars if whole[0] else final(x_bars, given)

    return y, pullback, *aux


def _directions(
    xs: tuple[torch.Tensor, ...], x_bars: tuple[torch.Tensor, ...]
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield a direction for each group of entries of x with cotangents of like size."""
    dxs = [random_like(x, 1) for x in xs]
    for alike in of_like_size(x_bars, [x.ndim for x in xs]):
        yield tuple(d * a for d, a in zip(dxs, alike, strict=True))


def pullback_of(f: Callable[..., Any], xs: tuple[torch.Tensor, ...], has_aux: bool = False) -> Any:
    """Return y = f(*xs) and its pullback; with `has_aux` f returns (y, aux), and aux is returned third.

    The graph of autograd gives them at a third of the cost of torch.func, without its modules (a second
    of loading). It takes what torch.func cannot differentiate: an autograd.Function without
    setup_context, a sparse matrix, torch.utils.checkpoint. The module torch.func gives them under its
    transforms, in forward mode, and where a program is recorded.
    """
    # neither can record the results of torch.func
    if torch.compiler.is_exporting() or private.tracing_state() is not None:
        raise recording_error()
    closures.look(f, xs)
    if not _is_nested() and not _is_in_a_tangent(xs):
        if not torch.is_grad_enabled() and (found := _kept(known := once(f), xs[0])) is not None:
            known.kept = (
                None  # the caller owns the graph, which is freed before the next factorization
            )
            return found
        with inside_of(f):
            if (found := _by_graph(f, xs, has_aux)) is not None:
                return found
    try:
        with without_hooks():
            y, pull, *aux = torch.func.vjp(f, *xs, has_aux=has_aux)
    except RuntimeError as error:
        if isinstance(error, LinAlgError):
            raise
        if "escaped" in str(error):  # a level of torch.func outside of this kernel
            raise closures.closed_over() from error
        for said, sentence in _REFUSALS.items():
            if said in str(error):
                raise type_error(*sentence) from error
        raise

    def pullback(y_bar: Any) -> tuple[torch.Tensor, ...]:
        with without_hooks():
            return pull(y_bar)

    return y, pullback, *aux


def value(f: Callable[..., Any], x: torch.Tensor, is_closed: bool) -> torch.Tensor | None:
    """f(x), whose pullback is kept in `looking_once`; None where the graph gives none, or on a device,
    where it waits to compare x. `is_closed`: or where f may close over what requires grad.
    """
    if isinstance(closures_count(), closures.Watch) or _is_nested() or not x.is_cpu:
        return None
    if (found := _kept(known := once(f), x)) is None:
        known.kept = None  # one graph at a time
        with inside_of(f):
            if (found := _by_graph(f, (x,), False, is_closed)) is None:
                return None
        known.kept = x, found
    y: torch.Tensor = found[0]
    return y


def _kept(known: Once, x: torch.Tensor) -> Any:
    """Return the value at x and its pullback from the cache, if they are there."""
    return known.kept[1] if known.kept is not None and torch.equal(known.kept[0], x) else None


def transpose(pull: Pullback, y: Values) -> tuple[Values, Pullback]:
    """J^H r and the map dx -> J dx, the VJP of r -> J^H r, at a random r: it is linear, but not each of
    its operations is smooth at zero.
    """
    several, random = isinstance(y, tuple), tuple(map(random_like, as_tuple(y)))
    with torch.no_grad() if is_plain(as_tuple(y)) else nullcontext():
        return pullback_of(lambda *r: pull(r if several else r[0]), random)


def transposed(pull: Pullback, y: Values) -> Pushforward:
    """The map dx -> J dx, by the transpose of J^H; None where torch says that it cannot."""
    map_of = cache(lambda: transpose(pull, y)[1])

    def push(dxs: tuple[torch.Tensor, ...]) -> Values | None:
        try:
            dy = map_of()(dxs)
        except RuntimeError as error:
            if isinstance(error, LinAlgError):
                raise
            return None
        return dy if isinstance(y, tuple) else dy[0]

    return push


def transposed_tangents(
    f: Callable[..., Any],
    xs: tuple[torch.Tensor, ...],
    y: Values,
    pull: Pullback,
    directions: Iterable[tuple[torch.Tensor, ...]],
) -> Iterator[Tangent]:
    """The tangents that `transposed` finds, with what shows whether they agree."""

    def at(there: tuple[torch.Tensor, ...]) -> Linear:
        y, pull = pullback_of(f, there)
        return pull, y, transposed(pull, y)

    push = transposed(pull, y)
    beside: dict[tuple[float, int], Linear] = {}
    for dxs in directions:
        yield Tangent(pull, y, push(dxs), xs, dxs, at, beside)


# -- the graph of autograd ----------------------------------------------------------


@dataclass(eq=False)
class GraphPullback:
    """The pullback of ys, with its graph. `moving`: which of ys have one. `grows`: results may be
    differentiated in other tensors than y_bar. `handles`: those of hooks before ys were computed.
    """

    xs: tuple[torch.Tensor, ...]
    ins: list[torch.Tensor]
    ys: tuple[torch.Tensor, ...]
    moving: list[bool]
    grows: bool
    handles: int
    later: int = field(default_factory=hook_handles)

    def __call__(self, y_bar: Any) -> tuple[torch.Tensor, ...]:
        ys, y_bars = ([*compress(vs, self.moving)] for vs in (self.ys, as_tuple(y_bar)))
        further = torch.is_grad_enabled() and (self.grows or any(c.requires_grad for c in y_bars))
        options = {"allow_unreachable": True, "accumulate_grad": False}
        with _recording() if torch.is_inference_mode_enabled() else nullcontext():
            found = [None] * len(self.ins)
            if ys:  # keeping the graph, and growing one of the results if they are differentiated
                bars, ins = tuple(map(_plain, y_bars)), tuple(self.ins)
                found = private.run_backward(tuple(ys), bars, True, further, ins, **options)
        return tuple(
            torch.zeros_like(x) if x_bar is None else x_bar
            for x, x_bar in zip(self.xs, found, strict=True)
        )

    @cached_property
    def is_smooth(self) -> bool:
        """True if nothing is in the graph that might cut it: no function or hook of a user."""
        return self.later == self.handles and are_smooth(self.ys, self.ins)


def is_smooth(pull: Pullback) -> bool:
    """True if the derivatives of this pullback need no check."""
    return isinstance(pull, GraphPullback) and pull.is_smooth


def _by_graph(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], has_aux: bool, is_closed: bool = False
) -> Any | None:
    """The pullback by the graph; None if values of f are not floating: torch.func explains the error.
    `is_closed`: None, too, if the graph has leaves beside xs.
    """
    grows, handles = torch.is_grad_enabled(), hook_handles()
    with _recording() if torch.is_inference_mode_enabled() else torch.enable_grad():
        ins = [
            x.view_as(x) if grows and x.requires_grad else _plain(x).detach().requires_grad_()
            for x in xs
        ]
        try:
            y = f(*(x.clone() for x in ins))
        except RuntimeError as error:
            if "Inference tensors" in str(error):
                raise type_error(*_INFERENCE) from error
            raise
    y, *aux = y if has_aux else (y,)
    if not all(isinstance(v, torch.Tensor) and _is_inexact(v) for v in as_tuple(y)):
        return None
    if is_closed and has_other_leaves(as_tuple(y), ins):
        return None
    moving = [v.requires_grad for v in as_tuple(y)]
    grows = grows and (any(x.requires_grad for x in xs) or has_other_leaves(as_tuple(y), ins))
    pullback = GraphPullback(xs, ins, as_tuple(y), moving, grows, handles)
    plain = tuple(v if grows else v.detach() for v in as_tuple(y))
    found = plain if isinstance(y, tuple) else plain[0]
    return found, pullback, *(a if grows else a.detach() for a in aux)


def _is_inexact(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


@contextmanager
def _recording() -> Iterator[None]:
    """Enable the graph in inference mode, which records none, whatever is enabled in it, and whose
    gradients are zeros. Where it is off, this would enable forward mode and the threads of backward passes.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _plain(x: torch.Tensor) -> torch.Tensor:
    """Return x, cloned if inference mode made it, so that it may be in a graph."""
    return x.clone() if x.is_inference() else x


_INFERENCE = (
    "a derivative of your function",
    "one that PyTorch can record",
    "one that closes over tensors made under torch.inference_mode()",
    "Make them, or clone them, outside of it; torch.no_grad() is for what is differentiated here.",
)
# texts of torch's errors, and the errors of ldiv for them
_REFUSALS = {
    "saved tensor hooks": (
        "a derivative of your function",
        "torch.func, which makes it, to be possible here",
        "saved tensor hooks, as of torch.utils.checkpoint with use_reentrant=False",
        "Leave them out of this function.",
    ),
    "must be floating-point": (
        "f",
        "a function with floating values alone",
        "one with integers or truth values",
        "PyTorch differentiates no others: leave them out.",
    ),
}


# -- where ------------------------------------------------------------------------


def is_plain(tensors: tuple[torch.Tensor, ...]) -> bool:
    """True if nothing differentiates, maps or records computations with these tensors: kernels run
    with forward mode switched off.
    """
    return not (private.are_transforms_active() or traced(None) or is_differentiated(tensors))


def _is_in_a_tangent(xs: tuple[torch.Tensor, ...]) -> bool:
    """Whether torch may be at work on a device in forward mode, in a thread of its own: a graph that is run
    in there while forward mode is switched off ends the process.
    """
    return private.in_forward_mode() and not all(x.is_cpu for x in xs)


def _is_nested() -> bool:
    """Whether a transform of torch.func, forward mode, or what records a program is at work."""
    if private.are_transforms_active() or traced(None):
        return True
    return private.in_forward_mode() and private.is_forward_mode_enabled()


def is_differentiated(*tensors: tuple[torch.Tensor, ...]) -> bool:
    """True if results of these tensors may be differentiated; inside of a kernel torch has no
    tangents.
    """
    if private.in_forward_mode() and private.is_forward_mode_enabled():
        return True
    if private.are_transforms_active():
        levels = private.levels() or ()
        if any(level.key() in DIFFERENTIATING for level in levels):
            return True
    return torch.is_grad_enabled() and any(x.requires_grad for some in tensors for x in some)
