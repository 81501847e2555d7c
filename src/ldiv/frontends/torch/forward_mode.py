"""dy = J dx, if a reverse product agrees with it (`agreement`), or OnlyReverse.

By torch.func.jvp, unless dy is differentiated once more: formulas of forward mode take for constants
what they should not (torch.linalg.solve, det; the jvp of an autograd.Function). Else, and where an
operator has no formula, by the transpose of reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ldiv.core.pushforward import ROWS, OnlyReverse
from ldiv.errors import LinAlgError
from ldiv.frontends.torch import private
from ldiv.frontends.torch.agreement import (
    Pullback,
    Values,
    agreeing,
    agrees,
    agrees_to_rounding,
    as_tuple,
    moved,
)
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.reverse_mode import beside, is_differentiated, pullback_of, transposed
from ldiv.frontends.torch.twice import Twice


def jvp(
    f: Callable[..., Any], xs: tuple[torch.Tensor, ...], dxs: tuple[torch.Tensor, ...]
) -> tuple[Any, Any]:
    twice = Twice()
    with twice.inside():
        y, pull = pullback_of(f, xs)
    further = traced(None) or is_differentiated(xs, dxs, as_tuple(y))

    def forward_beside() -> tuple[Pullback, Values, Values | None]:
        there = moved(xs)
        y, pull = pullback_of(f, there)
        return pull, y, _forward(f, there, dxs)

    with twice.inside():
        forward = None if further else _forward(f, xs, dxs)
    if agrees_to_rounding(pull, y, forward, dxs, forward_beside):
        return y, forward
    dy, there = transposed(pull, y, dxs), partial(beside, f, xs, dxs)
    if traced(None) and dy is not None:
        return y, agreeing(pull, y, dy, dxs)
    if not agrees_to_rounding(pull, y, dy, dxs, there):
        few = sum(v.numel() for v in as_tuple(y)) <= ROWS
        if few and not further:  # rows of J cost as much as to look closer
            raise OnlyReverse
        if agrees(pull, y, forward, dxs, forward_beside):
            return y, forward
        if not agrees(pull, y, dy, dxs, there):
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
