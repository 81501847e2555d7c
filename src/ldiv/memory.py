"""Factorizations are remembered, so that the adjoint never factors again.

The key is the structure, the engine and the values themselves, whole: they are copied when a factor is kept and compared
exactly when it is looked for, so no change of values, in place or not, ever finds a stale factor. (A few sampled values
only sort the candidates into drawers.) Bounded in bytes, the least recently used goes first; thread-safe.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ldiv.rule import Array, namespace
from ldiv.validate import require_int

OVERHEAD = 100_000  # bytes that a factor weighs beyond its numbers, as measured on small ones
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30


class CacheInfo(NamedTuple):
    """What happened since the start or the last `clear_cache`, and what is held now."""

    analyses: int
    factorizations: int
    hits: int
    solves: int
    entries: int
    bytes: int
    limit: int


class _Entry(NamedTuple):
    key: Hashable
    values: tuple[Array, ...]
    factor: Any
    nbytes: int


_lock = threading.RLock()
_entries: OrderedDict[int, _Entry] = OrderedDict()  # by id of the factor, least recently used first
_of_key: dict[Hashable, list[_Entry]] = {}
_pins: dict[int, int] = {}
_pinned: ContextVar[list[Any] | None] = ContextVar("pinned", default=None)
_held = 0
_limit = PHYSICAL // 8
counts = {"analyses": 0, "factorizations": 0, "hits": 0, "solves": 0}


def remembered(key: Hashable, values: tuple[Array, ...], make: Callable[[], Any]) -> Any:
    """The factor of these values: the one that is kept, or `make()`, which is then kept."""
    key = (key, *(_drawer(v) for v in values))
    entry = _find(key, values)
    if entry is None:
        factor = make()
        kept = tuple(namespace(v).asarray(v, copy=True) for v in values)
        entry = _Entry(key, kept, factor, OVERHEAD + factor.nbytes + sum(v.nbytes for v in kept))
        _keep(entry)
    elif (pinned := _pinned.get()) is not None:
        _pin(entry, pinned)
    return entry.factor


def _drawer(values: Array) -> bytes | None:
    """A few of the values where they are at hand: candidates elsewhere need not be compared."""
    if type(values) is not np.ndarray:
        return None
    flat = values.reshape(-1)
    return flat[:: max(len(flat) // 8, 1)].tobytes()


def _keep(entry: _Entry) -> None:
    global _held
    with _lock:
        counts["factorizations"] += 1
        _held += entry.nbytes
        _entries[id(entry.factor)] = entry
        _of_key.setdefault(entry.key, []).append(entry)
        if (pinned := _pinned.get()) is not None:
            _pin(entry, pinned)
        _evict()


def _find(key: Hashable, values: tuple[Array, ...]) -> _Entry | None:
    with _lock:
        candidates = _of_key.get(key, [])[::-1]
    for entry in candidates:
        if all(_same(kept, value) for kept, value in zip(entry.values, values, strict=True)):
            with _lock:
                counts["hits"] += 1
                if id(entry.factor) in _entries:
                    _entries.move_to_end(id(entry.factor))
            return entry
    return None


def _same(a: Array, b: Array) -> bool:
    return bool(a.shape == b.shape and (a == b).all())


def _evict() -> None:
    """Drop the least recently used factors that nobody pins, until the rest fits."""
    global _held
    if _held <= _limit:
        return
    for ident in list(_entries):
        if _held <= _limit:
            return
        if not _pins.get(ident):
            entry = _entries.pop(ident)
            _held -= entry.nbytes
            of_key = [other for other in _of_key[entry.key] if other is not entry]
            if of_key:
                _of_key[entry.key] = of_key
            else:
                del _of_key[entry.key]


@contextmanager
def pinning() -> Iterator[list[Any]]:
    """Hold the factors made or found inside, whatever the limit says, until they are unpinned."""
    pinned: list[Any] = []
    token = _pinned.set(pinned)
    try:
        yield pinned
    except BaseException:
        unpin(pinned)
        raise
    finally:
        _pinned.reset(token)


def _pin(entry: _Entry, pinned: list[Any]) -> None:
    with _lock:
        _pins[id(entry.factor)] = _pins.get(id(entry.factor), 0) + 1
        pinned.append(entry.factor)


def unpin(factors: list[Any]) -> None:
    """Let factors go that `pinning` held."""
    with _lock:
        for factor in factors:
            _pins[id(factor)] -= 1
            if not _pins[id(factor)]:
                del _pins[id(factor)]
        _evict()


def set_cache_limit(nbytes: int) -> None:
    """Bound the memory for remembered factorizations; 0 forgets each at once, and adjoints then factor again.

    >>> import ldiv
    >>> ldiv.set_cache_limit(2 << 30)
    """
    global _limit
    number = require_int("nbytes", nbytes, 0, what="a number of bytes >= 0", advice="2 << 30 are 2 GiB.")
    with _lock:
        _limit = number
        _evict()


def clear_cache() -> None:
    """Forget all factorizations that are not pinned by `factorized`, and start the counts anew."""
    global _limit
    with _lock:
        limit, _limit = _limit, 0
        _evict()
        _limit = limit
        counts.update(dict.fromkeys(counts, 0))


def cache_info() -> CacheInfo:
    """Analyses, factorizations, hits and solves since the start or `clear_cache`; entries and bytes held; the limit.

    >>> import ldiv
    >>> ldiv.cache_info().limit > 0
    True
    """
    with _lock:
        return CacheInfo(**counts, entries=len(_entries), bytes=_held, limit=_limit)
