"""Types that hold arrays, for frameworks that look inside, and for deep copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ldiv.core.dispatch import frontend_of, is_array

Flatten = Callable[[Any], tuple[tuple[Any, ...], Any]]

Unflatten = Callable[[Any, Any], Any]

_trees: list[tuple[type, Flatten, Unflatten]] = []

_listeners: list[Callable[[type, Flatten, Unflatten], None]] = []


def register_pytree(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """A type of trees: flatten(x) = (children, static), unflatten(static, children) = x, which
    must not look at the children.
    """
    _trees.append((cls, flatten, unflatten))
    for listen in _listeners:
        listen(cls, flatten, unflatten)


def on_register_pytree(listen: Callable[[type, Flatten, Unflatten], None]) -> None:
    """For front ends: hear of every type of trees, announced earlier or later."""
    _listeners.append(listen)
    for announced in _trees:
        listen(*announced)


class ArrayHolder:
    """What holds arrays, and can be copied deeply with them: where they are results in a graph,
    the copies are leaves, as in pickling.
    """

    def __deepcopy__(self, cached: dict[int, Any]) -> Any:
        twin = cached[id(self)] = object.__new__(type(self))
        for name, value in vars(self).items():
            # past the lock of a frozen dataclass
            object.__setattr__(twin, name, copied(value, cached))
        return twin


def copied(tree: Any, cached: dict[int, Any]) -> Any:
    """A deep copy of a nested tuple of arrays and other things."""
    if type(tree) is tuple:
        return tuple(copied(branch, cached) for branch in tree)
    return frontend_of(tree).copied(tree, cached) if is_array(tree) else copy.deepcopy(tree, cached)
