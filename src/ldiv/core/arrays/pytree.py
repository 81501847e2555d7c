"""Types that hold arrays: registered as pytrees with every framework, and deep copies of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ldiv.core.frameworks.dispatch import frontend_of, is_array

Flatten = Callable[[Any], tuple[tuple[Any, ...], Any]]

Unflatten = Callable[[Any, Any], Any]

_trees: list[tuple[type, Flatten, Unflatten]] = []

_listeners: list[Callable[[type, Flatten, Unflatten], None]] = []


def register_pytree(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Register a type: flatten(x) = (children, static), unflatten(static, children) = x.

    `unflatten` must not inspect the children, which may be placeholders.
    """
    _trees.append((cls, flatten, unflatten))
    for listen in _listeners:
        listen(cls, flatten, unflatten)


def on_register_pytree(listen: Callable[[type, Flatten, Unflatten], None]) -> None:
    """Call `listen` for every type that is registered, earlier or later; used by front ends."""
    _listeners.append(listen)
    for announced in _trees:
        listen(*announced)


class ArrayHolder:
    """Base of types that hold arrays; in deep copies, results in a graph become leaves."""

    def __deepcopy__(self, cached: dict[int, Any]) -> Any:
        twin = cached[id(self)] = object.__new__(type(self))
        for name, value in vars(self).items():
            # a frozen dataclass forbids plain setattr
            object.__setattr__(twin, name, copied(value, cached))
        return twin


def copied(tree: Any, cached: dict[int, Any]) -> Any:
    """A deep copy of a nested tuple of arrays and other objects."""
    if type(tree) is tuple:
        return tuple(copied(branch, cached) for branch in tree)
    return frontend_of(tree).copied(tree, cached) if is_array(tree) else copy.deepcopy(tree, cached)
