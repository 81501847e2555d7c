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
from scipy.sparse.linalg import splu

from ldiv import ordering
from ldiv.equilibration import Layout, equilibrated
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.pattern import Pattern
from ldiv.probe import direction, require_nonsingular, second_look
from ldiv.rule import Tree
from ldiv.solver import Factor
from ldiv.structure import VIEWS, Structure
from ldiv.structures.sparse_triangular import SparseTriangular

RANK = 50
ON_HOST = True
REMEMBERED = True
NAME = "SuperLU"

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
        has_diagonal = np.count_nonzero(pattern.indices == pattern.columns) == n
        self.triangular = triangular
        self.on_diagonal = triangular or has_diagonal or pattern.transposition is not None
        self.spec = "NATURAL"
        self.rows = self.cols = np.arange(n)
        if not triangular and self.on_diagonal:
            self.rows = self.cols = ordering.of_sum(pattern)
        elif not triangular:
            columns = ordering.of_columns(pattern)
            if columns is None:
                self.spec = "COLAMD"
            else:
                self.cols = columns
        self.row_place, self.col_place = np.argsort(self.rows), np.argsort(self.cols)
        self.pattern = Pattern(self.row_place[pattern.indices], self.col_place[pattern.columns], pattern.shape)
        self.layout = Layout(self.pattern)
        self.probed = float(np.abs(direction(n)).sum())


def factor(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return SuperLU(symbolic, structure.slot_values(p), assume_a == "pos")


class SuperLU(Factor):
    """L and U of the permuted and equilibrated matrix."""

    def __init__(self, symbolic: Symbolic, slots: Any, positive: bool) -> None:
        if symbolic.layout.has_empty:
            raise SingularMatrixError(NAME, "a row or column without entries")
        self._symbolic = symbolic
        values, self._scales = equilibrated(symbolic.layout, symbolic.pattern.slot_values(slots))
        self._a = symbolic.pattern.csc(values)
        self._views: dict[str, Any] = {}
        sums = symbolic.layout.column_sums(values)
        self._norm = float(sums.max())
        self._eps = float(np.finfo(values.dtype).eps)
        threshold = 0.0 if positive or symbolic.triangular else 0.01 if symbolic.on_diagonal else 1.0
        try:
            self._lu = splu(self._a, symbolic.spec, threshold, options={"SymmetricMode": symbolic.on_diagonal})
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            raise SingularMatrixError(NAME, "a pivot that is exactly zero") from None
        self.nbytes = self._lu.nnz * (values.itemsize + 4) + values.nbytes
        if positive and not self._dominates(sums):
            self._require_positive()
        self._require_nonsingular()

    def _require_nonsingular(self) -> None:
        z = direction(len(self._symbolic.rows)).astype(self._a.dtype, copy=False)
        y = self._lu.solve(z)

        def load(r: Any) -> float:
            return float(np.abs(r).sum())

        def look() -> tuple[float, float]:
            again, *contractions = second_look(z, y, lambda x: self._a @ x, self._lu.solve, lambda x: self._norm * load(x), load)
            return again, max(contractions)

        require_nonsingular(NAME, self._norm * load(y) / self._symbolic.probed, self._eps, look)

    def _dominates(self, sums: Any) -> bool:
        """A diagonal that is positive and no smaller than the rest of its column: no eigenvalue is negative (Gershgorin)."""
        at = self._symbolic.layout.diagonal
        return at is not None and bool((2 * self._a.data[at].real >= sums).all())

    def _require_positive(self) -> None:
        """Without pivoting the signs of the pivots are those of the eigenvalues (Sylvester)."""
        self.nbytes *= 2  # SciPy keeps the copies of L and U that it makes here
        smallest = self._lu.U.diagonal().real.min()
        if not np.array_equal(self._lu.perm_r, self._lu.perm_c) or smallest <= -self._norm * len(self._symbolic.rows) * self._eps:
            raise NotPositiveDefiniteError(NAME, f"a pivot of {smallest:.1e}, not pivoting, where all must be positive")

    def solve(self, b: Any, op: str) -> Any:
        transposed, _ = VIEWS[op]
        s = self._symbolic
        if transposed:
            order, place = s.cols, s.row_place
        else:
            order, place = s.rows, s.col_place
        b = b[order].astype(self._a.dtype, copy=False)
        if self._scales is None:
            return self._solve(b, op)[place]
        r, c = self._scales[::-1] if transposed else self._scales
        return (c[:, None] * self._solve(r[:, None] * b, op))[place]

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
            self._views[op] = self._symbolic.layout.transposed(self._a.data.conj() if op == "H" else self._a.data)
        return self._views[op]

    def _backward_error(self, residual: Any, y: Any, b: Any) -> float:
        """The worst of the columns."""
        axis = None if y.shape[1] == 1 else 0
        size = self._norm * np.abs(y).max(axis) + np.abs(b).max(axis)
        worst = np.abs(residual).max(axis)
        return float(worst / size if size else 0) if axis is None else float((worst / np.where(size == 0, 1, size)).max())

    def logabsdet(self) -> Any:
        pivots = np.log(np.abs(self._lu.U.diagonal())).sum()
        return pivots - sum(np.log(s).sum() for s in self._scales or ())
