"""What `clear_cache` empties: a module-level cache says here how it is emptied.

docs/develop/caches.md lists all of them, with their bounds and owners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_emptying: list[Callable[[], Any]] = []


def emptied_by(empty: Callable[[], Any]) -> None:
    """`empty` is called by `clear_cache`; it may be called at any time, by any thread."""
    _emptying.append(empty)


def empty_all() -> None:
    """Empty every cache of the modules that are loaded."""
    for empty in tuple(_emptying):
        empty()
