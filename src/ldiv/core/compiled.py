"""What is compiled of a rule: here, on arrays as they are in memory, or as one call of a compiled program.

Both answer under all looks, or decline. Whoever has compiled code for programs offers its calls
here, and a front end whose programs can call them takes them up.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.trees import HostArray


class Compiled(Protocol):
    """None is for what is declined: then the kernel and the vjp are asked. Arrays, of any framework,
    are in the memory of this process, row after row.
    """

    def fit(self, *flat: Array) -> bool:
        """Are these arrays, of any framework, of such dtypes and shapes as it takes?"""

    def forward(self, *flat: Any) -> tuple[tuple[HostArray, ...], Any] | None:
        """The outputs, and a factor that `backward` may use again; the present owner keeps it."""

    def backward(
        self,
        factor: Any,
        need: Sequence[bool],
        cotangents: tuple[Any, ...],
        out: tuple[Any, ...],
        *flat: Any,
    ) -> Sequence[HostArray | None] | None:
        """The cotangents of the arguments, in their dtypes and shapes; `factor` is that of `forward`,
        or None: where there is one the values of the arguments are not read.
        """


def in_rows(x: Any) -> HostArray:
    """Row after row, as C++ reads it."""
    return x if x.flags.carray or (x.flags.c_contiguous and x.flags.aligned) else x.copy()


# -- in compiled programs ---------------------------------------------------------------------------

Specs = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]  # shapes and dtypes


class CompiledCall(NamedTuple):
    """One call, for arguments of these shapes and dtypes: what is asked, by name, and what comes of it.

    It reads the leaves of the rule's arguments, the first of them a matrix, and may make a factor
    of that: arrays beside the results, which the calls of derivatives are given.
    """

    name: str
    rule: str  # what it is told
    own: Specs  # its results
    key: Hashable = None  # what factors have in common that it can be given
    made: Specs = ()  # the arrays of its factor, if it makes one
    core: tuple[int, ...] = ()  # the own axes of each of them
    probe: np.ndarray[Any, Any] | None = None  # an argument of a call that makes a factor
    looks: bool = False  # or has one given, too
    # of a sparse matrix, arguments of every call: rows and columns of its entries, and their order
    pattern: tuple[np.ndarray[Any, Any], ...] = ()
    in_place: bool = False  # may its result be in the memory of its argument?


offered: dict[str, Any] = {}  # what XLA calls, by name; nothing, where ldiv is not compiled
