"""Options of PETSc, as a user passes them: names without the dash, and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from ldiv.distributed.petsc import petsc
from ldiv.errors import shown, type_error

Options = tuple[tuple[str, str | None], ...]
_numbers = count()


@dataclass(frozen=True)
class Parameters:
    """Options of the solver, and of the solver for adjoint systems; None means the same."""

    solver: Options = ()
    adjoint: Options | None = None

    def of(self, adjoint: bool) -> dict[str, str | None]:
        return dict(self.solver if not adjoint or self.adjoint is None else self.adjoint)


def parameters(solver: Any, adjoint: Any) -> Parameters:
    """Validate the options."""
    return Parameters(
        _options("solver_parameters", solver) or (), _options("adjoint_parameters", adjoint)
    )


def _options(name: str, given: Any) -> Options | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        what, advice = "a dict of options of PETSc", "Say {'pc_type': 'gamg'}."
        raise type_error(name, what, shown(given), advice)
    return tuple(sorted((key.removeprefix("-"), _written(v)) for key, v in given.items()))


def _written(value: Any) -> str | None:
    """Write a value as PETSc reads it; None is an option without a value."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def prefixed(options: Mapping[str, str | None]) -> Iterator[str]:
    """A prefix under which PETSc finds these options, as long as the context lasts."""
    prefix = f"ldiv_{next(_numbers)}_"
    database = petsc().Options(prefix)
    for name, value in options.items():
        database.setValue(name, value)
    try:
        yield prefix
    finally:
        for name in options:
            database.delValue(name)
