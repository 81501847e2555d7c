"""A log of solves for its readers: engine, number of iterations, residual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

from ldiv.core.frameworks.looks import after_checks


class Entry(NamedTuple):
    """One solve; the relative residual is None if the engine does not compute it."""

    engine: str
    iterations: int
    residual: float | None
    gave_up: dict[str, str]  # engines that were tried before, and what they found


_journal: ContextVar[list[Entry] | None] = ContextVar("journal", default=None)


@contextmanager
def reading() -> Iterator[list[Entry]]:
    """A context with the entries of every solve inside, in order.

    Solves in a compiled program run elsewhere and later, and are not logged.
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
    """Log a solve if a log is being read."""
    if (entries := _journal.get()) is not None:
        # an engine that gave up with usual settings may solve with careful ones
        before = {k: v for k, v in (gave_up or {}).items() if k != engine}
        after_checks(partial(entries.append, Entry(engine, iterations, residual, before)))


def is_read() -> bool:
    """Whether a log is being read."""
    return _journal.get() is not None
