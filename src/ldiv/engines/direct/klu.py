"""Sparse, of circuit kind: R P A Q = L U + F block by block, by RSLAB's KLU.

The matrix is permuted to block triangular form, and each diagonal block factored by columns, with
pivots on the diagonal unless they are 1,000 times too small. There are no dense blocks, which pays
where the factors stay almost as sparse as A: in circuits, power grids and other networks, in blocks
that depend on each other in one direction, and in small matrices of any kind. The analysis depends
on the pattern alone, and tells how much work there is for each entry of the factors: that decides;
of a large pattern samples come first. The careful attempt takes the largest pivot of each column.
Pivots serve the next matrix with their pattern, too, as long as its factor is as accurate. What is
compiled accepts a factor and a solution, or declines: then L, U and F are looked at here.
Where nothing is compiled, RSLAB's KLU does the work: its careful attempt matches large entries to
the diagonal first, and a factor that dies leaves its pivots to the next one
(`ldiv.engines.factors.kept_pivots`).
Reference: Davis, Palamadai Natarajan, ACM Trans. Math. Softw. 37 (2010).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.compiled import in_rows
from ldiv.core.finite import unwarned
from ldiv.core.pattern import Pattern
from ldiv.core.structure import VIEWS, Structure
from ldiv.core.trees import Tree
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.equilibration import Layout
from ldiv.engines.accuracy.limits import INACCURATE, REFINED
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.factors.analyses import analysed
from ldiv.engines.factors.kept_pivots import Kept, Rescaling, Spare, both_sums
from ldiv.engines.libraries import mkl_pardiso, rslab
from ldiv.engines.libraries.fill_estimate import extrapolated
from ldiv.errors import SingularMatrixError
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric

RANK = 38
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "KLU"

# operations per entry of the factors from which other engines are faster, in loops over one pattern
BESIDE_BLOCKS = 35.0  # L D L^T, or PARDISO where it need not fill in a symmetric pattern
BESIDE_SUPERLU = 70.0
# rows, and entries, up to which they are counted; beyond they are estimated first, where that
SMALL = 2000, 24_000
UNSURE = 1.5  # times the limit declines at once


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if structure.pattern is None:
        return "factors sparse matrices only"
    if isinstance(structure, SparseTriangular):
        return "permutes rows and columns of a triangle, which needs no factoring"
    if assume_a == "pos":
        return "cannot tell whether a matrix is positive definite"
    decline = rslab.unsuited if sparse_checked.is_there() else rslab.decline
    if (why_not := decline(dtype, device)) is not None:
        return why_not
    if _work(structure, _limit(structure)) >= _limit(structure):
        return "is slow where the factors of a matrix fill in"
    return None


def analyze(structure: Any) -> KluAnalysis:
    return KluAnalysis(structure.pattern, _analysis(structure))


def factor(symbolic: KluAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    analysis = symbolic.analysis
    if isinstance(analysis, CompiledAnalysis):
        careful = partial(_looked_at, symbolic, structure, p)
        # entries, where they are the parameters: as the compiled calls of a rule give them
        own = type(structure) is Sparse
        values = p if own else structure.slot_values(p)
        found, again = analysis.lu.accepted(in_rows(values), in_slots=not own)
        return (
            careful()
            if found is None
            else sparse_checked.Accepted(found, again, values.dtype, careful)
        )
    slots = structure.slot_values(p)
    kept = analysis.spare.take(slots.dtype)
    made = None if kept is None else _refactorize(symbolic, slots, kept)
    return made or _factorize(symbolic, slots)


def factor_carefully(symbolic: KluAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    if isinstance(symbolic.analysis, CompiledAnalysis):
        return _looked_at(symbolic, structure, p, last=True)
    return _factorize(symbolic, structure.slot_values(p), last=True)


def _looked_at(symbolic: KluAnalysis, structure: Any, p: Tree, last: bool = False) -> Verified:
    """By a compiled factor with pivots of its own, at which the verdict of all engines looks."""
    m = SparseMatrix(NAME, symbolic, structure.slot_values(p))
    made = symbolic.analysis.lu.eliminated(m.values, 1.0 if last else None)
    if made is None:
        raise SingularMatrixError(NAME, "a pivot that is exactly zero")
    return Verified(NAME, m, Eliminated(made), m.scales, last=last)


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


def Analysis(pattern: Pattern) -> CompiledAnalysis | RslabAnalysis:
    return CompiledAnalysis(pattern) if sparse_checked.is_there() else RslabAnalysis(pattern)


def _analysis(structure: Any) -> CompiledAnalysis | RslabAnalysis:
    return analysed("structure of " + __name__, structure, lambda: Analysis(structure.pattern))


class KluAnalysis(Arrangement):
    """A pattern with its analysis."""

    def __init__(self, pattern: Pattern, analysis: CompiledAnalysis | RslabAnalysis) -> None:
        super().__init__(pattern)
        self.analysis: Any = analysis
        self.checked = analysis.lu if isinstance(analysis, CompiledAnalysis) else None
        self._rank = self.n  # the analysis has matched rows and columns


# -- compiled ---------------------------------------------------------------------------------------


class CompiledAnalysis:
    """The block triangular form of a pattern, the ordering of its blocks, and the work."""

    def __init__(self, pattern: Pattern) -> None:
        self.lu = sparse_checked.SparseLu(pattern)
        self.work = self.lu.work


class Eliminated(Factor):
    """L, U and F of M, at which nobody has looked."""

    def __init__(self, made: Any) -> None:
        self._made, self.nbytes = made, made.nbytes

    def solve(self, b: Any, op: str) -> Any:
        b = np.ascontiguousarray(b)
        x = np.empty_like(b)
        self._made.solve(b, x, op)
        return x

    def slogdet(self) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self._made.slogdet()
        return found

    def logabsdet(self) -> Any:
        return self.slogdet()[1]


# -- by RSLAB ---------------------------------------------------------------------------------------


class RslabAnalysis:
    """The block triangular form of a pattern, the ordering of its blocks, and the work."""

    def __init__(self, pattern: Pattern) -> None:
        n = pattern.shape[0]
        starts, rows = (index.astype(np.int64) for index in (pattern.indptr, pattern.indices))
        self.parts = n, starts, rows
        self.spare = Spare()
        self.work = np.inf
        try:
            # matched by the pattern, not by the first values that happen to come
            self._klu = rslab.calls().analyze_klu(
                *self.parts, np.ones(len(rows)), parallel=False, matching=False
            )
        except RuntimeError:  # the pattern alone makes the matrix singular: others say so
            return
        counted = self._klu.estimate_memory()["factor_flops"]
        self.work = counted / max(self._klu.factor_nnz, 1)

    def factorize(self, values: Any, carefully: bool) -> Any:
        library, values = rslab.calls(), np.ascontiguousarray(values)
        if carefully:
            return library.klu_factor(
                *self.parts, values, parallel=False, matching=True, pivot_threshold=1.0
            )
        return self._klu.factor(values, parallel=False)


def _factorize(symbolic: KluAnalysis, slots: Any, last: bool = False) -> Verified:
    """With pivots of its own."""
    m = SparseMatrix(NAME, symbolic, slots)
    try:
        factor = Klu(symbolic.analysis.factorize(m.values, last), symbolic.analysis.spare)
    except RuntimeError as error:
        raise rslab.refused(NAME, error) from None
    verified = Verified(NAME, m, factor, m.scales, last=last)
    if not last:
        factor.keep(m, None, _probe_error(verified))
    return verified


def _refactorize(symbolic: KluAnalysis, slots: Any, kept: Kept) -> Verified | None:
    """With the pivots and scales that were kept, if the factors are as accurate as new ones."""
    rslab.require_own_process()
    try:
        m = _rescaled(symbolic, slots, kept)
        kept.numeric.refactor(np.ascontiguousarray(m.values))
    except (RuntimeError, SingularMatrixError):
        return None
    factor, eps = Klu(kept.numeric, symbolic.analysis.spare), m.limits.eps
    verified = Verified(NAME, m, factor, m.scales)
    usual = min(max(REFINED * eps, 2 * kept.error), INACCURATE * eps)
    if not _probe_error(verified) <= usual:
        return None
    factor.keep(m, kept, kept.error)
    return verified


def _rescaled(symbolic: KluAnalysis, slots: Any, kept: Kept) -> SparseMatrix:
    """M by the kept scales, if there are any and if they balance it."""
    if kept.scales is None:
        return SparseMatrix(NAME, symbolic, slots)
    rescaling = Rescaling(kept)

    def column_sums(layout: Layout, size: Any) -> Any:
        """Those that were compared with the kept ones."""
        found = rescaling.column_sums
        return layout.column_sums(size) if found is None else found

    return SparseMatrix(NAME, symbolic, slots, rescaling, column_sums)


def _probe_error(verified: Verified) -> float:
    with unwarned():
        return float(verified.probe_error())


class Klu(Factor):
    """L, U and F of M."""

    _kept: Kept | None = None  # what is left behind

    def __init__(self, numeric: Any, spare: Spare) -> None:
        self._klu, self._spare = numeric, spare
        self.nbytes = numeric.heap_bytes

    def keep(self, m: SparseMatrix, before: Kept | None, error: float) -> None:
        """For the next factor; drift is measured from when the scales were made."""
        if before is None or before.scales is not m.scales:
            sums = both_sums(m.arrangement.layout, np.abs(m.values))
            before = Kept(self._klu, m.dtype, m.scales, sums, error)
        self._kept = before

    def __del__(self) -> None:
        if self._kept is not None:
            self._spare.leave(self._kept)

    def solve(self, b: Any, op: str) -> Any:
        rslab.require_own_process()
        transposed, conjugated = VIEWS[op]
        if conjugated and b.dtype.kind == "c":
            return self.solve(b.conj(), "T" if transposed else "N").conj()
        if b.shape[1] == 0:
            return b
        if b.shape[1] == 1:
            solve = self._klu.solve_transpose if transposed else self._klu.solve
            return solve(np.ascontiguousarray(b[:, 0]))[:, None]
        if transposed:  # one column at a time
            columns = [self._klu.solve_transpose(np.ascontiguousarray(c)) for c in b.T]
            return np.stack(columns, axis=1)
        return self._klu.solve_many(np.ascontiguousarray(b))

    def logabsdet(self) -> Any:
        """By the pivots of U, without the scales R that KLU gives to rows."""
        rslab.require_own_process()
        pivots, scales = np.abs(self._klu.U.diagonal()), self._klu.row_scale
        return np.log(pivots).sum() - np.log(scales).sum()
