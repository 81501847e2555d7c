"""Sparse: R P A Q C = L U by SciPy's SuperLU, on orderings of ldiv's own.

Where nothing is compiled, SuperLU orders by minimum degree, in each factorization.

The symbolic work (orderings P and Q, the permutation of the values) is done once per pattern. With
a full diagonal or a symmetric pattern, Q = P^T, and pivots stay on the diagonal unless one is 100
times too small (symmetric mode). If A is assumed definite, pivots always stay there, and a negative
one refutes the assumption. Otherwise, and if that fails, columns are ordered by A^T A and rows are
pivoted freely: the last resort for a sparse matrix.
Reference: Demmel, Eisenstat, Gilbert, Li, Liu, SIAM J. Matrix Anal. Appl. 20 (1999).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg._dsolve import _superlu

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.equilibration import Scaling, equilibrated, equilibrated_by_sums
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix, parity
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.factors.escalation import first_nonsingular
from ldiv.engines.libraries import ordering
from ldiv.engines.registry import where_not_cpu
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.sparse_triangular import SparseTriangular

RANK = 50
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "SuperLU"

PER_ROW = 32  # bytes of index arrays: supernodes and permutations


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if structure.pattern is None:
        return "factors sparse matrices only"
    return where_not_cpu(
        device,
        "of sparse matrices only positive definite ones are factored there, by fronts in PyTorch. "
        "Promise assume_a='pos', or move the values to the cpu; dense, triangular and diagonal "
        "matrices are solved where they are",
    )


def analyze(structure: Any) -> SuperLUAnalysis:
    return SuperLUAnalysis(structure.pattern, isinstance(structure, SparseTriangular))


class SuperLUAnalysis(Arrangement):
    """The orderings, and whether pivots stay on the diagonal."""

    def __init__(self, pattern: Pattern, triangular: bool, freely: bool = False) -> None:
        self._given = pattern
        self.triangular = triangular
        self.on_diagonal = not freely and (
            triangular or pattern.has_diagonal or pattern.transposition is not None
        )
        self.spec = "NATURAL"
        rows = cols = None
        if self.on_diagonal and not triangular:
            # one ordering for rows and columns keeps diagonal entries on the diagonal
            rows = cols = ordering.of_sum(pattern)
            self.spec = "MMD_AT_PLUS_A" if cols is None else "NATURAL"
        elif not self.on_diagonal:
            # for A^T A, whose Cholesky factor bounds the fill of L and U under any row exchanges
            cols = ordering.of_columns(pattern)
            self.spec = "COLAMD" if cols is None else "NATURAL"
        super().__init__(pattern, rows, cols)

    @cached_property
    def freely(self) -> SuperLUAnalysis:
        """The orderings for partial pivoting with all rows."""
        return SuperLUAnalysis(self._given, False, freely=True) if self.on_diagonal else self


def factor(symbolic: SuperLUAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    return factorize(symbolic, structure.slot_values(p), assume_a == "pos")


def factor_carefully(symbolic: SuperLUAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    slots = structure.slot_values(p)
    makes = [
        partial(factorize, symbolic.freely, slots, last=True, scaled=s)
        for s in (equilibrated, equilibrated_by_sums)
    ]
    made: Factor = first_nonsingular(makes, makes[0])
    return made


def factorize(
    analysis: SuperLUAnalysis,
    slots: Any,
    positive: bool = False,
    last: bool = False,
    scaled: Scaling = equilibrated,
) -> Verified:
    """The values of A in slots, factored."""
    m = SparseMatrix(NAME, analysis, slots, scaled)
    return Verified(NAME, m, SuperLU(analysis, m, positive), m.scales, last=last)


class SuperLU(Factor):
    """L and U of M."""

    def __init__(self, analysis: SuperLUAnalysis, m: SparseMatrix, positive: bool) -> None:
        # the share of its column's maximum that a diagonal pivot must have: 0 keeps them all
        threshold = (
            0.0 if positive or analysis.triangular else 0.01 if analysis.on_diagonal else 1.0
        )
        try:
            self._lu = _lu(analysis, m.values, threshold)
        except RuntimeError as error:
            if not any(word in str(error) for word in ("singular", "failed to factorize")):
                raise
            raise SingularMatrixError(NAME, "a pivot that is exactly zero") from None
        self._parity = analysis.parity
        # each entry of L and U is a number and a row index of 4 bytes
        self.nbytes = self._lu.nnz * (m.dtype.itemsize + 4) + PER_ROW * m.n
        if positive and not _dominates(m):
            self._require_positive(m)

    def _require_positive(self, m: SparseMatrix) -> None:
        """Raise unless all pivots are positive: without exchanges they show the inertia (Sylvester).

        Rounding errors are measured by the diagonal.
        """
        diagonal = m.diagonal
        if diagonal is None or not (diagonal.real > 0).all():
            raise NotPositiveDefiniteError(NAME, "a number on the diagonal that is not positive")
        # U has its pivots in the order of elimination; column j of M was eliminated as order[j]
        order = self._lu.perm_c
        pivots = self._lu.U.real[order]
        # rounding may lower a pivot of a semidefinite M to -n eps m_jj
        rounding = m.n * m.limits.eps * diagonal.real
        if not np.array_equal(self._lu.perm_r, order) or (pivots <= -rounding).any():
            raise NotPositiveDefiniteError(
                NAME, f"a pivot of {pivots.min():.1e}, not pivoting, where all must be positive"
            )

    def solve(self, b: Any, op: str) -> Any:
        return self._lu.solve(b, op)

    def logabsdet(self) -> Any:
        return np.log(np.abs(self._lu.U)).sum()

    def slogdet(self) -> tuple[Any, Any]:
        # det A = +- prod u_jj, the sign by all permutations: those of ldiv and those of SuperLU
        lu, pivots = self._lu, self._lu.U
        exchanges = self._parity * parity(lu.perm_r) * parity(lu.perm_c)
        return exchanges * (pivots / np.abs(pivots)).prod(), self.logabsdet()


def _dominates(m: SparseMatrix) -> bool:
    """Whether the matrix is diagonally dominant, with a positive diagonal.

    Then no eigenvalue is negative (Gershgorin).
    """
    diagonal = m.diagonal
    # m_jj >= the sum of the other |m_ij| of column j
    return diagonal is not None and bool((2 * diagonal.real >= m.column_sums).all())


def _lu(symbolic: SuperLUAnalysis, values: Any, threshold: float) -> Any:
    """Factor as `scipy.sparse.linalg.splu` does, but keep only the diagonal of U, not L and U."""
    options = {
        "DiagPivotThresh": threshold,
        "ColPerm": symbolic.spec,
        "SymmetricMode": bool(symbolic.on_diagonal or symbolic.spec == "NATURAL"),
    }
    matrix = symbolic.n, len(values), values, symbolic.pattern.indices, symbolic.pattern.indptr
    return _superlu.gstrf(*matrix, csc_construct_func=_diagonal, ilu=False, options=options)


def _diagonal(parts: tuple[Any, Any, Any], shape: tuple[int, int]) -> Any:
    """The diagonal of the triangle (data, indices, indptr), arrays with unused space at the end."""
    data, indices, indptr = parts
    columns = np.repeat(np.arange(shape[1], dtype=indices.dtype), np.diff(indptr))
    return data[: len(columns)][indices[: len(columns)] == columns]
