"""Sparse, on a CUDA device, by NVIDIA's cuDSS: R A C = L U, L D L^T or L D L^H; L L^H if A is positive definite.

The assumption on A chooses the kind. Symmetric kinds are factored from one triangle. cuDSS pivots inside
of dense blocks, and raises pivots that are smaller than a number of its own. So A is scaled to entries
near 1. If pivots were raised, refinement must confirm the factor. Else the next attempt has the large
entries of these values matched to the diagonal. The first attempt is analysed by the pattern alone, and
its solver serves the next matrix as soon as the factor dies. A batch on one pattern is factored at once.
Reference: Schenk, Gärtner, Electron. Trans. Numer. Anal. 23 (2006), whose pivoting this is.
"""

from __future__ import annotations

import weakref
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    astype,
    batch_of,
    broadcast,
    conj,
    device_of,
    numpy_dtype,
    spread,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, traced
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.slot_matrix import Indices, SlotMatrix, Slots, normalized
from ldiv.engines.accuracy.sparse_matrix import Arrangement
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.libraries import cudss
from ldiv.engines.libraries.cudss import Solver
from ldiv.errors import EngineError, NotPositiveDefiniteError, SingularMatrixError, of_numbers
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

RANK = 55
ON_HOST = False
REMEMBERED = True
NAME = cudss.NAME


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    base = structure.base if isinstance(structure, Symmetric) else structure
    if not isinstance(base, Sparse):
        return "factors sparse matrices by their entries only"
    if not cudss.is_available(device):
        return f"runs on CUDA devices, on PyTorch's arrays; these are on {device}"
    if np.dtype(dtype).char not in "fdFD":
        return f"factors float32, float64, complex64, complex128, not {np.dtype(dtype)}"
    return cudss.missing()


class Analysis:
    """The places of entries and slots, and what cuDSS reads of them."""

    def __init__(self, structure: Any) -> None:
        self.symmetry = structure.op if isinstance(structure, Symmetric) else ""
        base, pattern = structure.base if self.symmetry else structure, structure.pattern
        own = base.pattern
        # the slots of a pattern without symmetry come first, before their mirror images
        slot = own.slot if pattern is own else pattern.slot[: own.slots][own.slot]
        arrangement = Arrangement(pattern)
        self.has_empty = arrangement.layout.has_empty
        self.slots = Slots(arrangement, slot, self.symmetry)
        self._readings = {half: _reading(pattern, half) for half in {False, self.symmetry != ""}}

    def solver(self, kind: str, values: Array, how: str = "") -> Solver:
        """The factors of matrices by their slots (count, slots)."""
        indptr, indices, kept = self._readings[kind != "gen"].on(values)
        given = cudss.row_major_copy(values[..., kept])
        key = self, kind, how, numpy_dtype(values), device_of(values), values.shape[0]
        found = None if how == "matched" else cudss.taken(key, values)
        if found is None:
            wide = np.dtype(np.int32 if max(self.slots.count, self.slots.n) < 2**31 else np.int64)
            pattern = astype(indptr, wide), astype(indices, wide)
            found = Solver(key, kind, *pattern, given, how)
        found.factor(given)
        return found


def _reading(pattern: Any, half: bool) -> Indices:
    """CSR of A, or of its upper triangle, and the slot of each entry."""
    rows, cols = pattern.indices, pattern.columns
    kept = np.flatnonzero(rows <= cols) if half else np.arange(pattern.slots)
    kept = kept[np.lexsort((cols[kept], rows[kept]))]
    count = np.bincount(rows[kept], minlength=pattern.shape[0])
    return Indices([np.concatenate([[0], np.cumsum(count)]), cols[kept], kept])


def analyze(structure: Any) -> Analysis:
    return Analysis(structure)


def factor(
    analysis: Analysis, structure: Any, p: Array, assume_a: str, carefully: bool = False
) -> Factor:
    if traced(p):
        raise EngineError("method='cudss' reads numbers, which a program that is recorded has not.")
    if analysis.has_empty:
        raise SingularMatrixError(NAME, "a row or column without entries", certain=True)
    m, scales = normalized(analysis.slots, analysis.slots.of_matrix(p))
    own = _kind(analysis, m)
    positive = assume_a == "pos" and own == "her"
    # L U has more freedom, L D L^H tells the signs
    kind = (own if positive else "gen") if carefully else "pos" if positive else own
    made = Cudss(analysis, m, kind, "matched" if carefully else "")
    if positive:
        made.require_positive()
    # a norm hides what small entries lose by pivoting inside of blocks
    verified = Verified(NAME, m, made, scales, last=carefully, by_rows=not positive)
    if made.is_perturbed:
        verified.check_nonsingular(strict=True)
    return verified


factor_carefully = partial(factor, carefully=True)


def _kind(analysis: Analysis, m: SlotMatrix) -> str:
    if analysis.symmetry == "T" and m.dtype.kind == "c":
        return "sym"
    return "her" if analysis.symmetry else "gen"


class Cudss(Factor):
    """The factor of M, of one solver for all members of a batch.

    how: that of `Solver`; then each member has a solver, as cuDSS matches no batches, and tells the
    pivots of one matrix only.
    """

    def __init__(self, analysis: Analysis, m: SlotMatrix, kind: str, how: str = "") -> None:
        self._analysis, self._m, self._kind, self._how = analysis, m, kind, how
        self._batch = batch_of(m.values, 1)
        values = namespace(m.values).reshape(m.values, (prod(self._batch), m.slots.count))
        self._each = 1 if how else len(values)  # matrices of a solver
        self._solvers = [
            analysis.solver(kind, values[i : i + self._each], how)
            for i in range(0, len(values), self._each)
        ]
        # L L^H raises no pivots: it fails
        self.is_perturbed = any(s.failed or (kind != "pos" and s.perturbed) for s in self._solvers)
        self.nbytes = sum(solver.nbytes for solver in self._solvers)
        if how != "matched":
            for solver in self._solvers:
                weakref.finalize(self, cudss.give_back, solver).atexit = False

    def require_positive(self) -> None:
        """Raise if L L^H met a minor that is not positive, or D has a negative pivot."""
        if self._kind == "pos":
            if any(solver.failed for solver in self._solvers):
                raise NotPositiveDefiniteError(NAME, "a leading minor that is not positive")
        elif negative := max(solver.signs[1] for solver in self._solvers):
            what = f"{negative} negative pivots, one for each negative eigenvalue"
            raise NotPositiveDefiniteError(NAME, what)

    def solve(self, b: Array, op: str) -> Array:
        transposed, conjugated = self._m.slots.turned(op)
        conjugated = conjugated and self._m.dtype.kind == "c"
        # conj(M)^-1 b = conj(M^-1 conj(b)); the other views are modes of the solve
        if conjugated and not transposed:
            return conj(self._solve(conj(b), False, False))
        return self._solve(b, transposed, conjugated)

    def _solve(self, b: Array, transposed: bool, conjugated: bool) -> Array:
        xp = namespace(b)
        whole = broadcast(batch_of(b, 2), self._batch)
        own = (1,) * (len(whole) - len(self._batch)) + self._batch
        # batch axes of b alone are more columns: (*batch, *others, k, n), column by column
        shared = [i for i, size in enumerate(whole) if own[i] == size]
        others = [i for i, size in enumerate(whole) if own[i] != size]
        order = (*shared, *others, len(whole) + 1, len(whole))
        b = xp.permute_dims(spread(b, whole), order)
        columns = cudss.row_major_copy(xp.reshape(b, (prod(self._batch), -1, b.shape[-1])))
        x = xp.zeros_like(columns)
        for i, solver in enumerate(self._solvers):
            some = slice(i * self._each, (i + 1) * self._each)
            solver.solve(x[some], columns[some], transposed, conjugated)
        return xp.permute_dims(xp.reshape(x, b.shape), tuple(np.argsort(order).tolist()))

    def slogdet(self) -> tuple[Array, Array]:
        """The determinants of members by the pivots of an L U of their own, whose rows and columns are
        in one order: other factors exchange rows, and do not tell how often.
        """
        if self._how != "unpivoted":
            try:
                lu = Cudss(self._analysis, self._m, "gen", "unpivoted")
                with under("raise"):
                    return Verified(NAME, self._m, lu).slogdet()
            except SingularMatrixError as error:  # M itself was found regular before
                what = (
                    f"{NAME} has no accurate determinant of this matrix: without exchanges it found"
                )
                advice = 'The host has exchanges: A.to("cpu").'
                raise of_numbers(EngineError(f"{what} {error.evidence}. {advice}")) from None
        if self.is_perturbed:
            raise SingularMatrixError(NAME, "a pivot that is too small")
        xp = namespace(self._m.values)
        pivots = xp.stack([solver.diagonal() for solver in self._solvers])
        size = xp.abs(pivots)
        sign, total = xp.prod(pivots / size, axis=-1), xp.sum(xp.log(size), axis=-1)
        return xp.reshape(sign, self._batch), xp.reshape(total, self._batch)

    def signs(self) -> tuple[int, int] | None:
        if self._batch or self._kind not in ("her", "pos"):
            return None
        return (self._m.n, 0) if self._kind == "pos" else self._solvers[0].signs
