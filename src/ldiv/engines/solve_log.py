"""What engines did is noted down for whoever asked: which engine, how many iterations, what
residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Entry(NamedTuple):
    """One solve: the relative residual is None where the engine does not compute it."""

    engine: str
    iterations: int
    residual: float | None
    gave_up: dict[str, str]  # engines that were asked before, and what they found


_journal: ContextVar[list[Entry] | None] = ContextVar("journal", default=None)


@contextmanager
def reading() -> Iterator[list[Entry]]:
    """The entries of every solve inside, in order; of solves under jit, which run elsewhere and
    later, none.
    """
    entries: list[Entry] = []
    token = _journal.set(entries)
    try:
        yield entries
    finally:
        _journal.reset(token)


def note(
    engine: str,
    iterations: int = 0,
    residual: float | None = None,
    gave_up: dict[str, str] | None = None,
) -> None:
    """Note a solve down if somebody reads."""
    if (entries := _journal.get()) is not None:
        entries.append(
            Entry(
                engine,
                iterations,
                residual,
                {k: v for k, v in (gave_up or {}).items() if k != engine},
            )
        )


def is_read() -> bool:
    """Does somebody read?"""
    return _journal.get() is not None
