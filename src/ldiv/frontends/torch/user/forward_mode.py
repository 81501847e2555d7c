"""dy = J dx, if a reverse product agrees with it (`agreement`), or OnlyReverse.

By the transpose of reverse mode, if the graph of autograd serves, or if dy is differentiated once more.
Formulas of forward mode take for constants what they should not (torch.linalg.solve, det; the jvp of an
autograd.Function). Inside of transforms by torch.func.jvp. Each takes over where the other fails.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from ldiv.core.rules.pushforward import ROWS, OnlyReverse
from ldiv.errors import LinAlgError
from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.user.agreement import (
    Bound,
    Linear,
    Tangent,
    Tensors,
    Values,
    as_tuple,
    close,
    farthest_off,
    products,
    random_like,
    to_half,
    to_rounding,
)
from ldiv.frontends.torch.user.cut_graphs import agreeing
from ldiv.frontends.torch.user.repeated import GraphChecks, Once, once
from ldiv.frontends.torch.user.reverse_mode import (
    is_differentiated,
    is_smooth,
    pullback_of,
    transposed_tangents,
)


def look(known: Once, *xs: torch.Tensor) -> None:
    """Check the tangents of a function at xs along one direction, which costs a few products; then,
    where many are asked for together, one reverse product is enough.
    """
    if not (known.bound or traced(None) or is_differentiated(xs)):
        with suppress(OnlyReverse):
            _look(known, xs, tuple(random_like(x, 1) for x in xs))


def _look(known: Once, xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]) -> None:
    known.bound = None
    *_, known.bound, known.by_graph = _checked_tangent(known.f, xs, dxs)


def jvp(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]
) -> tuple[Any, Any]:
    known = once(f)
    if known.bound and not (known.by_graph or is_differentiated(xs, dxs)):
        with suppress(RuntimeError), GraphChecks(is_enough=True).inside():
            y, forward = torch.func.jvp(f, xs, dxs)[:2]
            if known.is_right or agree(known, _products(f, xs, dxs, forward), xs, dxs):
                known.is_right |= any(map(private.is_wrapped, dxs))  # not where it is one of many
                return y, forward
    return _checked_tangent(f, xs, dxs)[:2]


def _checked_tangent(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]
) -> tuple[Any, Any, Bound | None, bool]:
    """(y, dy, the bound within which the way agrees that may be taken again, whether it is the graph)."""
    graph_checks = GraphChecks()
    with graph_checks.inside():
        y, pull = pullback_of(f, xs)
    further = traced(None) or is_differentiated(xs, dxs, as_tuple(y))
    by_reverse = None
    if not (further or private.are_transforms_active()):
        (by_reverse,) = transposed_tangents(f, xs, y, pull, [dxs])
        is_certain = is_smooth(pull) and by_reverse.dy is not None
        if is_certain or by_reverse.agrees_to_rounding():
            return y, by_reverse.dy, to_rounding if graph_checks.are_whole else None, True

    def forward_at(there: tuple[torch.Tensor, ...]) -> Linear:
        y, pull = pullback_of(f, there)
        return pull, y, partial(_forward, f, there)

    with graph_checks.inside():
        forward = None if further else _forward(f, xs, dxs)
    by_forward = Tangent(pull, y, forward, xs, dxs, forward_at)
    if by_forward.agrees_to_rounding():
        return y, forward, to_rounding if graph_checks.are_whole else None, False
    disagrees = by_reverse
    by_reverse = by_reverse or next(transposed_tangents(f, xs, y, pull, [dxs]))
    dy = by_reverse.dy
    if traced(None) and dy is not None:
        return y, agreeing(pull, y, dy, dxs), None, False
    if disagrees or not by_reverse.agrees_to_rounding():
        few = sum(v.numel() for v in as_tuple(y)) <= ROWS
        if few and not further:  # rows of J cost as much as to look closer
            raise OnlyReverse
        if by_forward.agrees():
            return y, forward, to_half if graph_checks.are_whole else None, False
        if not by_reverse.agrees():
            raise OnlyReverse
    return y, dy if further else private.tree_map(torch.Tensor.detach, dy), None, False


def _products(
    f: Callable[..., Any], xs: Tensors, dxs: Tensors, dy: Values
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One reverse product, and those of tangents, which `agree` compares."""
    y, pull = pullback_of(f, xs)
    return products(pull, y, tuple(map(random_like, as_tuple(y))), dy, dxs)


def agree(
    known: Once, found: tuple[torch.Tensor, torch.Tensor, torch.Tensor], xs: Tensors, dxs: Tensors
) -> bool:
    """Whether one reverse product agrees with all tangents of a batch along dxs.

    A check along one direction may find less rounding than a batch of tangents has. Then the tangent
    that is farthest off is checked by itself, which costs a few products. If it is right, the
    difference is rounding, and half of the digits are enough for this batch and for later ones.
    """
    if known.bound is None or close(*found, known.bound):
        return known.bound is not None
    farthest = farthest_off(*found, xs, dxs) if known.bound is to_rounding else None
    if farthest is not None:
        with suppress(OnlyReverse):
            _look(known, xs, farthest)
        if known.bound is not None and close(*found, to_half):
            known.bound = to_half
            return True
    return False


def _forward(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]
) -> Values | None:
    """Return the tangent by forward mode; None if torch raises since it has no formula."""
    try:
        dy: Values = torch.func.jvp(f, xs, dxs)[1]
    except RuntimeError as error:
        if isinstance(error, LinAlgError):
            raise
        return None
    return dy
