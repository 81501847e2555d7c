"""Sparse: A = L L^H, L D L^H, L D L^T or L U by MKL's PARDISO, with its nested dissection.

The assumption on A chooses the kind; symmetric kinds are factored from one triangle, with half the
work. CSC of A is CSR of B = A^T, whose upper triangle is taken; a general A is converted, since
transposed solves take MKL twice as long. PARDISO pivots inside diagonal blocks only, and perturbs
pivots that are too small: it solves singular systems without an error. So if pivots were perturbed,
the matrix is analysed again, with its large entries matched to the diagonal; if they still are,
refinement must confirm the factor.
Reference: Schenk, Gärtner, Electron. Trans. Numer. Anal. 23 (2006); Duff, Koster, SIAM J. Matrix
Anal. Appl. 22 (2001).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.forking import lock
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct import superlu
from ldiv.engines.factor import Factor
from ldiv.engines.libraries import mkl_pardiso
from ldiv.engines.libraries.work import warn_if_dense
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric

RANK = 40
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "Pardiso"
# half the work, and an indefinite matrix is usually found out early
BY_CHOLESKY = True

Key = tuple[str, np.dtype[Any], bool]  # kind, dtype, and whether pivots will be read
# factors that share the first analysis of a pattern; each further analysis has room for twice as
# many
PLACES = 16
LARGEST = 2000  # rows of an unsymmetric pattern with gaps in its diagonal


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if structure.pattern is None:
        return "factors sparse matrices only"
    if isinstance(structure, SparseTriangular):
        return (
            "reorders rows and columns, and so would fill in a triangle, which needs no factoring"
        )
    if device != "cpu":
        return f"runs on the cpu, but the values are on {device}"
    if mkl_pardiso.path() is None:
        return "needs MKL, which is not installed: pip install ldiv[mkl] (Linux and x86-64 only)"
    if structure.shape[0] > LARGEST and not _is_ordered(structure.pattern):
        return (
            f"takes minutes where more than {LARGEST} rows are in disorder: the diagonal has gaps"
        )
    return None


def _is_ordered(pattern: Pattern) -> bool:
    """Whether A + A^T, which MKL orders, is hardly denser than A with rows matched to columns."""
    return pattern.has_diagonal or pattern.transposition is not None


def analyze(structure: Any) -> PardisoAnalyses:
    return PardisoAnalyses(
        structure.pattern, structure.op if isinstance(structure, Symmetric) else ""
    )


class PardisoAnalyses(Arrangement):
    """The analyses of a pattern: one for each kind and dtype, more if many factors are alive."""

    def __init__(self, pattern: Pattern, symmetry: str) -> None:
        super().__init__(pattern)
        self.symmetry = symmetry
        self._readings: dict[bool, Reading] = {}
        self._analyses: dict[tuple[Key, str, int], list[mkl_pardiso.Analysis]] = {}
        self._unmatched: dict[Key, bool] = {}
        self._has_warned = False
        self._lock = lock()

    def factor(self, slots: Any, positive: bool, carefully: bool) -> mkl_pardiso.PardisoFactor:
        """A factor without perturbed pivots, if one of two analyses gives one.

        The first analysis depends on the pattern alone, the second one matches large entries. If
        `carefully`: L U by a matching for these values.
        """
        if carefully:
            return self._by_values(("gen", slots.dtype, False), slots, carefully)
        if positive and slots.dtype.kind == "c":
            return self._positive(slots.dtype, slots)
        kind = self._kind(slots.dtype, positive)
        key = (kind, slots.dtype, False)
        # False once a matching has spared perturbed pivots: then the matching is tried first
        if self._unmatched.get(key, True):
            factor = self._by_pattern(key, slots)
            if not factor.perturbed:
                return factor
        # MKL has only 1 x 1 pivots for complex Hermitian matrices
        by_lu = kind == "her" and slots.dtype.kind == "c"
        factor = self._by_values(("gen", *key[1:]) if by_lu else key, slots)
        self._unmatched[key] = factor.perturbed > 0
        return factor

    def with_pivots(self, slots: Any, positive: bool) -> mkl_pardiso.PardisoFactor:
        """L L^H or L U, whose pivots are numbers, not blocks, and can be read."""
        return self._by_pattern(("pos" if positive else "gen", slots.dtype, True), slots)

    def _positive(self, dtype: Any, slots: Any) -> mkl_pardiso.PardisoFactor:
        """L D L^H, which says whether D is positive, where L L^H of MKL goes on; for a matrix with
        pivots too small to tell L L^H all the same.
        """
        factor = self._by_pattern(("her", dtype, False), slots)
        if factor.perturbed:
            return self._by_pattern(("pos", dtype, False), slots)
        if not (factor.signs() > 0).all():
            raise mkl_pardiso.PardisoError(mkl_pardiso.ZERO_PIVOT)
        return factor

    def _kind(self, dtype: Any, positive: bool) -> str:
        # gen: L U, sym: L D L^T, pos: L L^H, her: L D L^H
        if self.symmetry == "":
            return "gen"
        if self.symmetry == "T" and dtype.kind == "c":
            return "sym"
        return "pos" if positive else "her"

    def _reading(self, kind: str) -> Reading:
        # symmetric kinds are read from one triangle
        half = kind != "gen"
        with self._lock:
            if half not in self._readings:
                self._readings[half] = Reading(self.pattern, half)
            return self._readings[half]

    def _by_pattern(self, key: Key, slots: Any) -> mkl_pardiso.PardisoFactor:
        """Factor by the analysis of the pattern, which serves any values."""
        reading = self._reading(key[0])
        values = reading.values(slots)
        with self._lock:
            opened = self._opened(key, "pattern")
            for analysis in opened:
                # None: all places of this analysis hold live factors
                if (factor := analysis.factor(values)) is not None:
                    return factor
            opened.append(
                mkl_pardiso.Analysis(key[0], key[1], reading.by_rows, PLACES << len(opened), key[2])
            )
            self._warn_once(opened[-1])
            return opened[-1].factor(values)  # type: ignore[return-value]

    def _warn_once(self, analysis: mkl_pardiso.Analysis) -> None:
        """Warn, once for a pattern, if its factorization takes long."""
        if not self._has_warned:
            # a general matrix has two triangles, L and U
            self._has_warned, triangles = True, 1 + (analysis.kind == "gen")
            entries = analysis.entries // triangles
            warn_if_dense(self.pattern, entries, mkl_pardiso.num_threads(), triangles)

    def _by_values(
        self, key: Key, slots: Any, carefully: bool = False
    ) -> mkl_pardiso.PardisoFactor:
        """Factor by the matching for earlier values if it is good enough, else by one for these."""
        reading = self._reading(key[0])
        values = reading.values(slots)
        with self._lock:
            opened = self._opened(key, "carefully" if carefully else "values")
            factor = opened[-1].factor(values) if opened and not carefully else None
            # no matching yet, or one that leaves small pivots for these values: match these values
            if factor is None or factor.perturbed:
                opened[:] = [
                    mkl_pardiso.Analysis(
                        key[0], key[1], reading.by_rows, PLACES, match=values, boldly=carefully
                    )
                ]
                factor = opened[0].factor(values)
            return factor  # type: ignore[return-value]

    def _opened(self, key: Key, how: str) -> list[mkl_pardiso.Analysis]:
        """The analyses so far, of those for as many threads as are allowed now."""
        return self._analyses.setdefault((key, how, mkl_pardiso.num_threads()), [])


class Reading:
    """The values of B in CSR, one triangle or all, with a complete diagonal."""

    def __init__(self, pattern: Pattern, half: bool) -> None:
        # half: CSC of tril(A) is CSR of triu(A^T); else CSC of A^T is CSR of A
        rows, cols = (
            (pattern.indices, pattern.columns) if half else (pattern.columns, pattern.indices)
        )
        kept = np.flatnonzero(rows >= cols) if half else np.arange(pattern.slots)
        # MKL wants each diagonal entry stored, as a zero where the pattern has none
        missing = np.setdiff1d(np.arange(pattern.shape[0]), rows[rows == cols])
        read = Pattern(
            np.concatenate([rows[kept], missing]),
            np.concatenate([cols[kept], missing]),
            pattern.shape,
        )
        self.by_rows = read.indptr.astype(np.int32), read.indices.astype(np.int32)
        self._padded = len(missing) > 0
        # index `pattern.slots`, one past the last slot, stands for a zero
        self._slots = read.slot_values(np.concatenate([kept, np.full(len(missing), pattern.slots)]))

    def values(self, slots: Any) -> Any:
        # `read` has sorted the slots: its slot s takes the value of slot _slots[s] of A
        return (np.append(slots, slots.dtype.type(0)) if self._padded else slots)[self._slots]


def factor(symbolic: PardisoAnalyses, structure: Any, p: Tree, assume_a: str) -> Factor:
    positive = assume_a == "pos" and symbolic.symmetry != ""
    return factorize(symbolic, structure.slot_values(p), positive)


def factor_carefully(symbolic: PardisoAnalyses, structure: Any, p: Tree, assume_a: str) -> Factor:
    return factorize(symbolic, structure.slot_values(p), positive=False, last=True)


def factorize(
    analyses: PardisoAnalyses, slots: Any, positive: bool, last: bool = False
) -> Verified:
    m = SparseMatrix(NAME, analyses, slots)
    factor = Pardiso(analyses, m, positive, last)
    # a norm hides what small entries lose by pivoting inside blocks
    by_rows = not positive and m.scales is not None
    verified = Verified(NAME, m, factor, m.scales, last=last, by_rows=by_rows)
    if factor.is_perturbed:
        verified.check_nonsingular(strict=True)
    return verified


class Pardiso(Factor):
    """The factor of M; `definite` says that it is to be L L^H."""

    def __init__(
        self, analyses: PardisoAnalyses, m: SparseMatrix, definite: bool, carefully: bool
    ) -> None:
        self._analyses, self._m, self._definite = analyses, m, definite
        self._has_solved = False
        # MKL does not always report it for complex matrices
        if definite and (m.diagonal is None or not (m.diagonal.real > 0).all()):
            raise self._not_positive()
        try:
            self._factor = analyses.factor(m.values, definite, carefully)
        except mkl_pardiso.PardisoError as error:
            raise self._diagnosis(error) from None
        self.is_perturbed = self._factor.perturbed > 0
        self.nbytes = self._factor.analysis.nbytes

    def _diagnosis(self, error: mkl_pardiso.PardisoError) -> Exception:
        if error.code not in (mkl_pardiso.ZERO_PIVOT, mkl_pardiso.SINGULAR):
            return error
        if self._definite:
            return self._not_positive()
        return SingularMatrixError(NAME, "a pivot that is exactly zero")

    def _not_positive(self) -> Exception:
        return NotPositiveDefiniteError(NAME, "a pivot that is not positive")

    def solve(self, b: Any, op: str) -> Any:
        x = solved(self._factor, b, op)
        # NaN comes from the square root of a negative pivot
        if self._definite and not self._has_solved and not np.isfinite(x).all():
            raise self._not_positive()
        self._has_solved = True
        return x

    def logabsdet(self) -> Any:
        """Return log |det A|, by another factorization in double precision.

        PARDISO gives pivots only in double precision, and not from its fast two-level algorithm.
        """
        m, analyses = self._m, self._analyses
        slots = m.values.astype(np.result_type(m.dtype, np.float64), copy=False)
        try:
            factor = analyses.with_pivots(slots, self._definite)
            if factor.perturbed:
                raise SingularMatrixError(NAME, "a pivot that is too small")
            with under("raise"):
                return Verified(NAME, m, Pivots(factor, slots.dtype), proven=True).logabsdet()
        except (SingularMatrixError, mkl_pardiso.PardisoError):  # L U here exchanges no rows
            freely = superlu.SuperLUAnalysis(analyses.pattern, False).freely
            return superlu.factorize(freely, slots).logabsdet()


class Pivots(Factor):
    """A factor in double precision, whose pivots can be read."""

    def __init__(self, factor: mkl_pardiso.PardisoFactor, dtype: np.dtype[Any]) -> None:
        self._factor, self._dtype = factor, dtype

    def solve(self, b: Any, op: str) -> Any:
        return solved(self._factor, b.astype(self._dtype), op).astype(b.dtype)

    def logabsdet(self) -> Any:
        return np.log(np.abs(self._factor.pivots())).sum()


def solved(factor: mkl_pardiso.PardisoFactor, b: Any, op: str) -> Any:
    """A^T = B, but a general A was converted to rows; A^H x = b is A^T conj(x) = conj(b)."""
    transposed, conjugated = VIEWS[op]
    flip = transposed == (factor.analysis.kind == "gen")
    if conjugated and b.dtype.kind == "c":
        return factor.solve(b.conj(), flip).conj()
    return factor.solve(b, flip)
