"""Several products at once: the rows r J and the columns J d of a Jacobian, in a map over r or d.

rows        J^H r, mapped over r: a product with a sum of all r must agree, since some rules of
            torch for batches are wrong (cdist); those of the operations in `graph_nodes` are right
columns     J d = (r -> J^H r)^H d, mapped over d, where nobody differentiates the result: by the
            graph of autograd, at a third of the cost of torch.func, whose modules load for a second
check       <r, J d> = <J^H r, d> for the r at which the graph was made
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.user.agreement import Pullback, close, random_like
from ldiv.frontends.torch.user.forward_mode import agree, jvp, look
from ldiv.frontends.torch.user.repeated import Once, looking_once, once
from ldiv.frontends.torch.user.reverse_mode import is_plain, is_smooth, pullback_of, transpose, vjp
from ldiv.frontends.torch.user.transforms import vmap

CACHED = 1 << 16  # numbers; a map of more than that goes through memory at each operation
ROWS = 32  # cost less than the check of columns
FEW = 8  # tangents of forward mode that are looked at together


def prefers_rows(count: int, x: torch.Tensor) -> bool:
    """True if a Jacobian of `count` rows costs less in reverse mode in this context."""
    return count <= max(ROWS, len(x)) and is_plain((x,))


def pulled(pull: Pullback, y_bars: torch.Tensor, of: Any = None) -> tuple[torch.Tensor, ...]:
    """Apply pull to each of y_bars, and stack the results; in a map that is checked once for a
    function `of`.
    """
    found, known = _each(pull, y_bars), once(of)
    known.has_rows = known.has_rows or is_smooth(pull)
    if known.has_rows or not _are_mapped(y_bars) or traced(None) or not len(y_bars):
        return found
    first: tuple[Any, ...] = (slice(None), *[0] * (y_bars.ndim - 1))
    weights = random_like(y_bars[first].real)
    total = pull(torch.tensordot(weights.to(y_bars.dtype), y_bars, 1))
    for one, many in zip(total, found, strict=True):
        terms = (weights * many.movedim(0, -1)).movedim(-1, 0)
        if not close(terms.sum(0), one, terms.abs().sum(0) + one.abs()):
            return _one_by_one(pull, y_bars)
    known.has_rows = True
    return found


def rows(f: Callable[..., torch.Tensor], x: torch.Tensor, y_bars: torch.Tensor) -> torch.Tensor:
    """J^H y_bar for each of y_bars, by a pullback that differentiates further only where anybody may."""
    is_final = not torch.is_grad_enabled() and is_plain((x, y_bars))
    return pulled((pullback_of if is_final else vjp)(f, (x,))[1], y_bars, f)[0]


def pushed(f: Callable[..., torch.Tensor], x: torch.Tensor, dxs: torch.Tensor) -> torch.Tensor:
    """Compute J d for each d of dxs."""
    with looking_once(f) as known:
        if len(dxs) > FEW or is_plain((x,)):
            look(known, x)
        if known.by_graph and (found := _by_graph(f, x, dxs, known)) is not None:
            return found
        tangents: torch.Tensor = vmap(lambda d: jvp(f, (x,), (d,))[1], (0,))(dxs)
        return tangents


def _by_graph(
    f: Callable[..., torch.Tensor], x: torch.Tensor, dxs: torch.Tensor, known: Once
) -> torch.Tensor | None:
    """The tangents by the transpose of the graph; None unless they agree with a reverse product."""
    y, pull = pullback_of(f, (x,))
    if known.bound is None or not is_plain((x, y)):
        return None
    (r_bar,), tangent = transpose(pull, y)
    (dy,), r = _each(tangent, dxs), random_like(y)
    left, right = dy @ r, dxs @ r_bar
    scale = dy.abs() @ r.abs() + dxs.abs() @ r_bar.abs()
    return dy if agree(known, (left, right, scale), (x,), (dxs,)) else None


def _each(pull: Pullback, y_bars: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """pull of each of y_bars, in a map if they are many and small."""
    return vmap(pull, (0,))(y_bars) if _are_mapped(y_bars) else _one_by_one(pull, y_bars)


def _are_mapped(y_bars: torch.Tensor) -> bool:
    # a checkpoint, whose hooks are there, would run the caller's function again inside of the map
    is_checkpointed = private.top_hooks(True) is not None
    looped = len(y_bars) == 1 or y_bars.numel() > CACHED or is_checkpointed
    return not looped or private.are_transforms_active() or traced(None)


def _one_by_one(pull: Pullback, y_bars: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.stack, zip(*map(pull, y_bars), strict=True)))
