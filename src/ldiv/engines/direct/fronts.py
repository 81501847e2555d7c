"""Sparse, positive definite, where the arrays are: R P A P^H R = L L^H by batches of dense fronts.

The analysis is that of `cholesky`, on the host; the numbers never leave their device. All matrices of
a batch are factored together. The host asks for a few thousand operations, and waits for none of them.
Reference: Ng, Peyton, SIAM J. Sci. Comput. 14 (1993); Liu, SIAM Review 34 (1992).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, conj, numpy_dtype, writable
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.slot_matrix import Slots, equilibrated
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.selected.batched_cholesky import BatchedCholesky, cholesky
from ldiv.engines.selected.front_batches import FrontBatches
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import EngineError, EngineUnavailableError, NotPositiveDefiniteError
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

RANK = 60
ON_HOST = False
REMEMBERED = True
NAME = "Fronts"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or type(structure.base) is not Sparse:
        return "factors sparse Hermitian matrices by their entries only"
    if structure.op != "H" and np.dtype(dtype).kind == "c":
        return "factors Hermitian matrices; a complex one that is symmetric is not"
    if assume_a != "pos":
        return "needs a matrix that is positive definite: assume_a='pos'"
    return sparse_checked.missing()


class Analysis:
    """The fronts in batches, and the places of entries and slots."""

    def __init__(self, structure: Any) -> None:
        pattern, own = structure.pattern, structure.base.pattern
        fronts = Fronts(pattern)
        # the slots of a pattern without symmetry come first, before their mirror images
        slot = own.slot if pattern is own else pattern.slot[: own.slots][own.slot]
        self.slots = Slots(fronts, fronts.pattern.slot[slot])
        self.batches = FrontBatches(fronts)


def analyze(structure: Any) -> Analysis:
    return Analysis(structure)


def factor(
    analysis: Analysis, structure: Any, p: Array, assume_a: str, last: bool = False
) -> Factor:
    if not writable(p):
        raise EngineError(
            "method='fronts' overwrites arrays, which JAX does not do, and XLA would compile its "
            "thousands of operations for minutes. Leave method out: then the host, or an iteration, solves."
        )
    if not analysis.slots.has_diagonal:
        raise NotPositiveDefiniteError(NAME, "a diagonal with gaps")
    # M = R A R is positive definite if and only if A is
    m, scales = equilibrated(analysis.slots, analysis.slots.of_matrix(p))
    with _telling_memory(analysis.batches, m.values):
        made, definite = cholesky(analysis.batches, m.values)
    check_or_raise(
        definite, lambda: NotPositiveDefiniteError(NAME, "a leading minor that is not positive")
    )
    return OfEntries(NAME, m, made, scales, last=last)


factor_carefully = partial(factor, last=True)


@contextmanager
def _telling_memory(batches: FrontBatches, values: Array) -> Iterator[None]:
    """Raise an error that says how much was asked where an array finds no memory."""
    try:
        yield
    except (
        MemoryError,
        RuntimeError,
    ) as error:  # PyTorch's own are RuntimeErrors, of several types
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        # values (*batch, slots): of each batch member L has `entries` numbers, and its fronts `work`
        count = prod(batch_of(values, 1))
        each = count * numpy_dtype(values).itemsize / 2**20
        l, work = (f"{each * size:,.0f} MiB" for size in (batches.entries, batches.work))
        asked = (
            f"{l} for L of {count} matri{'x' if count == 1 else 'ces'}, and {work} for its fronts"
        )
        said = str(error).partition("\n")[0]
        raise EngineUnavailableError(NAME, f"has not enough memory: {asked} ({said})") from error


class OfEntries(Verified):
    """A factor with the entries of A^-H, and their tangents, in the places of the entries of S."""

    _factor: BatchedCholesky

    def inverse_entries(self) -> Array:
        self.check_nonsingular()
        return self._in_entries(self._factor.inverse_slots())

    def inverse_tangent(self, e: Array) -> Array:
        self.check_nonsingular()
        return self._in_entries(
            self._factor.inverse_tangent(self._weighted(self._m.slots.of_direction(e)))
        )

    def _weighted(self, z: Array) -> Array:
        """R Z R."""
        rows, cols = self._m.slots.on(z)[:2]
        assert self._scales is not None
        # A^-1 = R M^-1 R, and a direction E of A is R E R in the units of M
        r = self._scales[0]
        return r[..., rows] * z * r[..., cols]

    def _in_entries(self, z: Array) -> Array:
        # (A^-H)_ij = conj((A^-1)_ji), read in the slot of each entry (i, j)
        return conj(self._weighted(z)[..., self._m.slots.on(z)[6]])
