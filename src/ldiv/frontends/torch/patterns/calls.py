"""An operation of ATen on tensors with index sets, and what holds for any: all depends on all, or
what products with unit vectors say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ldiv.frontends.index_sets import Operand, Sets, Shape, Untraceable, dense, through

aten = torch.ops.aten
UNITS = 4096  # vectors, at most


@dataclass
class Operation:
    """An operation: its arguments, the sets of those that move, by identity, and its results."""

    depends_on_x: Callable[[torch.Tensor], bool]
    op: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    moving: dict[int, Sets]
    results: Sequence[torch.Tensor]

    def sets(self, t: Any) -> Sets | None:
        return self.moving.get(id(t)) if isinstance(t, torch.Tensor) else None

    def is_constant(self, t: Any) -> bool:
        """A number that does not depend on x."""
        return not (isinstance(t, torch.Tensor) and self.depends_on_x(t))

    def operand(self, t: Any) -> Operand:
        pattern = partial(nonzero, t) if self.is_constant(t) else None
        return Operand(tuple(getattr(t, "shape", ())), self.sets(t), pattern)

    @property
    def onto(self) -> Shape:
        return tuple(self.results[0].shape)

    def again(self, replaced: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        """The operation with other tensors in place of those that have sets."""

        def other(a: Any) -> Any:
            if isinstance(a, list | tuple):
                return type(a)(map(other, a))
            return replaced(a) if self.sets(a) is not None else a

        kwargs = {name: other(a) for name, a in self.kwargs.items()}
        return self.op(*map(other, self.args), **kwargs)


def tensors_in(args: Sequence[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for a in args:
        if isinstance(a, torch.Tensor):
            found.append(a)
        elif isinstance(a, list | tuple):
            found += tensors_in(a)
    return found


def nonzero(t: Any) -> Any:
    return np.asarray(t.detach().cpu() != 0) if isinstance(t, torch.Tensor) else np.asarray(t != 0)


def all_of_all(call: Operation, first: int = 0) -> list[Sets]:
    """The sets of results that depend on all operands, from the result `first` on."""
    parts = list(call.moving.values())
    return [dense(parts, y.numel()) for y in call.results[first:]]


def by_units(call: Operation) -> list[Sets]:
    """The sets of a fixed operation that is linear in its one moving operand, found by products
    with unit vectors.
    """
    given = tensors_in([*call.args, *call.kwargs.values()])
    (t,) = [t for t in given if call.sets(t) is not None]
    if not 0 < t.numel() <= UNITS:
        raise Untraceable("too many products with unit vectors")
    base, changed = torch.zeros_like(t), []

    def results() -> list[torch.Tensor]:
        return tensors_in([call.again(lambda _: base.clone())])

    nothing = results()
    for i in range(t.numel()):
        base.view(-1)[i] = 1
        pairs = zip(results(), nothing, strict=True)
        changed.append([(y != zero).ravel().nonzero()[:, 0].cpu().numpy() for y, zero in pairs])
        base.view(-1)[i] = 0
    found = []
    for zero, to in zip(nothing, zip(*changed, strict=True), strict=True):
        source = np.repeat(np.arange(t.numel()), [len(places) for places in to])
        found.append(through(call.sets(t), np.concatenate(to), source, zero.numel()))
    return found
