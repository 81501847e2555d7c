"""Compiled operations of rules: called from Python on arrays in memory, or in a compiled program.

Both answer after all checks have passed, or decline. Compiled code for programs registers its calls
here, and front ends whose programs can call them use these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import HostArray

Need = Sequence[bool]  # which cotangents are wanted
Arrays = tuple[Any, ...]  # of which some may be None


class Operation(Protocol):
    """The compiled operations of a rule, for all kinds of arrays."""

    def taking(self, *flat: Array) -> Compiled | None:
        """Return the operation that takes arrays of these dtypes and shapes, of any framework; None
        if none does.
        """


class Compiled(Operation, Protocol):
    """A compiled operation, which returns None if it declines; then the kernel and the vjp run.

    Arrays, of any framework, are row-major in the memory of this process.
    """

    def forward(self, *flat: Any) -> tuple[tuple[HostArray, ...], Any] | None:
        """Return the outputs, and a factor that `backward` may use; the present owner keeps the
        factor.
        """

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Any
    ) -> Sequence[HostArray | None] | None:
        """Return the cotangents of the arguments, in their dtypes and shapes.

        `factor` is that of `forward`, or None. With a factor the values of the arguments are not
        read. A cotangent that is not in `need` may be None.
        """


def in_rows(x: Any) -> HostArray:
    """Return a row-major array, as the C++ code reads it."""
    return x if x.flags.carray or (x.flags.c_contiguous and x.flags.aligned) else x.copy()


def computed(
    operation: Operation | None, flat: Sequence[HostArray]
) -> tuple[tuple[HostArray, ...], Any] | None:
    """Return the outputs for NumPy arrays, and the factor; None if there is no compiled operation,
    or it declines.
    """
    if operation is None or (taken := operation.taking(*flat)) is None:
        return None
    return taken.forward(*map(in_rows, flat))


def pulled_back(
    operation: Operation | None,
    need: Sequence[bool],
    cotangents: Sequence[HostArray | None],
    out: Sequence[HostArray],
    flat: Sequence[HostArray],
    factor: Any = None,
) -> Sequence[HostArray | None] | None:
    """Return the cotangents for NumPy arrays, by the rules of `computed`; `factor` is that of
    `computed`.
    """
    if operation is None or (taken := operation.taking(*flat)) is None:
        return None
    given = tuple([None if y is None else in_rows(y) for y in cotangents])
    return taken.backward(factor, need, given, tuple(map(in_rows, out)), *map(in_rows, flat))


# -- in compiled programs ---------------------------------------------------------------------------

Specs = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]  # shapes and dtypes
Record = tuple[tuple[str, str], ...]  # text by the name of its field


def record_of(**fields: str) -> Record:
    return tuple(fields.items())


@dataclass(frozen=True)
class CompiledFactor:
    """The call that factors a matrix: its attributes, and the arrays of one factor.

    It never fails: if it declines a matrix, it marks the arrays, and calls that use them decline, too.
    """

    name: str
    record: Record
    own: Specs  # the arrays of the factor of one matrix
    axes: int  # own axes of a matrix
    constants: tuple[np.ndarray[Any, Any], ...] = field(compare=False)  # arguments after the matrix

    def made(self, batch: Sequence[Any]) -> Specs:
        """The arrays of the factors of a batch."""
        return tuple([((*batch, *shape), dtype) for shape, dtype in self.own])


class CompiledCall(NamedTuple):
    """The compiled call of a rule for arguments of these shapes and dtypes: its name and results.

    The arguments are the leaves of the rule's, the first of them a matrix. One call computes the
    results and flags the batch members that it declines; it has no other effect, so that XLA may
    move it out of a loop. Another call takes the results and flags, and answers or raises for these
    members; XLA does not move it.
    """

    name: str
    record: Record  # attributes of both calls, besides their stage
    own: Specs  # the results
    members: tuple[int, ...] | None  # the batch that may be declined
    factor: CompiledFactor | None = None  # whose arrays follow the rule's arguments
    constants: tuple[np.ndarray[Any, Any], ...] = ()  # arguments of the first call, after those
    entries: tuple[np.ndarray[Any, Any], ...] = ()  # of the second one: those of a sparse matrix
    takes: tuple[int, ...] | None = None  # which leaves are the arguments; None: all
    is_look: bool = False


offered: dict[str, Any] = {}  # the calls of XLA by name; empty if ldiv is not compiled
