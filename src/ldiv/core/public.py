"""The door of public functions, at which compilers stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ldiv.core.dispatch import load_frontends

P = ParamSpec("P")

R = TypeVar("R")


def plain_call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return f(*args, **kwargs)


def through(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call f. A framework that traces Python itself replaces this door by one that it does not look behind, before its first call."""
    load_frontends()
    door = globals()["through"]
    return plain_call(f, args, kwargs) if door is _first_door else door(f, args, kwargs)


_first_door = through


def public(f: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that users call: compilers stop at its door."""

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = through(f, args, kwargs)
        return result

    return call
