"""The registry of `clear_cache`: each module-level cache registers a function that empties it.

docs/develop/caches.md lists all of them, with their bounds and owners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_emptying: list[Callable[[], Any]] = []


def emptied_by(empty: Callable[[], Any]) -> None:
    """Register `empty`, which `clear_cache` may call at any time, in any thread."""
    _emptying.append(empty)


def empty_all() -> None:
    """Empty every cache of the modules that are loaded."""
    for empty in tuple(_emptying):
        empty()
