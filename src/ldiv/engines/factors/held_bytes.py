"""The true bytes of symbolic work: all arrays that can be reached from it, each counted once."""

from __future__ import annotations

from typing import Any

import numpy as np


def held_bytes(thing: Any, counted: set[int]) -> int:
    """The bytes of the arrays and foreign handles that `thing` refers to.

    Foreign handles say theirs by `heap_bytes`. What was counted before, as its id is in `counted`,
    counts no more: patterns share index sets.
    """
    total, waiting = 0, [thing]
    while waiting:
        x = waiting.pop()
        while isinstance(x, np.ndarray) and isinstance(x.base, np.ndarray):
            x = x.base  # a view owns nothing
        if id(x) in counted:
            continue
        if isinstance(x, np.ndarray):
            total += x.nbytes
        elif isinstance(x, dict):
            waiting += x.values()
        elif isinstance(x, tuple | list):
            waiting += x
        elif isinstance(x, type):  # a class is nobody's
            continue
        elif (bytes_of := getattr(x, "heap_bytes", None)) is not None:
            total += int(bytes_of)
            waiting += _attributes(x)
        elif type(x).__module__.startswith("ldiv."):
            waiting += _attributes(x)
        else:
            continue
        counted.add(id(x))
    return total


def _attributes(x: Any) -> tuple[Any, ...]:
    """None of what has slots or is foreign."""
    try:
        return tuple(vars(x).values())
    except TypeError:
        return ()
