"""A rule that calls a function of the user, under torch.func.functionalize: it neither writes nor
returns views, so it runs one level below.

torch cannot functionalize an autograd.Function, and such rules are Functions under transforms of
torch.func: functionalize goes inside of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ldiv.errors import type_error
from ldiv.frontends.torch import private


def is_functionalized() -> bool:
    """Whether functionalize is the innermost level; an error if a transform is inside of it."""
    levels = [level.key() for level in private.levels() or ()]
    if private.FUNCTIONALIZE in levels[:-1] and levels[-1] != private.FUNCTIONALIZE:
        raise type_error(
            "a transform of torch.func",
            "functionalize inside of it",
            "functionalize around it",
            "PyTorch cannot functionalize an autograd.Function: write grad(functionalize(f)), not functionalize(grad(f)).",
        )
    return levels[-1] == private.FUNCTIONALIZE


def one_level_below(
    f: Callable[[list[torch.Tensor]], tuple[torch.Tensor, ...]], xs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    interpreter = private.current_level()
    views = interpreter.functionalize_add_back_views()
    plain = private.from_functional(list(xs), reapply_views=views)
    with interpreter.lower():
        ys = f(plain)
    found: tuple[torch.Tensor, ...] = private.to_functional(ys, interpreter.level())
    return found
