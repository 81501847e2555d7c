"""One factorization for least squares, held: solutions for many b, and the covariance of x."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.core.arrays.inputs import moved
from ldiv.core.arrays.pytree import register_attributes
from ldiv.core.arrays.shapes import alike, astype, batch_of, numpy_dtype, real, result_dtype
from ldiv.core.arrays.typing import ArrayT, to_caller
from ldiv.core.arrays.validate import as_block, require_batches
from ldiv.core.cached_property import cached_property
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.owners.holder import holding
from ldiv.core.policies.errstate import singular_state, under
from ldiv.core.rules.finite import finite
from ldiv.core.rules.record import snapshot, unrecorded
from ldiv.core.rules.structure import VIEWS
from ldiv.errors import type_error, value_error
from ldiv.linalg.systems.held_factor import HeldFactor
from ldiv.linalg.systems.least_squares_solvers import ByQR, Solver, scaled_rows, solver_of
from ldiv.linalg.systems.sparse_least_squares import Augmented
from ldiv.matrices.matrix import Matrix, beside, replaced
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.sparse_indexing import structure_at

NO_PATTERN = "Write A as a SparseArray or an array."


class FactorizedLstsq(HeldFactor):
    """One factorization for least squares; made by `factorized` with method="lstsq".

    A pytree for JAX, as `Factorized` is: what comes out of a transformation finds its factor by the
    values, or makes it when it is first asked.
    """

    def __init__(self, A: Matrix, damp: float, root: Any = None) -> None:
        self._A = replaced(A, snapshot(A.params))  # later writes to A change nothing
        self._damp, self._root = damp, None if root is None else snapshot(root)
        self._begin(singular_state())
        with unrecorded(), holding(self._holder):
            self._keep_factor()

    def _keep_factor(self) -> None:
        """A solution for no columns, whose factor the solver or the holder keeps."""
        like = leaves(self._A.params)[0]
        self._solver.solve(namespace(like).zeros((self._A.structure.shape[0], 0), **alike(like)))

    @property
    def _given(self) -> tuple[Any, ...]:
        return self._A, self._damp, self._root

    @property
    def _values(self) -> Tree:
        return self._A.params

    @cached_property
    def _solver(self) -> Solver:
        A = self._A if self._root is None else scaled_rows(self._A, self._root)
        return solver_of(A, self._damp)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes, then rows and columns of A."""
        return self._A.shape

    @property
    def dtype(self) -> Any:
        """The dtype of A, in its framework."""
        return self._A.dtype

    def __repr__(self) -> str:
        return f"<FactorizedLstsq of {self._A!r}, damp={self._damp}>"

    def _moved(self, b: Any) -> FactorizedLstsq:
        root = self._root if self._root is None else moved(self._root, b)
        return FactorizedLstsq(beside(self._A, b), self._damp, root)

    @public
    def solve(self, b: ArrayT) -> ArrayT:
        """The solution x for b (m,) or (*batch, m, k), as that of `lstsq`."""
        there = self.beside(b)
        if there is not self:
            return there.solve(b)
        m, like = self._A.structure.shape[0], leaves(self._A.params)[0]
        block, vector = as_block("b", b, m, like)
        require_batches("b", self._A.batch, batch_of(block, 2))
        block = astype(block, result_dtype(block, like))
        if self._root is not None:
            block = astype(self._root, numpy_dtype(block))[..., None] * block
        with under(self._singular), self._finding():
            x = self._solver.solve(block)
        return to_caller(x[..., 0] if vector else x)

    __call__ = solve

    @public
    def covariance(self) -> Any:
        """(A^H W A + damp^2 I)^-1: of a dense A an array (*batch, n, n), of a sparse A a SparseArray
        with the entries on the pattern of A^H A. Times the variance of the noise it is that of x.
        """
        solver = self._of_covariance()
        if isinstance(solver, ByQR):
            return self._finite(solver.covariance)
        assert isinstance(solver.A, SparseArray)
        rows, cols = normal_places(solver.A)
        n = solver.A.structure.shape[1]
        entries = self._finite(partial(solver.inverse_entries, rows, cols))
        return SparseArray(structure_at(rows, cols, (n, n)), entries)

    @public
    def variances(self) -> Any:
        """The diagonal of `covariance`, (*batch, n)."""
        solver = self._of_covariance()
        if isinstance(solver, ByQR):
            C = self._finite(solver.covariance)
            return real(namespace(C).linalg.diagonal(C))
        every = np.arange(solver.A.structure.shape[1])
        return real(self._finite(partial(solver.inverse_entries, every, every)))

    def _finite(self, entries: Callable[[], Any]) -> Any:
        """Entries of the covariance, of the size of 1 / damp^2 where A is wide."""
        with under(self._singular), np.errstate(all="ignore"):
            return finite("a covariance", entries())

    def _of_covariance(self) -> ByQR | Augmented:
        (m, n), solver = self._A.structure.shape, self._solver
        if m < n and not self._damp:
            advice = "A^H A is singular: there is one with damp."
            raise value_error("covariance", "m >= n", f"{m} rows, {n} columns", advice)
        if isinstance(solver, ByQR):
            return solver
        if isinstance(solver, Augmented) and isinstance(solver.K, SparseArray):
            return solver
        raise type_error("covariance", "a sparse or dense A", repr(self._A), NO_PATTERN)


def normal_places(A: SparseArray) -> tuple[Index, Index]:
    """The pattern of A^H A."""
    base, op = A.structure.unview()

    def make() -> tuple[Index, Index]:
        ones = sp.csr_array((np.ones(A.nnz), (A.row, A.col)), shape=A.structure.shape)
        rows, cols = (ones.T @ ones).tocoo().coords
        return rows, cols

    return base.cached(("normal", VIEWS[op][0]), make)


# -- as a pytree: the values vary, all else is static ---


STATIC = "_damp", "_singular"
register_attributes(FactorizedLstsq, ("_A", "_root"), STATIC, lambda F: F._begin(F._singular))
