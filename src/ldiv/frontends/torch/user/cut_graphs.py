"""x = x, with an error in place of a derivative that would be silently wrong.

`agreeing` is for programs that are recorded, whose numbers are not known yet; `final` for what may be
differentiated no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ldiv.core.frameworks.dispatch import check_or_raise
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.rule import Rule, Traits
from ldiv.core.rules.unchanged import Unchanged
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.frontends.torch.graph.operator import bind
from ldiv.frontends.torch.user.agreement import (
    Pullback,
    Values,
    as_tuple,
    near,
    products,
    random_like,
)


def agreeing(pull: Pullback, y: Values, dy: Values, dxs: Sequence[torch.Tensor]) -> Values:
    """Return dy; when the recorded program runs, raise unless dy agrees with reverse products."""
    left, right, scale = products(pull, y, tuple(map(random_like, as_tuple(y))), dy, dxs)
    found = tuple(bind(Agreeing(d.ndim), [d, left, right, scale])[0] for d in as_tuple(dy))
    return found if isinstance(dy, tuple) else found[0]


@dataclass(frozen=True)
class Agreeing(Unchanged):
    """Arguments dy, with its number of axes, and both products with the size of their terms."""

    ndim: int

    traits = Traits(may_overflow=True, is_condition=True)

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.ndim, 0, 0, 0)

    def kernel(self, *args: Tree) -> tuple[torch.Tensor, ...]:
        dy, left, right, scale = args
        bound = torch.finfo(scale.dtype).eps ** 0.5 * scale
        check_or_raise(near(left, right, bound).all(), cut)
        return (dy + 0,)


def final(
    x_bars: tuple[torch.Tensor, ...], beside: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """Return x_bars, whose derivative in `beside` raises an error."""
    ndims = tuple(t.ndim for t in (*x_bars, *beside))
    return bind(Final(ndims, len(x_bars)), [*x_bars, *beside])


@dataclass(frozen=True)
class Final(Rule):
    """Arguments x and the tensors from which x was made without a graph; output x."""

    ndims: tuple[int, ...]
    count: int

    traits = Traits(may_overflow=True)

    @property
    def core(self) -> tuple[Tree, ...]:
        return self.ndims

    def kernel(self, *args: Tree) -> tuple[torch.Tensor, ...]:
        return tuple(x + 0 for x in args[: self.count])

    def jvp(self, *_: Any) -> tuple[torch.Tensor | None, ...]:
        raise cut()

    def vjp(self, *_: Any) -> tuple[Tree, ...]:
        raise cut()


def cut() -> NotDifferentiableError:
    return NotDifferentiableError(
        expected_got(
            "the derivative of a derivative of your function",
            "backward passes that PyTorch can differentiate",
            "one that it cannot, so that zero would be taken for its derivative",
            "Leave once_differentiable, no_grad and detach out of it.",
        )
    )
