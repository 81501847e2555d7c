"""Sparse, of circuit kind: R P A Q = L U + F block by block, by RSLAB's KLU.

The matrix is permuted to block triangular form, and each diagonal block factored by columns, with
pivots on the diagonal unless they are 1,000 times too small. There are no dense blocks, which pays
where the factors stay almost as sparse as A: in circuits, power grids and other networks, and in
small matrices of any kind. The analysis depends on the pattern alone, and tells how much
work there is for each entry of the factors: that decides. The careful attempt takes the largest
pivot of each column, after a matching of large entries to the diagonal.
A factor that dies leaves its pivots to the next one of its pattern (`ldiv.engines.kept_pivots`).
Reference: Davis, Palamadai Natarajan, ACM Trans. Math. Softw. 37 (2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.pattern import Pattern
from ldiv.core.structure import VIEWS, Structure
from ldiv.core.trees import Tree
from ldiv.engines import rslab_library
from ldiv.engines.analyses import analysed
from ldiv.engines.factor import Factor
from ldiv.engines.kept_pivots import Kept, Spare, both_sums
from ldiv.engines.limits import REFINED
from ldiv.engines.refinement import Arrangement, Refined
from ldiv.engines.singularity_check import direction
from ldiv.errors import SingularMatrixError
from ldiv.structures.sparse_triangular import SparseTriangular

RANK = 38
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True

SPARSE_WORK = 25.0  # operations per entry of the factors from which dense blocks are faster
# where this is not even looked at, since counting would take as long as a factorization of a mesh
PER_COLUMN = 12  # entries of a column, in the mean
LARGEST = 2000  # rows


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if structure.pattern is None:
        return "factors sparse matrices only"
    if isinstance(structure, SparseTriangular):
        return "permutes rows and columns of a triangle, which needs no factoring"
    if assume_a == "pos":
        return "cannot tell whether a matrix is positive definite"
    if (why_not := rslab_library.decline(dtype, device)) is not None:
        return why_not
    if _work(structure) >= SPARSE_WORK:
        return "is slow where the factors of a matrix fill in"
    return None


def analyze(structure: Any) -> Symbolic:
    return Symbolic(structure.pattern, _analysis(structure))


def factor(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return Klu(symbolic, structure.slot_values(p))


def factor_carefully(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return Klu(symbolic, structure.slot_values(p), carefully=True)


def _work(structure: Any) -> float:
    """Operations per entry of the factors; infinite where they are not worth counting."""
    n = structure.shape[0]
    if not 0 < n <= LARGEST or structure.pattern.slots > PER_COLUMN * n:
        return np.inf
    return _analysis(structure).work


def _analysis(structure: Any) -> Analysis:
    return analysed("structure of " + __name__, structure, lambda: Analysis(structure.pattern))


class Analysis:
    """The block triangular form of a pattern, the ordering of its blocks, and the work."""

    def __init__(self, pattern: Pattern) -> None:
        n = pattern.shape[0]
        starts, rows = (index.astype(np.int64) for index in (pattern.indptr, pattern.indices))
        self.parts = n, starts, rows
        self.spare = Spare()
        self.work = np.inf
        try:
            # matched by the pattern, not by the first values that happen to come
            self._klu = rslab_library.calls().analyze_klu(
                *self.parts, np.ones(len(rows)), parallel=False, matching=False
            )
        except RuntimeError:  # the pattern alone makes the matrix singular: others say so
            return
        counted = self._klu.estimate_memory()["factor_flops"]
        self.work = counted / max(self._klu.factor_nnz, 1)

    def factored(self, values: Any, carefully: bool) -> Any:
        library, values = rslab_library.calls(), np.ascontiguousarray(values)
        if carefully:
            return library.klu_factor(
                *self.parts, values, parallel=False, matching=True, pivot_threshold=1.0
            )
        return self._klu.factor(values, parallel=False)


class Symbolic(Arrangement):
    """A pattern with its analysis."""

    def __init__(self, pattern: Pattern, analysis: Analysis) -> None:
        super().__init__(pattern)
        self.analysis = analysis


class Klu(Refined):
    """L, U and F of the equilibrated matrix."""

    _kept: Kept | None = None  # what is left behind

    def __init__(self, symbolic: Symbolic, slots: Any, carefully: bool = False) -> None:
        self._spare = symbolic.analysis.spare
        kept = None if carefully else self._spare.take(slots.dtype)
        if kept is None or not self._refactored(symbolic, slots, kept):
            super().__init__(symbolic, slots, carefully)
            try:
                self._klu = symbolic.analysis.factored(self._values, carefully)
            except RuntimeError as error:
                raise rslab_library.refused(self._name, error) from None
            if not carefully:
                self._keep(None)
        self.nbytes = self._klu.heap_bytes + self._values.nbytes
        self.check_suspect()

    def _refactored(self, symbolic: Symbolic, slots: Any, kept: Kept) -> bool:
        """Whether the pivots and scales that were kept give factors as accurate as new ones."""
        rslab_library.require_own_process()
        self._klu = kept.numeric
        try:
            super().__init__(symbolic, slots, scaled=kept.scaled)
            self._klu.refactor(np.ascontiguousarray(self._values))
        except (RuntimeError, SingularMatrixError):
            return False
        z = direction(symbolic.n).astype(self._values.dtype)
        y = self._solved(z, "N")
        if not self._backward_error(z - self._product(y, "N"), y, z) <= REFINED * self._eps:
            return False
        self._probed = y
        self._keep(kept)
        return True

    def _keep(self, before: Kept | None) -> None:
        """For the next factor; drift is measured from when the scales were made."""
        if before is None or before.scales is not self._scales:
            sums = both_sums(self._arrangement.layout, np.abs(self._values))
            before = Kept(self._klu, self._values.dtype, self._scales, sums)
        self._kept = before

    def __del__(self) -> None:
        if self._kept is not None:
            self._spare.leave(self._kept)

    @property
    def _name(self) -> str:
        return "KLU"

    def _solved(self, b: Any, op: str) -> Any:
        rslab_library.require_own_process()
        transposed, conjugated = VIEWS[op]
        if conjugated and b.dtype.kind == "c":
            return self._solved(b.conj(), "T" if transposed else "N").conj()
        if b.shape[1] == 0:
            return b
        if b.shape[1] == 1:
            solve = self._klu.solve_transpose if transposed else self._klu.solve
            return solve(np.ascontiguousarray(b[:, 0]))[:, None]
        if transposed:  # one column at a time
            columns = [self._klu.solve_transpose(np.ascontiguousarray(c)) for c in b.T]
            return np.stack(columns, axis=1)
        return self._klu.solve_many(np.ascontiguousarray(b))

    def _log_pivots(self) -> Any:
        """Those of U, without the scales R that KLU gives to rows."""
        rslab_library.require_own_process()
        pivots, scales = np.abs(self._klu.U.diagonal()), self._klu.row_scale
        return np.log(pivots).sum() - np.log(scales).sum()
