"""<a, b> = Re tr(a^H b), over all arrays of two trees; None is zero. Over several processes each has
parts of arrays, which add up, and numbers of the whole, which count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ldiv.core.arrays.processes import Processes
from ldiv.core.frameworks.trees import HostArray, Tree, leaves

Pair = tuple[list[HostArray], list[HostArray]]


def quiet() -> np.errstate:
    """Silence NumPy for wrong derivatives that are infinite or NaN: the verdict reports them."""
    return np.errstate(invalid="ignore", over="ignore")


@quiet()
def inner(a: Tree, b: Tree) -> float:
    pairs = zip(leaves(a), leaves(b), strict=True)
    return float(sum(np.real(np.vdot(x, y)) for x, y in pairs if x is not None and y is not None))


class Inner:
    """The inner product of lists of arrays: `are_parts` says of each whether it is a part."""

    def __init__(
        self, processes: Processes | None = None, are_parts: Sequence[bool] | None = None
    ) -> None:
        self.processes, self.are_parts = processes, are_parts

    def __call__(self, pairs: list[Pair]) -> HostArray:
        """<a, b> of each pair."""
        return self.total([self.local(*pair) for pair in pairs])

    def local(self, a: list[HostArray], b: list[HostArray]) -> float:
        """The part of this process."""
        return inner(tuple(self.counted(a)), tuple(self.counted(b)))

    @quiet()
    def absolute(self, pairs: list[Pair]) -> HostArray:
        """sum |a_i b_i| of each pair."""
        return self.total(
            [
                sum(float(np.abs(u * v).sum()) for u, v in self.counted(zip(*pair, strict=True)))
                for pair in pairs
            ]
        )

    @quiet()
    def squares(self, pairs: list[Pair]) -> HostArray:
        """sum |a_i b_i|^2 of each pair."""
        return self.total(
            [
                sum(
                    float((np.abs(u * v) ** 2).sum())
                    for u, v in self.counted(zip(*pair, strict=True))
                )
                for pair in pairs
            ]
        )

    def counted(self, xs: Any) -> list[Any]:
        """The arrays, or what belongs to them, that this process adds to the whole."""
        if self.processes is None or self.are_parts is None or self.processes.rank == 0:
            return list(xs)
        return [x for x, is_part in zip(xs, self.are_parts, strict=True) if is_part]

    def total(self, numbers: Any) -> HostArray:
        """The sums over all processes, to the last bit the same on each."""
        if self.processes is None:
            return np.asarray(numbers)
        return np.asarray(sum(self.processes.every(np.asarray(numbers))))

    def any(self, local: Any) -> bool:
        """Whether `local` is true on any process."""
        return bool(local if self.processes is None else any(self.processes.every(bool(local))))

    def largest(self, numbers: list[float]) -> list[float]:
        """The largest on any process, of each."""
        if self.processes is None:
            return numbers
        return [max(every) for every in zip(*self.processes.every(numbers), strict=True)]
