"""Sparse: A = A^T, real or complex: P A P^T = L D L^T by RSLAB, with 1 x 1 and 2 x 2 pivots.

Half the work of an LU, in dense blocks. Read is the lower triangle; a complex Hermitian matrix
would be taken for a symmetric one, and is left to others. The analysis (the better of several
orderings, supernodes) depends on the pattern alone, and serves all dtypes. Pivots come from inside
dense blocks: where none is large enough, RSLAB gives up, and where one is small, the residual tells.
The signs of D are those of the eigenvalues (Sylvester), which refutes a wrong assume_a="pos".
Reference: Bunch, Kaufman, Math. Comp. 31 (1977).
"""

from __future__ import annotations

from functools import cached_property
from threading import current_thread, main_thread
from typing import Any

import numpy as np

from ldiv.core.forking import lock
from ldiv.core.pattern import Pattern
from ldiv.core.structure import Structure
from ldiv.core.trees import Tree
from ldiv.engines import rslab_library
from ldiv.engines.direct import superlu
from ldiv.engines.factor import Factor
from ldiv.engines.refinement import Arrangement, Refined
from ldiv.engines.threads import run_beside
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.symmetric import Symmetric

RANK = 42
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True

LARGE = 10_000  # rows from which the analysis is divided among threads
DIVIDED = 1e8  # operations from which a factorization is: below they cost as much as they gain
LONG = 1e9  # operations, some 30 ms, for which nobody waits who has pressed Ctrl-C


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or structure.pattern is None:
        return "factors sparse symmetric matrices only"
    if structure.op == "H" and np.dtype(dtype).kind == "c":
        return "factors symmetric matrices; a complex one that is Hermitian is not"
    return rslab_library.decline(dtype, device)


def analyze(structure: Any) -> Symbolic:
    return Symbolic(structure.pattern)


def factor(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return Rslab(symbolic, structure.slot_values(p), assume_a == "pos")


class Symbolic(Arrangement):
    """The analysis of the lower triangle of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(pattern)
        self._lower = np.flatnonzero(pattern.indices >= pattern.columns).astype(
            pattern.indices.dtype
        )
        self._analysis: Any = None
        self._work = 0  # operations of a factorization
        self._lock = lock()

    @cached_property
    def of_superlu(self) -> superlu.Symbolic:
        """The analysis for determinants."""
        return superlu.Symbolic(self.pattern, False)

    def factored(self, slots: Any, floor: float | None = None) -> Any:
        """The factor; smaller pivots are lifted to the floor, if there is one."""
        library, values = rslab_library.calls(), slots[self._lower]
        with self._lock:
            if self._analysis is None:
                self._analysis = self._analyzed(library, values)
                self._work = self._analysis.estimate_memory()["factor_flops"]
        factor, settings = self._analysis.factor, rslab_library.settings(self._work >= DIVIDED)
        if self._work < LONG or current_thread() is not main_thread():
            return factor(values, settings=settings, preconditioner=floor)
        interrupt = library.Interrupt()
        return run_beside(
            lambda: factor(values, settings=settings, preconditioner=floor, interrupt=interrupt),
            interrupt.cancel,
        )

    def _analyzed(self, library: Any, values: Any) -> Any:
        rows, columns = self.pattern.indices[self._lower], self.pattern.columns[self._lower]
        starts = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=self.n))])
        settings = rslab_library.settings(self.n >= LARGE)
        return library.analyze_ldlt(
            self.n, starts.astype(np.int64), rows.astype(np.int64), values, settings=settings
        )


class Rslab(Refined):
    """L and D of the equilibrated matrix."""

    def __init__(self, symbolic: Symbolic, slots: Any, positive: bool) -> None:
        super().__init__(symbolic, slots)
        try:
            self._ldlt = symbolic.factored(self._values)
        except RuntimeError as error:
            raise rslab_library.refused(self._name, error) from None
        self.nbytes = self._ldlt.heap_bytes + self._values.nbytes
        if positive:
            self._require_positive()
        elif self._scales is not None:
            # a norm hides what small entries lose by pivoting inside blocks: refine at least once
            self._min_steps = 1
        self.check_suspect()

    def _require_positive(self) -> None:
        _, negative, zero = self._ldlt.inertia
        if negative:
            raise NotPositiveDefiniteError(
                self._name, f"as many negative eigenvalues as negative pivots, {negative}"
            )
        if zero:
            raise SingularMatrixError(self._name, "a pivot that is zero")

    def signs(self) -> tuple[int, int] | None:
        """Those of D (Sylvester), if the factor is accurate; the scaling is a congruence."""
        positive, negative, zero = self._ldlt.inertia
        if zero or self._values.dtype.kind == "c":
            return None
        return (positive, negative) if self._is_accurate() else None

    def _solved(self, b: Any, op: str) -> Any:
        """A^T = A, and A^H x = b is A conj(x) = conj(b)."""
        rslab_library.require_own_process()
        if op == "H" and b.dtype.kind == "c":
            return self._solved(b.conj(), "N").conj()
        if b.shape[1] == 0:
            return b
        if b.shape[1] == 1:
            return self._ldlt.solve(np.ascontiguousarray(b[:, 0]))[:, None]
        return self._ldlt.solve_many(b)

    def _product(self, x: Any, op: str) -> Any:
        """M is symmetric: by compressed rows, which is read in order, and faster."""
        if op == "H" and x.dtype.kind == "c":
            return self._product(x.conj(), "N").conj()
        return self._arrangement.layout.product(self._values, x, transposed=True)

    def _log_pivots(self) -> Any:
        """By SuperLU: RSLAB does not tell D."""
        symbolic: Symbolic = self._arrangement  # type: ignore[assignment]
        return superlu.SuperLU(symbolic.of_superlu, self._values, False).logabsdet()
