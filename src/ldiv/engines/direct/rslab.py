"""Sparse: A = A^T, real or complex: P A P^T = L D L^T by RSLAB, with 1 x 1 and 2 x 2 pivots.

Half the work of an LU, in dense blocks. Read is the lower triangle; a complex Hermitian matrix
would be taken for a symmetric one, and is left to others. The analysis (the better of several
orderings, supernodes) depends on the pattern alone, and serves all dtypes. Pivots come from inside
dense blocks: where none is large enough, RSLAB gives up, and where one is small, the residual tells.
The signs of D are those of the eigenvalues (Sylvester), which refutes a wrong assume_a="pos".
Reference: Bunch, Kaufman, Math. Comp. 31 (1977).
"""

from __future__ import annotations

from threading import current_thread, main_thread
from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.forking import lock
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct import superlu
from ldiv.engines.factor import Factor
from ldiv.engines.libraries import rslab
from ldiv.engines.libraries.threads import run_beside
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.symmetric import Symmetric

RANK = 42
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "Rslab"

LARGE = 10_000  # rows from which the analysis is divided among threads
DIVIDED = 1e8  # operations from which a factorization is: below they cost as much as they gain
LONG = 1e9  # operations, some 30 ms: from there on Ctrl-C must be able to stop them


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or structure.pattern is None:
        return "factors sparse symmetric matrices only"
    if structure.op == "H" and np.dtype(dtype).kind == "c":
        return "factors symmetric matrices; a complex one that is Hermitian is not"
    return rslab.decline(dtype, device)


def analyze(structure: Any) -> RslabAnalysis:
    return RslabAnalysis(structure.pattern)


def factor(symbolic: RslabAnalysis, structure: Any, p: Tree, assume_a: str) -> Factor:
    m, positive = (
        SparseMatrix(NAME, symbolic, structure.slot_values(p), symmetric=True),
        assume_a == "pos",
    )
    # a norm hides what small entries lose by pivoting inside blocks
    by_rows = not positive and m.scales is not None
    return Verified(NAME, m, Rslab(symbolic, m, positive), m.scales, by_rows=by_rows)


class RslabAnalysis(Arrangement):
    """The analysis of the lower triangle of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(pattern)
        self._lower = np.flatnonzero(pattern.indices >= pattern.columns).astype(
            pattern.indices.dtype
        )
        self._analysis: Any = None
        self._work = 0  # operations of a factorization
        self._lock = lock()

    @property
    def heap_bytes(self) -> int:
        """The estimated bytes of RSLAB's analysis: a copy of the lower triangle, and as much again."""
        return 0 if self._analysis is None else 2 * 8 * (len(self._lower) + self.n)

    @cached_property
    def of_superlu(self) -> superlu.SuperLUAnalysis:
        """The analysis for determinants."""
        return superlu.SuperLUAnalysis(self.pattern, False)

    def factorize(self, slots: Any, floor: float | None = None) -> Any:
        """The factor; smaller pivots are lifted to the floor, if there is one."""
        library, values = rslab.calls(), slots[self._lower]
        # RSLAB's analysis reads the first values that come, but depends on their places alone: one
        # thread makes it, all share it, and each factorization has a numeric object of its own
        with self._lock:
            if self._analysis is None:
                self._analysis = self._analyzed(library, values)
                self._work = self._analysis.estimate_memory()["factor_flops"]
        # how many threads may work is asked now: the limit may have changed since the analysis
        factor, settings = self._analysis.factor, rslab.settings(self._work >= DIVIDED)
        # Python hears Ctrl-C between two steps of its main thread only, not inside of compiled code:
        # a long factorization of the main thread moves to another one, and the main thread listens
        if self._work < LONG or current_thread() is not main_thread():
            return factor(values, settings=settings, preconditioner=floor)
        interrupt = library.Interrupt()
        return run_beside(
            lambda: factor(values, settings=settings, preconditioner=floor, interrupt=interrupt),
            interrupt.cancel,
        )

    def _analyzed(self, library: Any, values: Any) -> Any:
        # compressed columns of the lower triangle; slots are sorted by columns, and so are these
        rows, columns = self.pattern.indices[self._lower], self.pattern.columns[self._lower]
        starts = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=self.n))])
        settings = rslab.settings(self.n >= LARGE)
        return library.analyze_ldlt(
            self.n, starts.astype(np.int64), rows.astype(np.int64), values, settings=settings
        )


class Rslab(Factor):
    """L and D of M."""

    def __init__(self, analysis: RslabAnalysis, m: SparseMatrix, positive: bool) -> None:
        self._analysis, self._m = analysis, m
        try:
            self._ldlt = analysis.factorize(m.values)
        except RuntimeError as error:
            raise rslab.refused(NAME, error) from None
        self.nbytes = self._ldlt.heap_bytes
        if positive:
            self._require_positive()

    def _require_positive(self) -> None:
        _, negative, zero = self._ldlt.inertia
        if negative:
            raise NotPositiveDefiniteError(
                NAME, f"{negative} negative pivots, one for each negative eigenvalue"
            )
        if zero:
            raise SingularMatrixError(NAME, "a pivot that is zero")

    def signs(self) -> tuple[int, int] | None:
        """The signs of D (Sylvester); None if A is complex symmetric: its eigenvalues are complex."""
        positive, negative, zero = self._ldlt.inertia
        return None if zero or self._m.dtype.kind == "c" else (positive, negative)

    def solve(self, b: Any, op: str) -> Any:
        """A^T = A, and A^H x = b is A conj(x) = conj(b)."""
        rslab.require_own_process()
        if op == "H" and b.dtype.kind == "c":
            return self.solve(b.conj(), "N").conj()
        if b.shape[1] == 0:
            return b
        if b.shape[1] == 1:
            return self._ldlt.solve(np.ascontiguousarray(b[:, 0]))[:, None]
        return self._ldlt.solve_many(b)

    def logabsdet(self) -> Any:
        """Return log |det A| by SuperLU, since RSLAB does not return D."""
        return superlu.factorize(self._analysis.of_superlu, self._m.values).logabsdet()
