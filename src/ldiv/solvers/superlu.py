"""Sparse: R P A Q C = L U by SciPy's SuperLU, on nested dissection orderings by METIS, equilibrated by powers of two.

Symbolic work (the orderings P and Q, the place of every value) is done once per pattern. With a diagonal that is there, or a
symmetric pattern, Q = P^T and pivots stay on the diagonal unless one is 100 times too small (symmetric mode); where
definiteness is promised they stay in any case, and a negative one says that the promise was broken. Otherwise columns are
ordered by A^T A and rows are pivoted freely. Every solve checks its backward error and refines if it must.
Reference: Demmel, Eisenstat, Gilbert, Li, Liu, SIAM J. Matrix Anal. Appl. 20 (1999); Ruiz, RAL-TR-2001-034, for the scaling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ldiv import ordering
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.pattern import Pattern
from ldiv.probe import direction, require_nonsingular
from ldiv.rule import Tree
from ldiv.solver import Factor
from ldiv.structure import VIEWS, Structure
from ldiv.structures.sparse_triangular import SparseTriangular

RANK = 50
ON_HOST = True
REMEMBERED = True
NAME = "SuperLU"

BALANCED = 1 / 16  # rows and columns whose largest entries lie within this ratio are not scaled
SCALINGS = 10  # at the most; each halves the exponents' spread
REFINED = 4  # a backward error below this many eps needs no refinement
REFINEMENTS = 5  # at the most


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not hasattr(structure, "pattern"):
        return "factors sparse matrices only"
    if device != "cpu":
        return (
            f"runs on the cpu, but the values are on {device}; there is no sparse direct engine for that device yet. "
            "Move the values to the cpu; dense, triangular and diagonal matrices are solved where they are"
        )
    return None


def analyze(structure: Structure) -> Symbolic:
    return Symbolic(structure.pattern, isinstance(structure, SparseTriangular))  # type: ignore[attr-defined]


class Symbolic:
    """The orderings, and the pattern of P A Q by columns and by rows."""

    def __init__(self, pattern: Pattern, triangular: bool) -> None:
        n = pattern.shape[0]
        self.triangular = triangular
        self.on_diagonal = triangular or pattern.transposition is not None or bool(np.bincount(pattern.indices[pattern.indices == pattern.columns], minlength=n).all())
        self.spec = "NATURAL"
        identity = np.arange(n)
        self.rows = self.cols = identity
        if not triangular and self.on_diagonal:
            self.rows = self.cols = ordering.of_sum(pattern)
        elif not triangular:
            columns = ordering.of_columns(pattern)
            self.spec = "COLAMD" if columns is None else "NATURAL"
            self.cols = identity if columns is None else columns
        self.row_place, self.col_place = np.argsort(self.rows), np.argsort(self.cols)
        self.pattern = Pattern(self.row_place[pattern.indices], self.col_place[pattern.columns], pattern.shape)
        by_row = sp.csc_array((identity[:0] if not self.pattern.slots else np.arange(self.pattern.slots), self.pattern.indices, self.pattern.indptr), shape=pattern.shape).tocsr()
        self.by_row, self.row_starts = by_row.data, by_row.indptr[:-1]
        self.col_starts = self.pattern.indptr[:-1]
        self.probed = np.abs(direction(n)).sum()
        self.empty = bool((np.diff(by_row.indptr) == 0).any() or (np.diff(self.pattern.indptr) == 0).any())


def factor(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return SuperLU(symbolic, structure.slot_values(p), assume_a == "pos")


class SuperLU(Factor):
    """L and U of the permuted and equilibrated matrix."""

    def __init__(self, symbolic: Symbolic, slots: Any, positive: bool) -> None:
        if symbolic.empty:
            raise SingularMatrixError(NAME, "a row or column without entries")
        self._symbolic = symbolic
        values, self._row_scale, self._col_scale = _equilibrated(symbolic, symbolic.pattern.slot_values(slots))
        self._a = symbolic.pattern.csc(values)
        self._views: dict[str, Any] = {}
        self._norm = np.add.reduceat(np.abs(values), symbolic.col_starts).max()
        self._eps = float(np.finfo(values.dtype).eps)
        threshold = 0.0 if positive or symbolic.triangular else 0.01 if symbolic.on_diagonal else 1.0
        try:
            self._lu = splu(self._a, symbolic.spec, threshold, options={"SymmetricMode": symbolic.on_diagonal})
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            raise SingularMatrixError(NAME, "a pivot that is exactly zero") from None
        self.nbytes = self._lu.nnz * (values.itemsize + 4) + values.nbytes
        if positive:
            self._require_positive()
        self._require_nonsingular()

    def _require_nonsingular(self) -> None:
        z = direction(len(self._symbolic.rows)).astype(self._a.dtype, copy=False)
        y = self._lu.solve(z)
        size = np.abs(y).sum()
        growth = float(self._norm * size / self._symbolic.probed)
        require_nonsingular(NAME, growth, self._eps, lambda: float(np.abs(self._lu.solve(z - self._a @ y)).sum() / size))

    def _require_positive(self) -> None:
        """Without pivoting the signs of the pivots are those of the eigenvalues (Sylvester)."""
        smallest = self._lu.U.diagonal().real.min()
        if not np.array_equal(self._lu.perm_r, self._lu.perm_c) or smallest <= -self._norm * len(self._symbolic.rows) * self._eps:
            raise NotPositiveDefiniteError(NAME, f"a pivot of {smallest:.1e} in a matrix scaled to 1")

    def solve(self, b: Any, op: str) -> Any:
        transposed, _ = VIEWS[op]
        s = self._symbolic
        if transposed:
            order, place, r, c = s.cols, s.row_place, self._col_scale, self._row_scale
        else:
            order, place, r, c = s.rows, s.col_place, self._row_scale, self._col_scale
        b = b[order].astype(self._a.dtype, copy=False)
        y = self._solve(b if r is None else r[:, None] * b, op)
        return (y if c is None else c[:, None] * y)[place]

    def _solve(self, b: Any, op: str) -> Any:
        """The permuted system: solve, and refine while the backward error |b - A y| / (|A| |y| + |b|) asks for it and falls."""
        a = self._a if op == "N" else self._transposed(op)
        y = self._lu.solve(b, op)
        error = np.inf
        for _ in range(REFINEMENTS):
            residual = b - a @ y
            before, error = error, self._backward_error(residual, y, b)
            if error <= REFINED * self._eps or not error < before / 2:
                break
            y = y + self._lu.solve(residual, op)
        if not error < self._eps ** (2 / 3):
            raise SingularMatrixError(NAME, f"a backward error of {error:.1e} that iterative refinement does not reduce")
        return y

    def _transposed(self, op: str) -> Any:
        if op not in self._views:
            transposed = self._a.T
            self._views[op] = transposed.conj() if op == "H" and self._a.dtype.kind == "c" else transposed
        return self._views[op]

    def _backward_error(self, residual: Any, y: Any, b: Any) -> float:
        """The worst of the columns."""
        axis = None if y.shape[1] == 1 else 0
        size = self._norm * np.abs(y).max(axis) + np.abs(b).max(axis)
        worst = np.abs(residual).max(axis)
        return float(worst / size if size else 0) if axis is None else float((worst / np.where(size == 0, 1, size)).max())

    def logabsdet(self) -> Any:
        pivots = np.log(np.abs(self._lu.U.diagonal())).sum()
        return pivots - sum(np.log(s).sum() for s in (self._row_scale, self._col_scale) if s is not None)


def _equilibrated(symbolic: Symbolic, values: Any) -> tuple[Any, Any, Any]:
    """(values of R A C, r, c) with largest entries near 1 in all rows and columns; r and c None where nothing needs scaling."""
    size = np.abs(values)
    r = c = None
    for _ in range(SCALINGS):
        in_row = np.maximum.reduceat(size[symbolic.by_row], symbolic.row_starts)
        in_col = np.maximum.reduceat(size, symbolic.col_starts)
        both = np.concatenate([in_row, in_col])
        smallest, largest = both.min(), both.max()
        if smallest == 0:
            raise SingularMatrixError(NAME, "a row or column of zeros")
        if smallest >= BALANCED * largest:
            break
        dr, dc = (np.exp2(np.round(-0.5 * np.log2(s))).astype(size.dtype) for s in (in_row, in_col))
        size = size * dr[symbolic.pattern.indices] * dc[symbolic.pattern.columns]
        r, c = (dr, dc) if r is None else (r * dr, c * dc)
    if r is not None:
        values = values * r[symbolic.pattern.indices] * c[symbolic.pattern.columns]
    return values, r, c
