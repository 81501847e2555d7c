"""dy = J dx, if a reverse product agrees with it (`agreement`), or OnlyReverse.

By torch.func.jvp, unless dy is differentiated once more: formulas of forward mode take for constants
what they should not (torch.linalg.solve, det; the jvp of an autograd.Function). Else, and where an
operator has no formula, by the transpose of reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from ldiv.core.pushforward import ROWS, OnlyReverse
from ldiv.errors import LinAlgError
from ldiv.frontends.torch import private
from ldiv.frontends.torch.agreement import Found, Tangent, Values, as_tuple
from ldiv.frontends.torch.cut_graphs import agreeing
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.reverse_mode import is_differentiated, pullback_of, transposed_tangent
from ldiv.frontends.torch.twice import Twice, once


def jvp(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]
) -> tuple[Any, Any]:
    known = once(f)
    if known.is_forward_right and not is_differentiated(xs, dxs):
        with suppress(RuntimeError):
            y, forward = torch.func.jvp(f, xs, dxs)[:2]
            return y, forward
    twice = Twice()
    with twice.inside():
        y, pull = pullback_of(f, xs)
    further = traced(None) or is_differentiated(xs, dxs, as_tuple(y))

    def forward_at(there: tuple[torch.Tensor, ...]) -> Found:
        y, pull = pullback_of(f, there)
        return pull, y, _forward(f, there, dxs)

    with twice.inside():
        forward = None if further else _forward(f, xs, dxs)
    by_forward = Tangent(pull, y, forward, xs, dxs, forward_at)
    if by_forward.agrees_to_rounding():
        known.is_forward_right = not traced(None)
        return y, forward
    by_reverse = transposed_tangent(f, xs, dxs, y, pull)
    dy = by_reverse.dy
    if traced(None) and dy is not None:
        return y, agreeing(pull, y, dy, dxs)
    if not by_reverse.agrees_to_rounding():
        few = sum(v.numel() for v in as_tuple(y)) <= ROWS
        if few and not further:  # rows of J cost as much as to look closer
            raise OnlyReverse
        if by_forward.agrees():
            return y, forward
        if not by_reverse.agrees():
            raise OnlyReverse
    return y, dy if further else private.tree_map(torch.Tensor.detach, dy)


def _forward(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]
) -> Values | None:
    """None where torch says that it cannot."""
    try:
        dy: Values = torch.func.jvp(f, xs, dxs)[1]
    except RuntimeError as error:
        if isinstance(error, LinAlgError):
            raise
        return None
    return dy
