"""A rule under torch.func.functionalize: it neither writes nor returns views, so it runs one level
below.

torch cannot functionalize an autograd.Function, and functions under transforms of torch.func are
such: functionalize goes inside of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch._C import _functorch
from torch._functorch.eager_transforms import (
    _unwrap_all_tensors_from_functional,
    _wrap_all_tensors_to_functional,
)
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

from ldiv.core.trees import Array
from ldiv.errors import expected_got

FUNCTIONALIZE = _functorch.TransformType.Functionalize


def is_functionalized() -> bool:
    """Whether what is computed now is; an error where a transform is inside."""
    levels = [level.key() for level in _functorch.get_interpreter_stack() or ()]
    if FUNCTIONALIZE in levels[:-1] and levels[-1] != FUNCTIONALIZE:
        raise TypeError(
            expected_got(
                "a transform of torch.func",
                "functionalize inside of it",
                "functionalize around it",
                "PyTorch cannot functionalize what it is made of: write grad(functionalize(f)), not functionalize(grad(f)).",
            )
        )
    return levels[-1] == FUNCTIONALIZE


def one_level_below(
    f: Callable[[list[Array]], tuple[Array, ...]], xs: Sequence[Array]
) -> tuple[Array, ...]:
    interpreter = retrieve_current_functorch_interpreter()
    views = interpreter.functionalize_add_back_views()  # type: ignore[attr-defined]
    plain = _unwrap_all_tensors_from_functional(list(xs), reapply_views=views)
    with interpreter.lower():
        ys = f(plain)
    found: tuple[Array, ...] = _wrap_all_tensors_to_functional(ys, interpreter.level())
    return found
