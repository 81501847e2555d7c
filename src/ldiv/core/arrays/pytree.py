"""Types that hold arrays: registered as pytrees with every framework, those of a framework opened,
and deep copies of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

from ldiv.core.frameworks.dispatch import frontend_of, is_array

Flatten = Callable[[Any], tuple[tuple[Any, ...], Any]]

Unflatten = Callable[[Any, Any], Any]

Packing = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]

Listen = Callable[[type, Flatten, Unflatten, Packing | None], None]

_trees: list[tuple[type, Flatten, Unflatten, Packing | None]] = []

_listeners: list[Listen] = []


def register_pytree(
    cls: type, flatten: Flatten, unflatten: Unflatten, packing: Packing | None = None
) -> None:
    """Register a type: flatten(x) = (children, static), unflatten(static, children) = x.

    `unflatten` must not inspect the children, which may be placeholders. `packing` makes bytes of
    `static`, and `static` of bytes, for programs that are stored.
    """
    _trees.append((cls, flatten, unflatten, packing))
    for listen in _listeners:
        listen(cls, flatten, unflatten, packing)


def register_attributes(
    cls: type, varying: tuple[str, ...], static: tuple[str, ...], start: Callable[[Any], None]
) -> None:
    """Register a type by the names of its attributes; `start(x)` sets the others anew."""

    def flatten(x: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple(getattr(x, name) for name in varying), tuple(
            getattr(x, name) for name in static
        )

    def unflatten(values: Any, children: Any) -> Any:
        x: Any = object.__new__(cls)
        vars(x).update(
            zip(static, values, strict=True), **dict(zip(varying, children, strict=True))
        )
        start(x)
        return x

    register_pytree(cls, flatten, unflatten)


def on_register_pytree(listen: Listen) -> None:
    """Call `listen` for every type that is registered, earlier or later; used by front ends."""
    _listeners.append(listen)
    for announced in _trees:
        listen(*announced)


class Node(Protocol):
    """Puts the parts of a pytree together again; hashable."""

    def unflatten(self, parts: Any, /) -> Any:
        """The pytree with these parts."""
        ...


Open = Callable[[Any], tuple[list[Any], Node] | None]

_openers: list[Open] = []


def on_open(opener: Open) -> None:
    """Ask `opener` for the parts of types that are registered with a framework; used by front ends."""
    _openers.append(opener)


def opened(x: Any) -> tuple[list[Any], Node] | None:
    """The parts of a pytree of a framework, and what puts them together again; None for a leaf."""
    return next((found for opener in _openers if (found := opener(x)) is not None), None)


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
