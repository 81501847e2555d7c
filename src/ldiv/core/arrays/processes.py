"""The agreement of several processes on random draws and verdicts: for `ldiv.distributed` and gradcheck.

Rules and engines use a `Space` instead (`ldiv.core.arrays.space`), which is the same for one process and
several. Gradcheck must draw the same numbers and reach the same verdict on all processes.

Each process calls the same functions, with its own rows. Its arrays are of two kinds: parts, of
which the whole is made by putting them together (vectors, values of entries), and numbers of the
whole (eigenvalues, losses), which are equal everywhere. A cotangent of a part is a part, that of a
number of the whole is equal everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ldiv.core.frameworks.array_protocol import Array


class RankError(RuntimeError):
    """Raised if the processes do not make the same calls, or one of them is late."""


class Processes(Protocol):
    """The group of processes."""

    rank: int
    size: int

    def agree(self, step: str, *numbers: int, error: BaseException | None = None) -> list[int]:
        """Return the maximum over all processes of each of these integers; raise on all of them if
        one has an error.
        """

    def every(self, x: Any) -> list[Any]:
        """Return the x of each process, in their order, on all processes."""

    def section(self, operation: str) -> AbstractContextManager[None]:
        """A context in which an error on one process becomes an error on all of them."""

    def total(self, x: Any) -> Any:
        """The sum of NumPy arrays over all processes."""

    def sum(self, x: Array) -> Array:
        """The sum of parts, a number of the whole; a rule."""


@dataclass(frozen=True)
class Shared:
    """An argument of `gradcheck` that is a number of the whole."""

    value: Any


# -- who works together -------------------------------------------------------

_witnesses: list[list[Processes]] = []


@contextmanager
def groups_of_steps() -> Iterator[list[Processes]]:
    """Record the groups of processes that take collective steps inside of this context, each once."""
    seen: list[Processes] = []
    _witnesses.append(seen)
    try:
        yield seen
    finally:
        _witnesses[:] = [other for other in _witnesses if other is not seen]  # equal lists are two


def note_step(processes: Any) -> None:
    """Record that a group takes a collective step."""
    for seen in _witnesses:
        if processes not in seen:
            seen.append(processes)
