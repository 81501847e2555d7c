"""Sparse, of circuit kind: R P A Q = L U + F block by block, in compiled code of ldiv's own.

The matrix is permuted to block triangular form, and each diagonal block factored by columns, with
pivots on the diagonal unless they are 1,000 times too small. There are no dense blocks, which pays
where the factors stay almost as sparse as A. Examples are circuits, power grids and other networks,
blocks that depend on each other in one direction, and small matrices of any kind. The analysis
depends on the pattern alone, and tells how much work there is for each entry of the factors: that
decides; of a large pattern samples come first. The careful attempt takes the largest pivot of each
column. Pivots serve the next matrix with their pattern, too, as long as its factor is as accurate.
What is compiled accepts a factor and a solution, or declines: then L, U and F are looked at here.
Reference: Davis, Palamadai Natarajan, ACM Trans. Math. Softw. 37 (2010).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.sparse_checked import SparseLu
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.factors.analyses import analysed
from ldiv.engines.libraries import mkl_pardiso
from ldiv.engines.libraries.fill_estimate import extrapolated
from ldiv.errors import SingularMatrixError
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric

RANK = 38
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "LU"

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
    if (why_not := sparse_checked.declined(dtype, device)) is not None:
        return why_not
    if _work(structure, _limit(structure)) >= _limit(structure):
        return "is slow where the factors of a matrix fill in"
    return None


def analyze(structure: Any) -> LuAnalysis:
    return LuAnalysis(structure.pattern, _analysis(structure))


def factor(symbolic: LuAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    careful = partial(_verified, symbolic, structure, p)
    # entries, where they are the parameters: as the compiled calls of a rule give them
    own = type(structure) is Sparse
    values = p if own else structure.slot_values(p)
    return symbolic.checked.factor(values, not own, careful, sparse_checked.Accepted)


def factor_carefully(symbolic: LuAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    return _verified(symbolic, structure, p, last=True)


def _verified(symbolic: LuAnalysis, structure: Any, p: Tree, last: bool = False) -> Verified:
    """Factor by compiled code with partial pivoting, and leave the verdict to the common checks."""
    m = SparseMatrix(NAME, symbolic, structure.slot_values(p))
    # with the threshold 1 the pivot is the largest entry of its column
    made = symbolic.checked.eliminated(m.values, 1.0 if last else None)
    if made is None:
        raise SingularMatrixError(NAME, "a pivot that is exactly zero")
    return Verified(NAME, m, Eliminated(made), m.scales, last=last)


def _limit(structure: Any) -> float:
    pattern: Pattern = structure.pattern
    blocks = isinstance(structure, Symmetric) or (
        mkl_pardiso.path() is not None and pattern.transposition is not None
    )
    # a matching without values may put small entries on the diagonal: then pivots leave it, and fill in
    return BESIDE_SUPERLU if pattern.has_diagonal and not blocks else BESIDE_BLOCKS


def _work(structure: Any, limit: float) -> float:
    """Operations per entry of the factors; those of an estimate where it is high enough."""
    pattern: Pattern = structure.pattern
    if pattern.shape[0] == 0:
        return np.inf
    # if the diagonal has gaps, every engine needs a matching, which the analysis finds fastest
    if (pattern.shape[0] > SMALL[0] or pattern.slots > SMALL[1]) and pattern.has_diagonal:
        estimate = structure.cached("fill estimate", lambda: extrapolated(pattern, _counted))
        if estimate >= UNSURE * limit:
            return float(estimate)
    return _analysis(structure).work


def _counted(pattern: Pattern) -> float:
    return SparseLu(pattern).work


def _analysis(structure: Any) -> SparseLu:
    made: SparseLu = analysed(
        "structure of " + __name__, structure, lambda: SparseLu(structure.pattern)
    )
    return made


class LuAnalysis(Arrangement):
    """A pattern with its analysis."""

    def __init__(self, pattern: Pattern, checked: SparseLu) -> None:
        super().__init__(pattern)
        self.checked = checked
        self._rank = self.n  # the analysis has matched rows and columns


class Eliminated(Factor):
    """L, U and F of M, without any check."""

    def __init__(self, made: Any) -> None:
        self._made, self.nbytes = made, made.nbytes

    def solve(self, b: Any, op: str) -> Any:
        # (n, k) row-major, as compiled code reads it
        b = np.ascontiguousarray(b)
        x = np.empty_like(b)
        self._made.solve(b, x, op)
        return x

    def slogdet(self) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self._made.slogdet()
        return found
