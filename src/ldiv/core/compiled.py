"""What is compiled of a rule: its kernel and its vjp on arrays as they are in memory, under all looks, or declined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

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
        or None.
        """


def in_rows(x: Any) -> HostArray:
    """Row after row, as C++ reads it."""
    return x if x.flags.carray or (x.flags.c_contiguous and x.flags.aligned) else x.copy()
