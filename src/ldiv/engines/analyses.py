"""The symbolic work of an engine on a structure is done once, and kept for the patterns used last,
which arrays come and go with.

A loop that builds its matrices anew makes equal structures; they find the analysis by content. What
falls out here is freed as soon as no factor needs it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ldiv.core.forking import lock
from ldiv.core.holder import PHYSICAL
from ldiv.core.structure import Structure

RECENT = 16
# of all patterns together: orderings, index sets and an analysis take some 500 bytes an entry
ENTRIES = PHYSICAL // 8 // 500

_recent: OrderedDict[tuple[str, Structure], tuple[Any]] = OrderedDict()
_lock = lock()


def analysed(engine: str, structure: Structure, analyze: Callable[[], Any]) -> Any:
    """The symbolic work of this engine on this structure, done now or earlier."""
    key = (engine, structure)
    if (known := _used(key)) is not None:
        return known[0]
    with structure.cached("analysis", lock):  # other patterns need not wait
        made = known if (known := _used(key)) is not None else (analyze(),)
        _keep(key, made)
        return made[0]


def _used(key: tuple[str, Structure]) -> tuple[Any] | None:
    with _lock:
        if (known := _recent.get(key)) is not None:
            _recent.move_to_end(key)
        return known


def _keep(key: tuple[str, Structure], made: tuple[Any]) -> None:
    with _lock:
        _recent[key] = made
        _recent.move_to_end(key)
        while len(_recent) > RECENT or (len(_recent) > 1 and sum(map(_entries, _recent)) > ENTRIES):
            _recent.popitem(last=False)


def _entries(key: tuple[str, Structure]) -> int:
    pattern = key[1].pattern
    return 0 if pattern is None else pattern.nnz


def forget() -> None:
    """Let go of all of it."""
    with _lock:
        _recent.clear()
