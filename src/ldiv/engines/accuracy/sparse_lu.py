"""Sparse LU in `ldiv._native`, for one pattern: R P A Q C = L U + F block by block.

An analysis is made of the user's entries, in their order, or takes the values of slots. `accepted`
is one call: a living factor of equal values, or a new one, by the pivots of the one before where
these are good enough, with every look of the verdict; what is not accepted is None. `eliminated` is
a factor at which nobody looked, with pivots of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ldiv.core.caches import emptied_by
from ldiv.core.pattern import Pattern, Values
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.libraries import native
from ldiv.engines.libraries.threads import threads

DTYPES = frozenset(map(np.dtype, "fdFD"))
DIAGONAL, MATCHED = 1e-3, 0.1  # as the compiled part has them: see there
MANY = 1 << 15  # numbers that are done sooner than threads are started


def is_there() -> bool:
    """Is it compiled?"""
    return native.native is not None


class SparseLu:
    """The block triangular form of a pattern, and the ordering of its blocks."""

    def __init__(self, pattern: Pattern) -> None:
        assert native.native is not None
        self._lu = native.native.SparseLu(
            pattern.indptr,
            pattern.indices,
            None if pattern.are_slots else pattern.slot,
            pattern.rows,
            pattern.cols,
        )
        self.work: float = self._lu.work
        # of a factor as arrays of a program, if that can be: the numbers in each of them
        self.program_sizes: tuple[int, int, int] | None = self._lu.program_sizes()
        self.name: Callable[[str], None] = self._lu.name  # under which programs find it
        self._threshold = DIAGONAL if pattern.has_diagonal else MATCHED

    def accepted(
        self,
        values: Values,
        in_slots: bool = False,
        making: Callable[[int], None] | None = None,
        may_make: Callable[[], bool] | None = None,
    ) -> tuple[Any, bool]:
        """(the factor of these values (*batch, entries), or None; was it alive already?).

        Before one is made `may_make` is asked, and `making(mark)` is called with the number by which
        it is known again.
        """
        found, mark = self._lu.find(values, in_slots)
        if found is not None:
            return found, True
        if may_make is not None and not may_make():
            return None, False
        if making is not None:
            making(mark)
        return self._lu.factor(values, in_slots, mark, workers(values.shape)), False

    def eliminated(self, m: Values, threshold: float | None = None) -> Any:
        """A factor of M by its slots, or None if a column has no pivot."""
        return self._lu.eliminate(np.ascontiguousarray(m), threshold or self._threshold)


def name_symmetric_pattern(name: str, places: Any, order: Any) -> tuple[int, int, int]:
    """The numbers in each array of a Cholesky factor by this order; programs find the pattern by
    this name.
    """
    probe = np.ascontiguousarray(direction(len(order))[:, 0])
    assert native.native is not None
    found: tuple[int, int, int] = native.native.name_symmetric_pattern(name, places, order, probe)
    return found


def program_counts() -> tuple[int, int]:
    """Factorizations and solves that compiled programs made, since the caches were emptied."""
    found: tuple[int, int] = native.native.xla_counts() if is_there() else (0, 0)
    return found


def _forget() -> None:
    if is_there():
        native.native.forget_xla()


emptied_by(_forget)


def workers(shape: Sequence[int]) -> int:
    """How many threads share the matrices of a batch, of numbers of this shape."""
    return 1 if len(shape) == 1 or prod(shape) < MANY else threads()
