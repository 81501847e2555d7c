"""Sparse factors in `ldiv._native`, for one pattern, that have passed every check of the verdict.

LU is R P A Q C = L U + F block by block; R P A P^H R = L L^H, L D L^H or L D L^T is front by front.

An analysis is made of the user's entries, in their order; that of LU also takes the values of slots.
`accepted` is one call: a live factor of equal values, or a new one, or None if it is not accepted.
LU uses the pivots of the previous factor where these are good enough. `eliminated` is an LU factor
without checks, with pivots of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern, Values
from ldiv.core.owners.caches import emptied_by
from ldiv.core.rules.compiled import in_rows
from ldiv.engines.accuracy.limits import DIAGONAL, MATCHED
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factor import Factor
from ldiv.engines.libraries import native
from ldiv.engines.libraries.threads import threads

DTYPES = frozenset(map(np.dtype, "fdFD"))
LARGE = 100_000  # numbers in a factor by fronts from which a second thread is worth its start
MANY = 1 << 15  # numbers below which starting threads takes longer


def is_available() -> bool:
    """True if the compiled part is present."""
    return native.native is not None


def missing() -> str | None:
    """Return the reason why no engine has compiled factors; None if there is no such reason."""
    why = f"is compiled, and ldiv's compiled part is not here: {native.why_not}"
    return None if is_available() else why


def declined(dtype: Any, device: str) -> str | None:
    """Return the reason why no engine factors these values in compiled code; None if there is no
    such reason.
    """
    if np.dtype(dtype) not in DTYPES:
        return f"factors float32, float64, complex64, complex128, not {np.dtype(dtype)}"
    if device != "cpu":
        return f"runs on the cpu, but the values are on {device}"
    return missing()


class Checked:
    """A pattern with its analysis, in compiled code, and factors of its matrices."""

    _own: Any

    def accepted(
        self,
        values: Values,
        in_slots: bool = False,
        in_single: bool = False,
        making: Callable[[int], None] | None = None,
        may_make: Callable[[], bool] | None = None,
    ) -> tuple[Any, bool]:
        """(the factor of these values (*batch, entries), or None; was it alive already?).

        in_single: factor in single precision, and refine every solution to double.

        Before one is made `may_make` is asked, and `making(value_hash)` is called with the hash of
        its values.
        """
        found, value_hash = self._own.find(values, in_slots, in_single)
        if found is not None:
            return found, True
        if may_make is not None and not may_make():
            return None, False
        if making is not None:
            making(value_hash)
        threads = self._threads(values.shape)
        return self._own.factor(values, in_slots, in_single, value_hash, threads), False

    def factor(
        self,
        values: Values,
        in_slots: bool,
        careful: Callable[..., Factor],
        accepted: type[Accepted],
    ) -> Factor:
        """The factor of one matrix that is accepted, or that of `careful()`."""
        if not values.size:  # singular, or of no rows
            return careful()
        found, again = self.accepted(in_rows(values), in_slots)
        return careful() if found is None else accepted(found, again, values.dtype, careful)

    def _threads(self, shape: Sequence[int]) -> int:
        return workers(shape)

    @property
    def heap_bytes(self) -> int:
        return int(self._own.heap_bytes)


class SparseLu(Checked):
    """The block triangular form of a pattern, and the ordering of its blocks."""

    def __init__(self, pattern: Pattern) -> None:
        assert native.native is not None
        self._own = native.native.SparseLu(
            pattern.indptr,
            pattern.indices,
            None if pattern.are_slots else pattern.slot,
            pattern.rows,
            pattern.cols,
        )
        self.work: float = self._own.work
        # the sizes of the arrays of a factor in a compiled program, or None
        self.program_sizes: tuple[int, int, int] | None = self._own.program_sizes()
        # register the name by which programs find the pattern
        self.name: Callable[[str], None] = self._own.name
        self._threshold = DIAGONAL if pattern.has_diagonal else MATCHED

    def eliminated(self, m: Values, threshold: float | None = None) -> Any:
        """A factor of M by its slots, or None if a column has no pivot."""
        return self._own.eliminate(np.ascontiguousarray(m), threshold or self._threshold)


class SparseFronts(Checked):
    """The compiled fronts of (B + B^H) / 2 or (B + B^T) / 2, given the entries of B and the place of
    each row. `kind` is that of `ldiv.engines.selected.checked_fronts`.
    """

    def __init__(self, kind: str, fronts: Any, place: Any, entries: Pattern) -> None:
        assert native.native is not None
        self._own = native.native.SparseFronts(kind, fronts, place, entries.rows, entries.cols)
        self._is_large = fronts.entries >= LARGE

    def _threads(self, shape: Sequence[int]) -> int:
        if len(shape) > 1:
            return workers(shape)
        # of one matrix the branches of the tree, and the columns of large fronts
        return threads() if self._is_large else 1


class Accepted(Factor):
    """A factor that has passed every check; if it declines a solve, a careful factor is made.

    found_again: the factor existed already, and nothing was factored.
    """

    def __init__(
        self, found: Any, found_again: bool, dtype: Any, careful: Callable[..., Any]
    ) -> None:
        self._found, self.found_again = found, found_again
        self._dtype, self._make = dtype, careful
        self.nbytes = found.nbytes
        found.is_wrapped = True

    @cached_property
    def _careful(self) -> Factor:
        return self._make()

    def solve(self, b: Any, op: str) -> Any:
        b = np.ascontiguousarray(b, self._dtype)
        x = np.empty_like(b)
        if 0 not in b.shape and self._found.solve(b, x, op, False, 1):
            return x
        return self._careful.solve(b, op)

    def slogdet(self) -> tuple[Any, Any]:
        sign, size = np.empty(1, self._dtype), np.empty(1, np.finfo(self._dtype).dtype)
        return (sign[0], size[0]) if self._found.slogdet(sign, size) else self._careful.slogdet()


def name_symmetric_pattern(kind: str, name: str, places: Any, order: Any) -> tuple[int, int, int]:
    """The numbers in each array of a factor by this order; programs find the pattern by
    this name.
    """
    probe = np.ascontiguousarray(direction(len(order))[:, 0])
    assert native.native is not None
    name_pattern = native.native.name_symmetric_pattern
    found: tuple[int, int, int] = name_pattern(kind, name, places, order, probe)
    return found


def program_counts() -> tuple[int, int]:
    """Factorizations and solves that compiled programs made, since the caches were emptied."""
    found: tuple[int, int] = native.native.xla_counts() if is_available() else (0, 0)
    return found


def _forget() -> None:
    if is_available():
        native.native.forget_xla()


emptied_by(_forget)


def workers(shape: Sequence[int]) -> int:
    """The number of threads that share the matrices of a batch, with values of this shape."""
    return 1 if len(shape) == 1 or prod(shape) < MANY else threads()
