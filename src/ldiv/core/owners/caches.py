"""The registry of `clear_cache`: each module-level cache registers a function that empties it.

docs/develop/caches.md lists all of them, with their bounds and owners.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_emptying: list[Callable[[], Any]] = []


def emptied_by(empty: Callable[[], Any]) -> None:
    """Register `empty`, which `clear_cache` may call at any time, in any thread."""
    _emptying.append(empty)


def bounded_cache(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: its latest results, up to a given number, are kept until `clear_cache`."""

    def decorated(f: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize=most)(f)
        emptied_by(kept.cache_clear)
        return cast("Callable[P, R]", kept)

    return decorated


def empty_all() -> None:
    """Empty every cache of the modules that are loaded."""
    for empty in tuple(_emptying):
        empty()
