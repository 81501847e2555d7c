"""Symbolic analyses: done once per purpose and structure, kept for the most recent patterns.

A purpose is an engine's name, or has other structures beside, as a quadratic program does.

Structures compare by content: a loop that rebuilds its matrices finds the analysis again. A pattern
stays as long as an array on it lives, and then until RECENT others were used. One that is dropped
here is freed as soon as no factor needs it, with all that was cached for it.
The bound is on true bytes, too; and two patterns in turn, each used one step ago, stay as long as they
leave half of the memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from ldiv.core.arrays.space import HERE
from ldiv.core.owners.caches import emptied_by
from ldiv.core.owners.forking import lock
from ldiv.core.owners.holder import PHYSICAL
from ldiv.core.rules.structure import Structure
from ldiv.engines.factors.held_bytes import Held, HeldBytes

RECENT = 64  # patterns on which no array lives
BYTES = PHYSICAL // 8  # for all patterns together
BYTES_OF_TWO = PHYSICAL // 2  # for the last two patterns
DROPPED = 64

Made = tuple[Any]  # an analysis, which may be None


@dataclass(eq=False)
class Kept:
    """The analyses of a pattern by their purposes, and the bytes of these and of its other caches."""

    structure: Structure
    made: dict[Hashable, Made] = field(default_factory=dict)
    held: Held = field(default_factory=dict)


# the last used last; no OrderedDict, which Ctrl-C inside of a comparison of keys leaves broken
_recent: dict[Structure, Kept] = {}
_bytes = HeldBytes()
# by the hash of a pattern that was dropped for lack of memory: its bytes, 0 after the warning
_dropped: dict[int, int] = {}
_lock = lock()


def analysed(purpose: Hashable, structure: Structure, analyze: Callable[[], Any]) -> Any:
    """Return the symbolic work for this purpose on this structure: from the cache, or new."""
    if (made := _used(purpose, structure)) is not None:
        return made[0]
    with structure.cached("analysis", lock):  # other patterns are not blocked
        # another thread may have made it while this one waited for the lock
        if (made := _used(purpose, structure)) is not None:
            return made[0]
        made = (analyze(),)
        _keep(purpose, structure, made)
    _tell_if_repeated(structure)
    return made[0]


def recent(structure: Structure) -> Structure:
    """Return the equal structure that was used recently, with its plans and all else that it caches,
    or this one.

    Functions of users are not kept: they may hold any memory.
    """
    if not structure.on_host or structure.space is not HERE:
        return structure
    found: Structure = analysed("itself", structure, lambda: structure)
    return found


def _used(purpose: Hashable, structure: Structure) -> Made | None:
    with _lock:
        if _recent:  # most calls use the last one again: nothing moves, and no pattern is hashed
            last = next(reversed(_recent.values()))
            if last.structure is structure:
                return last.made.get(purpose)
        return None if (kept := _moved(structure)) is None else kept.made.get(purpose)


def _moved(structure: Structure) -> Kept | None:
    """Return the entry of a pattern, and mark it as the last one used."""
    if (kept := _recent.pop(structure, None)) is not None:
        _recent[kept.structure] = kept
    return kept


def _keep(purpose: Hashable, structure: Structure, made: Made) -> None:
    with _lock:
        dropped: list[Kept] = []
        if (kept := _moved(structure)) is None:
            if _recent:  # the calls of the last pattern have cached more since it was counted
                _count(next(reversed(_recent.values())))
            kept = _recent[structure] = Kept(structure)
            dropped += _too_old()
        kept.made[purpose] = made
        _count(kept)
        dropped += _too_large()
        # in order of insertion: the oldest are dropped first
        while len(_dropped) > DROPPED:
            del _dropped[next(iter(_dropped))]
    for one in dropped:
        one.structure.forget()


def _count(kept: Kept) -> None:
    kept.held = _bytes.count(kept.held, (kept.structure, kept.made))


def _too_old() -> list[Kept]:
    """Drop the oldest patterns on which no array lives, except for RECENT of them."""
    if len(_recent) <= RECENT:
        return []
    # the oldest come first in _recent
    unreferenced = [kept for kept in _recent.values() if not kept.structure.is_referenced]
    return [_drop(kept) for kept in unreferenced[: max(0, len(unreferenced) - RECENT)]]


def _too_large() -> list[Kept]:
    """Drop the oldest patterns until the rest fits into the memory; the last one stays in any case."""
    dropped: list[Kept] = []
    while len(_recent) > 1 and _bytes.total > (BYTES if len(_recent) > 2 else BYTES_OF_TWO):
        before = _bytes.total
        one = _drop(next(iter(_recent.values())))
        # the bytes that this pattern alone held: shared arrays stay counted
        _dropped.setdefault(hash(one.structure), before - _bytes.total)
        dropped.append(one)
    return dropped


def _drop(kept: Kept) -> Kept:
    del _recent[kept.structure]
    _bytes.release(kept.held)
    return kept


def _tell_if_repeated(structure: Structure) -> None:
    """Warn if the analysis of a pattern is repeated, since memory was too small to keep it."""
    with _lock:
        size = _dropped.get(hash(structure))
        if not size:
            return
        _dropped[hash(structure)] = 0  # the warning was given
    rows, columns = structure.shape
    warnings.warn(
        f"The symbolic analysis of a {rows} x {columns} matrix is repeated: it takes "
        f"{size / 2**20:.0f} MiB and was dropped, since all patterns together may take "
        f"{BYTES / 2**20:.0f} MiB. Solve with one pattern as often as possible before the next one.",
        stacklevel=2,
    )


def forget() -> None:
    """Drop all analyses."""
    global _bytes
    with _lock:
        _recent.clear()
        _dropped.clear()
        _bytes = HeldBytes()


emptied_by(forget)
