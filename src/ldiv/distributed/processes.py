"""A group of processes: the space of vectors of which each has some rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.space import Space
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.owners.holder import owner
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure
from ldiv.distributed.communicator import Communicator
from ldiv.distributed.petsc import mpi, petsc
from ldiv.distributed.reductions import Sum
from ldiv.distributed.structure import Entries
from ldiv.errors import EngineError

SOLVERS, EIGENSOLVERS = "solver over processes", "eigensolver over processes"
SERVED = {
    "solve",
    "factorized",
    "explain",
    "eigsh",
    "lobpcg",
    "Factorized.solve",
    "Matrix.__matmul__",
    "Matrix.__rmatmul__",
    "Matrix.__mul__",
    "Matrix.__add__",
    "Matrix.__sub__",
    "Matrix.__truediv__",
}
_groups: list[Group] = []


class Group(Communicator, Space):
    """The processes of one communicator, and the space of vectors whose rows they share out."""

    solvers, eigensolvers = SOLVERS, EIGENSOLVERS

    @property
    def processes(self) -> Group:
        return self

    @contextmanager
    def call(self, function: str) -> Iterator[None]:
        if function not in SERVED:
            served = ", ".join(sorted(name for name in SERVED if "." not in name))
            raise EngineError(
                f"{function} works on one process, and this matrix is over {self.size}. "
                f"Of these there are {served}, A @ x and A.T."
            )
        with self.section(function):
            yield

    # -- sums, as rules ---------------------------------------------------------------

    def sum(self, x: Array) -> Array:
        return bind(Sum(self, x.ndim), x)[0]

    def spread(self, x: Array) -> Array:
        return bind(Sum(self, x.ndim, adjoint=True), x)[0]

    def norms(self, sizes: Array) -> Array:
        return namespace(sizes).sqrt(self.sum(sizes * sizes))

    # -- factorizations ---------------------------------------------------------------

    def kept(
        self, entries: Entries, key: Any, values: tuple[Any, ...], make: Callable[[], Any]
    ) -> Any:
        """The live entry of these values, if all processes have it; else a new one, which belongs
        to the call that asked.
        """
        alive = live(entries, key, values)
        number = self.common(alive, "a factorization")
        if number is None:
            petsc().garbage_cleanup(petsc().Comm(self.comm))
            number, found = next(self.numbers), make()
            found.remembered = Remembered(number, key, tuple(np.array(v) for v in values))
            entries.solvers.append(weakref.ref(found))
        else:
            found = alive[number]
        if (keeper := owner()) is not None:
            keeper.keep(found)
        return found


class Remembered(NamedTuple):
    """The key of a factorization: number, key and values by which it is found again."""

    number: int
    key: Any
    values: tuple[Any, ...]


def live(entries: Entries, key: Any, values: tuple[Any, ...]) -> dict[int, Any]:
    """Entries that are alive for these values, by number."""
    entries.solvers = [ref for ref in entries.solvers if ref() is not None]
    alive = [found for ref in entries.solvers if (found := ref()) is not None]
    return {
        found.remembered.number: found
        for found in alive
        if found.remembered.key == key and all(map(np.array_equal, found.remembered.values, values))
    }


def group(comm: Any = None) -> Group:
    """The group of a communicator of mpi4py or petsc4py, by default that of all processes."""
    comm = mpi().COMM_WORLD if comm is None else comm
    comm = comm.tompi4py() if hasattr(comm, "tompi4py") else comm
    for made in _groups:
        if made.of == comm:
            return made
    _groups.append(Group(comm))
    return _groups[-1]


def group_of(structure: Structure) -> Group:
    """The processes of a matrix over several."""
    found = structure.space
    assert isinstance(found, Group), "its engines are asked for no other"
    return found
