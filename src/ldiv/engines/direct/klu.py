"""Sparse, of circuit kind: R P A Q = L U + F block by block, by RSLAB's KLU.

The matrix is permuted to block triangular form, and each diagonal block factored by columns, with
pivots on the diagonal unless they are 1,000 times too small. There are no dense blocks, which pays
where the factors stay almost as sparse as A: in circuits, power grids and other networks, in blocks
that depend on each other in one direction, and in small matrices of any kind. The analysis depends
on the pattern alone, and tells how much work there is for each entry of the factors: that decides;
of a large pattern samples come first. The careful attempt takes the largest pivot of each column,
after a matching of large entries to the diagonal.
A factor that dies leaves its pivots to the next one of its pattern (`ldiv.engines.kept_pivots`).
Reference: Davis, Palamadai Natarajan, ACM Trans. Math. Softw. 37 (2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.finite import unwarned
from ldiv.core.pattern import Pattern
from ldiv.core.structure import VIEWS, Structure
from ldiv.core.trees import Tree
from ldiv.engines import mkl_pardiso, rslab_library
from ldiv.engines.analyses import analysed
from ldiv.engines.equilibration import Layout
from ldiv.engines.factor import Factor
from ldiv.engines.fill_estimate import extrapolated
from ldiv.engines.kept_pivots import Kept, Rescaling, Spare, both_sums
from ldiv.engines.limits import REFINED
from ldiv.engines.refinement import Arrangement, Refined
from ldiv.engines.singularity_check import direction
from ldiv.errors import SingularMatrixError
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric

RANK = 38
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True

# operations per entry of the factors from which other engines are faster, in loops over one pattern
BESIDE_BLOCKS = 35.0  # L D L^T, or PARDISO where it need not fill in a symmetric pattern
BESIDE_SUPERLU = 70.0
# rows, and entries, up to which they are counted; beyond they are estimated first, where that
SMALL = 2000, 24_000
UNSURE = 1.5  # times the limit declines at once
INACCURATE = 1e5  # times eps, an error that is not accepted of pivots of another matrix


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if structure.pattern is None:
        return "factors sparse matrices only"
    if isinstance(structure, SparseTriangular):
        return "permutes rows and columns of a triangle, which needs no factoring"
    if assume_a == "pos":
        return "cannot tell whether a matrix is positive definite"
    if (why_not := rslab_library.decline(dtype, device)) is not None:
        return why_not
    if _work(structure, _limit(structure)) >= _limit(structure):
        return "is slow where the factors of a matrix fill in"
    return None


def analyze(structure: Any) -> Symbolic:
    return Symbolic(structure.pattern, _analysis(structure))


def factor(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return Klu(symbolic, structure.slot_values(p))


def factor_carefully(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return Klu(symbolic, structure.slot_values(p), carefully=True)


def _limit(structure: Any) -> float:
    pattern: Pattern = structure.pattern
    blocks = isinstance(structure, Symmetric) or (
        mkl_pardiso.path() is not None and pattern.transposition is not None
    )
    # what a matching finds without values may be small: then pivots leave the diagonal, and fill in
    return BESIDE_SUPERLU if pattern.has_diagonal and not blocks else BESIDE_BLOCKS


def _work(structure: Any, limit: float) -> float:
    """Operations per entry of the factors; those of an estimate where it is high enough."""
    pattern: Pattern = structure.pattern
    if pattern.shape[0] == 0:
        return np.inf
    # where the diagonal has gaps, the analysis is the fastest way to a matching, which all need
    if (pattern.shape[0] > SMALL[0] or pattern.slots > SMALL[1]) and pattern.has_diagonal:
        estimate = structure.cached("fill estimate", lambda: extrapolated(pattern, _counted))
        if estimate >= UNSURE * limit:
            return float(estimate)
    return _analysis(structure).work


def _counted(pattern: Pattern) -> float:
    return Analysis(pattern).work


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
        self._rank = self.n  # the analysis has matched rows and columns


class Klu(Refined):
    """L, U and F of the equilibrated matrix."""

    _kept: Kept | None = None  # what is left behind
    _rescaling: Rescaling | None = None

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
                self._keep(None, self._probe())
        self.nbytes = self._klu.heap_bytes + self._values.nbytes
        self.check_suspect()

    def _refactored(self, symbolic: Symbolic, slots: Any, kept: Kept) -> bool:
        """Whether the pivots and scales that were kept give factors as accurate as new ones."""
        rslab_library.require_own_process()
        self._klu = kept.numeric
        try:
            self._rescaling = Rescaling(kept)
            super().__init__(symbolic, slots, scaled=self._rescaling)
            self._klu.refactor(np.ascontiguousarray(self._values))
        except (RuntimeError, SingularMatrixError):
            self._rescaling = None
            return False
        usual = min(max(REFINED * self._eps, 2 * kept.error), INACCURATE * self._eps)
        if not self._probe() <= usual:
            return False
        self._keep(kept, kept.error)
        return True

    def _column_sums(self, layout: Layout, size: Any) -> Any:
        """Those that were compared with the kept ones."""
        rescaling, self._rescaling = self._rescaling, None
        if rescaling is not None and rescaling.column_sums is not None:
            return rescaling.column_sums
        return super()._column_sums(layout, size)

    def _probe(self) -> float:
        """The backward error of an unrefined solution, which the first solve will need."""
        z = direction(self._arrangement.n).astype(self._values.dtype, copy=False)
        with unwarned():
            y = self._probed = self._solved(z, "N")
            return self._backward_error(z - self._product(y, "N"), y, z)

    def _keep(self, before: Kept | None, error: float) -> None:
        """For the next factor; drift is measured from when the scales were made."""
        if before is None or before.scales is not self._scales:
            sums = both_sums(self._arrangement.layout, np.abs(self._values))
            before = Kept(self._klu, self._values.dtype, self._scales, sums, error)
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
