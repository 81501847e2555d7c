"""The store of factors for JAX's programs, which own nothing: its room per pattern follows the demand.

The store begins with room for two factors of a pattern: a step of a loop needs one, and the previous
step may need its own once more. A factor that is requested after it was dropped is made again, and
doubles the room. So a loop whose backward pass needs the factors of 200 steps finds them all the next
time; steps that need less shrink the room. All patterns share a bound in bytes; the least recently used
factor is dropped first. It is dropped before its successor is made, which may use its memory. Compiled
dense factors are the exception: only after the call is it known whether one was made or found.

Reference: Megiddo and Modha, ARC: a self-tuning, low overhead replacement cache (2003), from which
is the list of what was dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ldiv.core.owners.forking import lock

ROOM = 2  # factors of a pattern, to begin with
PATTERNS = 256  # that are remembered
DROPPED = 1 << 16  # hashes of dropped factors that are remembered


class _Pattern:
    """The factors of a pattern, the last used last, and how many are kept."""

    __slots__ = ("count", "deepest", "factors", "room", "since")

    def __init__(self) -> None:
        self.factors: OrderedDict[int, _Entry] = OrderedDict()
        self.room = ROOM
        self.count = 0  # factors made
        # since the room was looked at last: those made, and the room that was needed
        self.since, self.deepest = 0, 0

    def needed(self, used: int) -> int:
        """Return the room in which a factor would still be there whose last use was after `used`
        factors were made.
        """
        self.deepest = max(self.deepest, self.count - used + 1)
        return self.count - used + 1

    def make(self, used: int | None) -> None:
        """Count a new factor; `used` is the count at its last use, if it was dropped since.

        Once twice as many factors as there is room for have been made, the room shrinks to what
        they needed.
        """
        if used is not None and self.needed(used) > self.room:
            self.room *= 2
        self.count, self.since = self.count + 1, self.since + 1
        if self.since >= 2 * self.room:
            self.room = max(min(self.deepest, self.room), ROOM)
            self.since, self.deepest = 0, 0


class _Entry:
    """A stored object, its bytes at that time, and the count of factors at its last use."""

    __slots__ = ("nbytes", "pattern", "thing", "used", "value_hash")

    def __init__(self, thing: Any, pattern: _Pattern, value_hash: int) -> None:
        self.thing, self.nbytes, self.value_hash = thing, int(thing.nbytes), value_hash
        self.pattern, self.used = pattern, pattern.count


class Store:
    """A store of factors, at most `limit` bytes; a factor is an object with `nbytes`.

    The `key` of its pattern and its `value_hash` are attributes of the factor, or are given beside it.
    By the `value_hash` a dropped factor is recognized when it is made again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._nbytes = 0
        self._lock = lock()
        self._kept: OrderedDict[int, _Entry] = OrderedDict()  # by id
        self._patterns: OrderedDict[int, _Pattern] = OrderedDict()
        self._dropped: OrderedDict[int, int] = OrderedDict()  # the last use of each value hash

    def make_room(self, key: Any, value_hash: int) -> None:
        """Make room for a factor of new values, or for one that was dropped."""
        with self._lock:
            pattern = self._pattern(key)
            pattern.make(self._dropped.pop(value_hash, None))
            self._fit(pattern, pattern.room - 1)

    def keep(self, thing: Any, key: Any = None, value_hash: int = 0) -> None:
        with self._lock:
            if (entry := self._kept.get(id(thing))) is not None:
                self._kept.move_to_end(id(thing))
                entry.pattern.factors.move_to_end(id(thing))
                entry.pattern.needed(entry.used)
                entry.used = entry.pattern.count
                return
            key = key or getattr(thing, "key", None)
            value_hash = value_hash or getattr(thing, "value_hash", 0)
            pattern = _Pattern() if key is None else self._pattern(key)
            entry = self._kept[id(thing)] = pattern.factors[id(thing)] = _Entry(
                thing, pattern, value_hash
            )
            self._nbytes += entry.nbytes
            self._fit(pattern, pattern.room)
            self.shrink(self.limit)

    def shrink(self, limit: int) -> None:
        """Drop the least recently used objects until the rest fits."""
        with self._lock:
            while self._kept and (self._nbytes > limit or limit == 0):
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Drop all factors and all records of use."""
        with self._lock:
            self.shrink(0)
            self._patterns.clear()
            self._dropped.clear()

    def __reduce__(self) -> Any:
        return Store, (self.limit,)  # a copy begins empty

    def __del__(self) -> None:
        if DROPPED is not None:  # at the exit of Python modules are cleared, and this is None
            self.shrink(0)  # entries and patterns refer to each other

    def _pattern(self, key: Any) -> _Pattern:
        # by the hash of the key, which would keep the pattern alive; a collision only mixes two rooms up
        before = self._patterns.pop(hash(key), None)
        found = self._patterns[hash(key)] = _Pattern() if before is None else before
        if len(self._patterns) > PATTERNS:
            self._patterns.popitem(last=False)
        return found

    def _fit(self, pattern: _Pattern, room: int) -> None:
        while len(pattern.factors) > room:
            self._drop(next(iter(pattern.factors)))

    def _drop(self, name: int) -> None:
        entry = self._kept.pop(name)
        del entry.pattern.factors[name]
        self._nbytes -= entry.nbytes
        self._dropped[entry.value_hash] = entry.used
        if len(self._dropped) > DROPPED:
            self._dropped.popitem(last=False)
