"""Escalation: if a matrix appears singular to one engine, the next one tries; the last one decides.

An attempt is an engine with its usual settings, or with its most careful ones. The first attempt to
which the matrix does not appear singular solves. If it does in a later solve (another view, another
right-hand side), or if the engine cannot work any more (in a forked process, say), the next attempt
replaces it for good. Certain evidence (an empty row, a pivot
that is not positive where all must be) is raised at once. If `errstate` turns these errors into
warnings, those of the last attempt are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.owners.forking import lock
from ldiv.core.policies.errstate import raises, under
from ldiv.engines.factor import OfAnotherKindError
from ldiv.errors import EngineError, EngineUnavailableError, SingularMatrixError

GIVES_UP = SingularMatrixError, EngineUnavailableError
_escalating = lock()  # one for all factors: escalation is rare


class Attempt(NamedTuple):
    """The name of an engine, and a function that makes its factor of a matrix."""

    engine: str
    make: Callable[..., Any]


def first_nonsingular(makes: Sequence[Callable[[], Any]], otherwise: Callable[[], Any]) -> Any:
    """Return the first factor to which the matrix does not appear singular, else that of
    `otherwise`.
    """
    for make in makes:
        with suppress(SingularMatrixError), under("raise"):
            factor = make()
            factor.check_nonsingular()
            return factor
    return otherwise()


class Escalating:
    """The factor of the first attempt to which the matrix does not appear singular.

    `witnesses` are engines that may not solve, since another one was named: if all attempts fail,
    and a witness succeeds, the error says so. `matrix` are the arguments of every attempt.
    """

    def __init__(
        self, attempts: Sequence[Attempt], witnesses: Sequence[Attempt] = (), *matrix: Any
    ) -> None:
        self._attempts, self._witnesses, self._matrix = attempts, witnesses, matrix
        # The factor of the current attempt, at its index; None at those that gave up. The list is
        # replaced, never changed, so that threads may read it.
        self._made: list[Any] = []
        self.gave_up: dict[str, str] = {}  # engine: what it found
        self._first_success(None)

    @property
    def engine(self) -> str:
        """The engine that solves."""
        return self._attempts[len(self._made) - 1].engine

    @property
    def nbytes(self) -> int:
        return int(self._made[-1].nbytes)

    @property
    def found_again(self) -> bool:
        return bool(self._made[-1].found_again)

    def solve(self, b: Array, op: str) -> Array:
        return self._first_success("solve", b, op)

    def solve_unrefined(self, b: Array, op: str) -> Array:
        return self._first_success("solve_unrefined", b, op)

    def inverse(self, a: Array) -> Array:
        return self._first_success("inverse", a)

    def logabsdet(self) -> Array:
        return self._first_success("logabsdet")

    def slogdet(self) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self._first_success("slogdet")
        return found

    def signs(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._first_success("signs")
        return found

    def check_nonsingular(self) -> None:
        self._first_success("check_nonsingular")

    # -- methods that only the factors of some engines have; these engines are asked first

    def triangle(self) -> Array:
        return self._of_a_kind("triangle")

    def inverse_entries(self) -> Array:
        return self._of_a_kind("inverse_entries")

    def inverse_tangent(self, e: Array) -> Array:
        return self._of_a_kind("inverse_tangent", e)

    def _of_a_kind(self, method: str, *args: Any) -> Array:
        """Call a method that not every factor has; raise the evidence if all that have it gave up."""
        try:
            return self._first_success(method, *args)
        except OfAnotherKindError:
            engine, evidence = next(reversed(self.gave_up.items()))
            raise SingularMatrixError(engine, evidence) from None

    def _first_success(self, method: str | None, *args: Any) -> Any:
        """The result of a method of factors, by the first attempt that does not raise.

        Without a method the factor is only made.
        """
        # the present attempt; the first one if nothing is made yet
        at, count = max(len(self._made) - 1, 0), len(self._attempts)
        is_error = raises()
        while True:
            try:
                # the last attempt may warn, according to `errstate`; the others must raise, so that the next one follows
                if is_error or (at + 1 == count and not self._witnesses):
                    return self._try(at, method, *args)
                with under("raise"):
                    return self._try(at, method, *args)
            except SingularMatrixError as error:
                name = self._attempts[at].engine
                if error.certain:
                    raise
                if at + 1 == count:
                    self._consult_witnesses(name, error.evidence, method, *args)
                    if is_error or not self._witnesses:
                        raise
                    # errors become warnings, and the user gets a solution
                    break
                self.gave_up[name] = error.evidence
            except EngineUnavailableError as error:
                if at + 1 == count:
                    raise
                self.gave_up[self._attempts[at].engine] = error.evidence
            at += 1
        return self._accept_suspect(method, *args)

    def _try(self, at: int, method: str | None, *args: Any) -> Any:
        made = self._made if at < len(self._made) else self._with_factor(at)
        # None: another thread has abandoned this attempt meanwhile
        factor = made[at] or made[-1]
        if method is None:
            return None
        return getattr(factor, method)(*args)

    def _with_factor(self, at: int) -> list[Any]:
        if not self._made:  # a new object is not shared yet
            return self._make(at)
        with _escalating:
            # another thread may have made it while this one waited for the lock
            return self._made if at < len(self._made) else self._make(at)

    def _make(self, at: int) -> list[Any]:
        made = self._made = [*[None] * at, self._attempts[at].make(*self._matrix)]
        return made

    def _consult_witnesses(
        self, engine: str, evidence: str, method: str | None, *args: Any
    ) -> None:
        """Raises, with the name of an engine that solves, if there is one."""
        for witness in self._witnesses:
            with suppress(*GIVES_UP), under("raise"):
                factor = witness.make(*self._matrix)
                factor.check_nonsingular()
                getattr(factor, method or "check_by_solving")(*args)
                # not suppressed: this error is for the user
                raise EngineError(
                    f"{engine} gives up on this matrix, where it found {evidence}; "
                    f"{witness.engine} solves it: "
                    f"use method={witness.engine!r}, or method='auto', which goes on by itself."
                )

    def _accept_suspect(self, method: str | None, *args: Any) -> Any:
        """Accept the last attempt, with a warning, since the matrix appears singular to all."""
        # from the first attempt on, now with the warnings that `errstate` asks for
        self._made = []
        for at in range(len(self._attempts) - 1):
            with suppress(*GIVES_UP):
                return self._try(at, method, *args)
        return self._try(len(self._attempts) - 1, method, *args)


class Batch(NamedTuple):
    """The factors of all matrices of a batch, in order; equal neighbors share one."""

    factors: Sequence[Escalating]
    different: Sequence[Escalating]

    @property
    def found_again(self) -> bool:
        return all(factor.found_again for factor in self.different)

    @property
    def nbytes(self) -> int:
        return sum([factor.nbytes for factor in self.different])
