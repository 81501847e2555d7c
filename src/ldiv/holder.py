"""A factorization belongs to whoever still needs it: the holder of the call that made it, as long as its derivatives may be asked for.

A front end makes a `Holder` for each call that has derivatives, runs the kernel under it, and every tangent and cotangent too;
what is made or found meanwhile is kept by it, and goes with it. Where nobody holds, a factor lives no longer than its call.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextvars import ContextVar, Token
from typing import Any, Protocol

from ldiv.forking import lock


class Owner(Protocol):
    """Keeps things alive."""

    def keep(self, thing: Any) -> None: ...


class Holder:
    """What one call made: kept as long as the holder lives."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}

    def keep(self, thing: Any) -> None:
        self._kept[id(thing)] = thing

    def clear(self) -> None:
        self._kept.clear()

    @property
    def nbytes(self) -> int:
        return sum(thing.nbytes for thing in self._kept.values())

    def __deepcopy__(self, memo: Any) -> Holder:
        return Holder()

    def __reduce__(self) -> Any:
        return Holder, ()


class Store:
    """Keeps what was used most recently, as much as fits into `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self._lock = lock()
        self._kept: OrderedDict[int, Any] = OrderedDict()

    def keep(self, thing: Any) -> None:
        with self._lock:
            if id(thing) in self._kept:
                self._kept.move_to_end(id(thing))
                return
            self._kept[id(thing)] = thing
            self._held += thing.nbytes
            self.shrink(self.limit)

    def shrink(self, limit: int) -> None:
        """Let the least recently used go until the rest fits."""
        with self._lock:
            while self._held > limit:
                self._held -= self._kept.popitem(last=False)[1].nbytes


PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30
store = Store(min(2 << 30, PHYSICAL // 8))

_owner: ContextVar[Owner | None] = ContextVar("owner", default=None)


def owner() -> Owner | None:
    """Who keeps what is made now."""
    return _owner.get()


class holding:
    """Within, what is made or found is kept by this owner, and by no other."""

    __slots__ = ("_owner", "_token")

    def __init__(self, owner: Owner | None) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._token: Token[Owner | None] = _owner.set(self._owner)

    def __exit__(self, *error: object) -> None:
        _owner.reset(self._token)
