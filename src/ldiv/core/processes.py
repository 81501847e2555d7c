"""Structures whose rows are on several processes, and what such a structure brings with it.

Each process calls the same functions, with its own rows. Its arrays are of two kinds: parts, of
which the whole is made by putting them together (vectors, values of entries), and numbers of the
whole (eigenvalues, losses), which are equal everywhere. A cotangent of a part is a part, that of a
number of the whole is equal everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ldiv.core.arrays import adjoint
from ldiv.core.trees import Array, Tree


class RankError(RuntimeError):
    """The processes do not make the same calls, or one of them has not come in time."""


class Processes(Protocol):
    """The group of processes, and its engines."""

    rank: int
    size: int

    def agree(self, step: str, *numbers: int, error: BaseException | None = None) -> list[int]:
        """The largest of each of these integers; or an error on all processes, if one has one."""

    def every(self, x: Any) -> list[Any]:
        """What each process has, in their order, on all of them."""

    def section(self, operation: str) -> AbstractContextManager[None]:
        """A context in which an error on one process becomes an error on all of them."""

    def total(self, x: Any) -> Any:
        """The sum of NumPy arrays over all processes."""

    def sum(self, x: Array) -> Array:
        """The sum of parts, a number of the whole; a rule."""

    def spread(self, x: Array) -> Array:
        """A number of the whole, used with parts from here on: x itself; a rule."""

    def require(self, function: str) -> None:
        """Raises for a public function that works on one process only."""

    def preconditioner(self, M: Any, structure: Any) -> Any:
        """The structure of a preconditioner by name."""

    def explain(self, structure: Any, dtype: Any, assume_a: str) -> tuple[str, str, dict[str, str]]:
        """The engine that solves, the matrix in words, and what each engine answers."""

    def solve(
        self,
        structure: Any,
        p: Tree,
        b: Array,
        assume_a: str,
        method: str,
        options: Any,
        auxiliaries: tuple[Tree, ...],
    ) -> Array:
        """S(p)^-1 b."""

    def pairs(self, task: Any, pA: Tree, pB: Tree, auxiliaries: Tree) -> tuple[Array, ...]:
        """What `pairs` of an eigensolver returns."""

    def reduced(
        self, task: Any, params: Tree, theta: Array, r: Array, X: Array, known: Any
    ) -> Array:
        """The reduced resolvents S_i r_i."""


class Together(partial):  # type: ignore[type-arg]
    """A function on the host that all processes call: a compiler may not leave it out, not even
    where what it returns is empty.
    """


@dataclass(frozen=True)
class Shared:
    """An argument of `gradcheck` that is a number of the whole."""

    value: Any


# -- who works together -------------------------------------------------------

_witnesses: list[list[Processes]] = []


@contextmanager
def witnessed() -> Iterator[list[Processes]]:
    """The groups of processes that take a step together inside of this context, each once."""
    seen: list[Processes] = []
    _witnesses.append(seen)
    try:
        yield seen
    finally:
        _witnesses[:] = [other for other in _witnesses if other is not seen]  # equal lists are two


def note_step(processes: Any) -> None:
    """A group takes a step together."""
    for seen in _witnesses:
        if processes not in seen:
            seen.append(processes)


# -- blocks of columns --------------------------------------------------------


def gram(processes: Processes | None, x: Array, y: Array) -> Array:
    """x^H y, of blocks of columns."""
    small = adjoint(x) @ y
    return small if processes is None else processes.sum(small)


def combined(processes: Processes | None, x: Array, c: Array) -> Array:
    """x c: combinations of the columns of x."""
    return x @ shared(processes, c)


def shared(processes: Processes | None, c: Array) -> Array:
    """A number of the whole, for use with parts."""
    return c if processes is None else processes.spread(c)
