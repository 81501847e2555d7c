"""Symbolic analyses: done once per purpose and structure, kept for the most recent patterns.

A purpose is an engine's name, or has other structures beside, as a quadratic program does.

Structures compare by content: a loop that rebuilds its matrices finds the analysis again. One that
is dropped here is freed as soon as no factor needs it, with all that was cached for its pattern.
The bound is on true bytes; and two patterns in turn, each used one step ago, stay as long as they
leave half of the memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ldiv.core.caches import emptied_by
from ldiv.core.forking import lock
from ldiv.core.holder import PHYSICAL
from ldiv.core.structure import Structure
from ldiv.engines.factors.held_bytes import held_bytes

RECENT = 16
BYTES = PHYSICAL // 8  # for all patterns together
BYTES_OF_TWO = PHYSICAL // 2  # for the last two patterns
DROPPED = 64

Key = tuple[Hashable, Structure]
Made = tuple[Any, Key]
# (analysis, its own key), the last used last; no OrderedDict, which Ctrl-C inside of a comparison
# of keys leaves broken
_recent: dict[Key, Made] = {}
# by the hash of its key: the bytes of one that memory was too small for; 0 once this was told
_dropped: dict[int, int] = {}
_lock = lock()


def analysed(purpose: Hashable, structure: Structure, analyze: Callable[[], Any]) -> Any:
    """The symbolic work for this purpose on this structure: cached, or done now."""
    key = (purpose, structure)
    if (made := _used(key)) is not None:
        return made[0]
    with structure.cached("analysis", lock):  # other patterns are not blocked
        if (made := _used(key)) is not None:
            return made[0]
        made = analyze(), key
        _keep(made)
    _tell_if_repeated(key)
    return made[0]


def _used(key: Key) -> Made | None:
    with _lock:
        if _recent:  # most calls use the last one again: nothing moves, and nothing is hashed
            made = next(reversed(_recent.values()))
            if made[1][1] is key[1] and made[1][0] == key[0]:
                return made
        if (found := _recent.pop(key, None)) is not None:
            _recent[found[1]] = found
        return found


def _keep(made: Made) -> None:
    with _lock:
        _recent.pop(made[1], None)
        _recent[made[1]] = made
        sizes = _sizes(_recent.values())
        dropped: list[Key] = []
        while len(_recent) > RECENT or _too_large(sizes):
            oldest = next(iter(_recent))
            if len(_recent) <= RECENT:
                _dropped.setdefault(hash(oldest), sizes[oldest])
            del _recent[oldest], sizes[oldest]
            dropped.append(oldest)
        while len(_dropped) > DROPPED:
            del _dropped[next(iter(_dropped))]
        still = {id(structure) for _, structure in _recent}
    for _, structure in dropped:
        if id(structure) not in still:
            structure.forget()


def _too_large(sizes: dict[Key, int]) -> bool:
    """Must the oldest go, for its bytes? The last one stays in any case."""
    patterns = {structure for _, structure in sizes}
    limit = BYTES if len(patterns) > 2 else BYTES_OF_TWO
    return len(patterns) > 1 and sum(sizes.values()) > limit


def _sizes(kept: Iterable[Made]) -> dict[Key, int]:
    """The bytes of each analysis and of what is cached for its pattern; what several share is the
    newest one's.
    """
    counted: set[int] = set()
    return dict(reversed([(made[1], held_bytes(made, counted)) for made in reversed([*kept])]))


def _tell_if_repeated(key: Key) -> None:
    """That the work on a pattern is done once more, since memory was too small for it."""
    with _lock:
        size = _dropped.get(hash(key))
        if not size:
            return
        _dropped[hash(key)] = 0  # told
    rows, columns = key[1].shape
    warnings.warn(
        f"The symbolic analysis of a {rows} x {columns} matrix is repeated: it takes "
        f"{size / 2**20:.0f} MiB and was dropped, since all patterns together may take "
        f"{BYTES / 2**20:.0f} MiB. Solve with one pattern as often as possible before the next one.",
        stacklevel=2,
    )


def forget() -> None:
    """Drop all analyses."""
    with _lock:
        _recent.clear()
        _dropped.clear()


emptied_by(forget)
