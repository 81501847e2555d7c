"""Symbolic analyses: done once per engine and structure, kept for the most recent patterns.

Structures compare by content: a loop that rebuilds its matrices finds the analysis again. One that
is dropped here is freed as soon as no factor needs it, with all that was cached for its pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.core.forking import lock
from ldiv.core.holder import PHYSICAL
from ldiv.core.structure import Structure

RECENT = 16
BYTES = PHYSICAL // 8  # for all patterns together
ENTRY = 500  # bytes per entry, about, of orderings, index sets and an analysis that does not say

Key = tuple[str, Structure]
# (analysis, its own key), the last used last; no OrderedDict, which Ctrl-C inside of a comparison
# of keys leaves broken
_recent: dict[Key, tuple[Any, Key]] = {}
_lock = lock()


def analysed(engine: str, structure: Structure, analyze: Callable[[], Any]) -> Any:
    """The symbolic work of this engine on this structure: cached, or done now."""
    key = (engine, structure)
    if (known := _used(key)) is not None:
        return known[0]
    with structure.cached("analysis", lock):  # other patterns are not blocked
        made = known if (known := _used(key)) is not None else (analyze(), key)
        _keep(made)
        return made[0]


def is_analysed(engine: str, structure: Structure) -> bool:
    """Is the symbolic work of this engine on this structure cached?"""
    return _used((engine, structure)) is not None


def _used(key: Key) -> tuple[Any, Key] | None:
    with _lock:
        if (known := _recent.pop(key, None)) is not None:
            _recent[known[1]] = known
        return known


def _keep(made: tuple[Any, Key]) -> None:
    dropped: list[Structure] = []
    with _lock:
        _recent.pop(made[1], None)
        _recent[made[1]] = made
        while len(_recent) > RECENT or (
            len(_recent) > 1 and sum(map(_nbytes, _recent.values())) > BYTES
        ):
            oldest = next(iter(_recent))
            del _recent[oldest]
            dropped.append(oldest[1])
        still = {id(structure) for _, structure in _recent}
    for structure in dropped:
        if id(structure) not in still:
            structure.forget()


def _nbytes(made: tuple[Any, Key]) -> int:
    analysis, (_, structure) = made
    pattern = structure.pattern
    if pattern is None:
        return 0
    own = getattr(analysis, "nbytes", None)
    return ENTRY * pattern.nnz if own is None else int(own)


def forget() -> None:
    """Drop all analyses."""
    with _lock:
        _recent.clear()
