"""Symbolic analyses: done once per engine and structure, kept for the most recent patterns.

Structures compare by content: a loop that rebuilds its matrices finds the analysis again. One that
is dropped here is freed as soon as no factor needs it, with all that was cached for its pattern.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import starmap
from typing import Any

from ldiv.core.forking import lock
from ldiv.core.holder import PHYSICAL
from ldiv.core.structure import Structure

RECENT = 16
BYTES = PHYSICAL // 8  # for all patterns together
ENTRY = 500  # bytes per entry, about, of orderings, index sets and an analysis that does not say

_recent: OrderedDict[tuple[str, Structure], tuple[Any]] = OrderedDict()
_lock = lock()


def analysed(engine: str, structure: Structure, analyze: Callable[[], Any]) -> Any:
    """The symbolic work of this engine on this structure: cached, or done now."""
    key = (engine, structure)
    if (known := _used(key)) is not None:
        return known[0]
    with structure.cached("analysis", lock):  # other patterns are not blocked
        made = known if (known := _used(key)) is not None else (analyze(),)
        _keep(key, made)
        return made[0]


def is_analysed(engine: str, structure: Structure) -> bool:
    """Is the symbolic work of this engine on this structure cached?"""
    return _used((engine, structure)) is not None


def _used(key: tuple[str, Structure]) -> tuple[Any] | None:
    with _lock:
        if (known := _recent.get(key)) is not None:
            _recent.move_to_end(key)
        return known


def _keep(key: tuple[str, Structure], made: tuple[Any]) -> None:
    dropped: list[Structure] = []
    with _lock:
        _recent[key] = made
        _recent.move_to_end(key)
        while len(_recent) > RECENT or (
            len(_recent) > 1 and sum(starmap(_nbytes, _recent.items())) > BYTES
        ):
            dropped.append(_recent.popitem(last=False)[0][1])
        still = {id(structure) for _, structure in _recent}
    for structure in dropped:
        if id(structure) not in still:
            structure.forget()


def _nbytes(key: tuple[str, Structure], made: tuple[Any]) -> int:
    pattern = key[1].pattern
    if pattern is None:
        return 0
    own = getattr(made[0], "nbytes", None)
    return ENTRY * pattern.nnz if own is None else int(own)


def forget() -> None:
    """Drop all analyses."""
    with _lock:
        _recent.clear()
