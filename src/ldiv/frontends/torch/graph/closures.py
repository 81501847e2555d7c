"""Detection of differentiated tensors in the closure of a user's function, while a kernel calls it.

Under torch.func and in forward mode a kernel runs below the levels that differentiate: there a
tensor of such a level counts as a constant, and its derivative would be a silent zero. The
operations of the function still show these tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import ref

import torch
from torch.overrides import TorchFunctionMode

from ldiv.core.arrays.closures import closures_count
from ldiv.errors import value_error
from ldiv.frontends.torch import private

# operations from which no derivative is expected
_CONSTANT = {
    torch.Tensor.detach,
    torch.detach,
    torch.Tensor.data.__get__,  # type: ignore[attr-defined]
    torch.zeros_like,
    torch.ones_like,
    torch.empty_like,
    torch.full_like,
    torch.Tensor.new_zeros,
    torch.Tensor.new_ones,
    torch.Tensor.new_empty,
    torch.Tensor.new_full,
    torch.Tensor.new_tensor,
}


def closed_over() -> ValueError:
    """Return the error for such a closure."""
    return value_error(
        "a function of yours",
        "all differentiated or mapped tensors among its arguments",
        "a closure over such a tensor (it requires grad, or comes from torch.func)",
        "Pass the tensor in `params`, through which gradients flow, or detach it where the function closes over it.",
    )


def watch() -> Any:
    """The context in which a kernel called from here calls functions of users; None if no
    derivative is possible. The outermost context sees most levels.
    """
    if isinstance(set_above := closures_count(), Watch):
        return set_above
    if private.are_transforms_active() or private.in_forward_mode():
        return Watch(_levels())
    return set_above or (_GRAPH if torch.is_grad_enabled() else None)


_GRAPH = nullcontext()  # the graph of the result shows it


class Watch(TorchFunctionMode):
    """A context in which an operation on a tensor that is differentiated above the kernel raises.

    levels: the levels of torch.func at the call of the rule, outermost first; the kernel has none.
    """

    def __init__(self, levels: Sequence[Any]) -> None:
        super().__init__()
        self._levels = levels
        self._constants: dict[int, ref[torch.Tensor]] = {}  # a check of one tensor costs 5 us

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = args, kwargs or {}
        try:
            y = func(*args, **given[1])
        except RuntimeError:  # torch's own, of a batch that is above the kernel
            if not private.levels():
                _refuse(given, private.is_wrapped)
            raise
        is_made = isinstance(y, (torch.Tensor, tuple, list)) and func not in _CONSTANT
        if is_made and not private.levels():
            _refuse(given, self._is_differentiated)
            for t in _tensors(y):  # a result of constants is a constant
                self._constants[id(t)] = ref(t)
        return y

    def _is_differentiated(self, t: torch.Tensor) -> bool:
        known = self._constants.get(id(t))
        if known is not None and known() is t:
            return False
        found = _is_differentiated(self._levels, t)
        if not found:
            self._constants[id(t)] = ref(t)
        return found


def look(f: Callable[..., Any], xs: tuple[torch.Tensor, ...]) -> None:
    """Call f once before it is differentiated in a kernel: the new level hides outer levels."""
    if isinstance(watch := closures_count(), Watch) and not private.levels():
        with watch:
            f(*xs)


def _refuse(given: Any, refused: Callable[[torch.Tensor], bool]) -> None:
    if any(map(refused, _tensors(given))):
        raise closed_over()


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in tuples, lists and dictionaries, faster than torch's pytrees do."""
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, tuple | list):
        for part in given:
            yield from _tensors(part)
    elif isinstance(given, dict):
        yield from _tensors([*given.values()])


def _levels() -> list[Any]:
    """The levels of torch.func, the outermost first, found by popping and pushing them again."""
    found = [private.pop_level() for _ in private.levels() or ()][::-1]
    for level in found:
        private.push_level(level)
    return found


@contextmanager
def _levels_restored(levels: Sequence[Any]) -> Iterator[None]:
    for level in levels:
        private.push_level(level)
    try:
        yield
    finally:
        for _ in levels:
            private.pop_level()


def _is_differentiated(levels: Sequence[Any], t: torch.Tensor) -> bool:
    """Whether any level differentiates t. Levels are asked one by one: a tensor that is made between
    two levels belongs to the outer one, and may still be a constant.
    """
    while (
        level := private.level_of(t)
    ) > 0:  # neither a plain tensor nor one of a level that ended
        if t.requires_grad:
            return True
        with _levels_restored(levels[:level]):
            if _has_tangent(t):
                return True
        t = private.unwrapped(t)
    return _has_tangent(t)


def _has_tangent(t: torch.Tensor) -> bool:
    if not private.in_forward_mode():
        return False
    with private.set_forward_mode(True):
        return private.has_tangent(t)
