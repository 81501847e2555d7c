"""An engine's suspicion is not a verdict: where it takes a matrix for singular the next one is
asked, and the last one's word is final.

An attempt is an engine with its usual settings, or with its most careful ones. The factor of the
first attempt that has no doubt solves; when it has one in a later solve, of another view or
right-hand side, the next takes its place for good. What cannot be doubted (an empty row, a pivot
that is not positive where all must be) is raised at once. Where doubts are to be warnings
(`errstate`), they are those of the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from ldiv.core.errstate import singular_state, under
from ldiv.core.forking import lock
from ldiv.core.trees import Array
from ldiv.errors import EngineError, SingularMatrixError

_escalating = lock()  # one for all: few ever escalate


class Attempt(NamedTuple):
    """The name of an engine, and what makes its factor of a matrix."""

    engine: str
    make: Callable[..., Any]


def without_doubt(makes: Sequence[Callable[[], Any]], otherwise: Callable[[], Any]) -> Any:
    """The first factor that finds the matrix regular, or where none does another."""
    for make in makes:
        with suppress(SingularMatrixError), under("raise"):
            factor = make()
            factor.check_nonsingular()
            return factor
    return otherwise()


class Escalating:
    """The factor of the first attempt without doubts. `witnesses` are asked when all have some, but
    do not solve: an engine was named.

    `matrix` is what all of them are given.
    """

    def __init__(
        self, attempts: Sequence[Attempt], witnesses: Sequence[Attempt] = (), *matrix: Any
    ) -> None:
        self._attempts, self._witnesses, self._matrix = attempts, witnesses, matrix
        # that of the attempt that stands, at its place; None at those that gave up; replaced, never
        # changed
        self._made: list[Any] = []
        self.gave_up: dict[str, str] = {}  # engine: what it found
        self._ask(None)

    @property
    def engine(self) -> str:
        """Who solves."""
        return self._attempts[len(self._made) - 1].engine

    @property
    def nbytes(self) -> int:
        return int(self._made[-1].nbytes)

    def solve(self, b: Array, op: str) -> Array:
        return self._ask("solve", b, op)

    def solve_unrefined(self, b: Array, op: str) -> Array:
        return self._ask("solve_unrefined", b, op)

    def logabsdet(self) -> Array:
        return self._ask("logabsdet")

    def slogdet(self) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self._ask("slogdet")
        return found

    def check_nonsingular(self) -> None:
        self._ask("check_nonsingular")

    def _ask(self, task: str | None, *args: Any) -> Any:
        """The answer of the first that has no doubts about the matrix to a method of factors;
        without one, that it is made.
        """
        at, count = max(len(self._made) - 1, 0), len(self._attempts)
        while True:
            try:
                if singular_state() == "raise" or (at + 1 == count and not self._witnesses):
                    return self._answer(at, task, *args)
                with under("raise"):
                    return self._answer(at, task, *args)
            except SingularMatrixError as error:
                name = self._attempts[at].engine
                if error.certain:
                    raise
                if at + 1 == count:
                    self._ask_witnesses(name, error.evidence, task, *args)
                    if singular_state() == "raise" or not self._witnesses:
                        raise
                    break
                self.gave_up[name] = error.evidence
            at += 1
        return self._ask_leniently(task, *args)

    def _answer(self, at: int, task: str | None, *args: Any) -> Any:
        made = self._made
        if at >= len(made):
            made = self._made_by(at)
        return None if task is None else getattr(made[at] or made[-1], task)(*args)

    def _made_by(self, at: int) -> list[Any]:
        with _escalating if self._made else nullcontext():  # nobody else knows of what is new
            made = self._made
            if at >= len(made):
                made = self._made = [*[None] * at, self._attempts[at].make(*self._matrix)]
            return made

    def _ask_witnesses(self, engine: str, evidence: str, task: str | None, *args: Any) -> None:
        """Raise the name of an engine that solves, if there is one."""
        for witness in self._witnesses:
            with suppress(SingularMatrixError), under("raise"):
                factor = witness.make(*self._matrix)
                factor.check_nonsingular()
                if task is not None:
                    getattr(factor, task)(*args)
                raise EngineError(
                    f"{engine} gives up on this matrix, where it found {evidence}; {witness.engine} solves it: "
                    f"use method={witness.engine!r}, or method='auto', which goes on by itself."
                )

    def _ask_leniently(self, task: str | None, *args: Any) -> Any:
        """All agree, and their doubts are to be warnings."""
        self._made = []
        for at in range(len(self._attempts) - 1):
            with suppress(SingularMatrixError):
                return self._answer(at, task, *args)
        return self._answer(len(self._attempts) - 1, task, *args)


class Batch(NamedTuple):
    """The factors of all matrices of a batch, in order; equal matrices in a row have one."""

    factors: Sequence[Escalating]

    @property
    def different(self) -> Sequence[Escalating]:
        return [*{id(factor): factor for factor in self.factors}.values()]

    @property
    def nbytes(self) -> int:
        return sum(factor.nbytes for factor in self.different)
