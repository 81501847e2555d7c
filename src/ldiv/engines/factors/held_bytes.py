"""The true bytes of symbolic work: all arrays that can be reached from it, each counted once."""

from __future__ import annotations

from typing import Any

import numpy as np

PLAIN = frozenset({type(None), bool, int, float, str, bytes})  # refer to nothing
Held = dict[int, int]  # the bytes of each array and foreign handle, by its id


class HeldBytes:
    """The bytes that several objects refer to together; shared memory counts once.

    An object is counted when it is added, and again when it has grown.
    """

    def __init__(self) -> None:
        self.total = 0
        self._holders: dict[int, tuple[int, int]] = {}  # by id: how many, and the bytes

    def count(self, before: Held, thing: Any) -> Held:
        """Count the memory that `thing` holds now, in place of the memory that it held before."""
        now = held(thing)
        for at, size in now.items():
            holders, counted = self._holders.get(at, (0, 0))
            self._holders[at] = holders + 1, size
            # all of it for the first holder, and how much it has grown for others
            self.total += size - counted
        # after the count of the new: what both hold stays in the total
        self.release(before)
        return now

    def release(self, before: Held) -> None:
        for at in before:
            holders, size = self._holders.pop(at)
            if holders > 1:
                self._holders[at] = holders - 1, size
            else:
                # the last holder takes the bytes along
                self.total -= size


def held(thing: Any) -> Held:
    """The arrays and foreign handles that `thing` refers to; handles say their bytes by `heap_bytes`."""
    found: Held = {}
    # ids are unique here: `thing` keeps all that is seen alive
    seen: set[int] = set()
    waiting = [thing]
    while waiting:
        x = waiting.pop()
        if type(x) in PLAIN:
            continue
        while isinstance(x, np.ndarray) and isinstance(x.base, np.ndarray):
            x = x.base  # a view owns nothing
        if id(x) in seen:
            continue
        if isinstance(x, np.ndarray):
            found[id(x)] = x.nbytes
        elif isinstance(x, dict):
            waiting += x.values()
        elif isinstance(x, tuple | list):
            waiting += x
        elif isinstance(x, type):  # classes are not counted
            continue
        elif (bytes_of := getattr(x, "heap_bytes", None)) is not None:
            found[id(x)] = int(bytes_of)
            waiting += _attributes(x)
        elif type(x).__module__.startswith("ldiv."):
            waiting += _attributes(x)
        else:
            continue
        seen.add(id(x))
    return found


def _attributes(x: Any) -> tuple[Any, ...]:
    """Return the attributes; none of a thing that has slots or is foreign."""
    try:
        return tuple(vars(x).values())
    except TypeError:
        return ()
