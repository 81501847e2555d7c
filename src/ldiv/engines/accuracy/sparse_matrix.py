"""A sparse M = R P A Q C by its values in slots: P and Q are permutations that an engine asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.structure import VIEWS
from ldiv.engines.accuracy.equilibration import Layout, Scaling, equilibrated
from ldiv.engines.accuracy.structural_rank import rank_bound
from ldiv.engines.accuracy.verifiable import Normed, largest
from ldiv.errors import SingularMatrixError


class Arrangement:
    """P A Q by columns and by rows; rows[i] is the row of A in place i; without rows A itself."""

    def __init__(self, pattern: Pattern, rows: Any = None, cols: Any = None) -> None:
        self.rows, self.cols = rows, cols
        # the inverse permutations: row i of A is in place row_place[i]
        self.row_place, self.col_place = (
            None if order is None else np.argsort(order) for order in (rows, cols)
        )
        self.is_natural = rows is None and cols is None
        self.pattern = pattern
        if not self.is_natural:
            number = np.arange(pattern.shape[0])
            # entry (i, j) of A is entry (row_place[i], col_place[j]) of P A Q
            self.pattern = Pattern(
                permuted(number, self.row_place)[pattern.indices],
                permuted(number, self.col_place)[pattern.columns],
                pattern.shape,
            )
        self.layout = Layout(self.pattern)
        self.n = pattern.shape[0]

    def arranged(self, slots: Any) -> Any:
        """The values of A in the slots of P A Q."""
        return slots if self.is_natural else self.pattern.slot_values(slots)

    def scaled(self, engine: str, values: Any, by: Scaling) -> tuple[Any, Any, Any]:
        """The values of M, their absolute values, and the scales (None if it is not scaled), from
        the values of P A Q.

        A diagonal that is not much smaller than any entry needs no scaling, and shows full rank.
        """
        if by is equilibrated and self.layout.is_balanced_by_diagonal(size := np.abs(values)):
            return values, size, None
        self.require_rank(engine, values)
        values, scales = by(self.layout, values)
        return values, np.abs(values), scales

    def require_rank(self, engine: str, values: Any) -> None:
        """Raise if the positions of the nonzero entries alone make the matrix singular."""
        diagonal = self.layout.diagonal
        if self.layout.has_empty:
            raise SingularMatrixError(engine, "a row or column without entries", certain=True)
        # a diagonal without zeros matches every row with a column: the structural rank is n
        if diagonal is not None and values[diagonal].all():
            return
        # entries with the value 0 do not count
        rank = self._rank if values.all() else rank_bound(self.pattern, values != 0)
        if rank < self.n:
            raise SingularMatrixError(
                engine,
                "rows whose entries lie in so few columns that the rank is "
                f"{rank} of {self.n} at most",
                certain=True,
            )

    @cached_property
    def parity(self) -> int:
        """The sign of the permutations of rows and columns, together."""
        # det (P A P^T) = det A
        if self.rows is self.cols or np.array_equal(self.rows, self.cols):
            return 1
        signs = [1 if order is None else parity(order) for order in (self.rows, self.cols)]
        return signs[0] * signs[1]

    @cached_property
    def _rank(self) -> int:
        """The structural rank, or a bound below n."""
        return rank_bound(self.pattern)


class SparseMatrix(Normed):
    """The matrix M that an engine factors, by its values in the slots of the arrangement.

    A structurally singular one raises. Its norm, for rows as for columns, is that of its columns.
    `symmetric`: M is its transpose, which is read in order, and so faster.
    """

    has_sizes = True

    def __init__(
        self,
        engine: str,
        arrangement: Arrangement,
        slots: Any,
        scaled: Scaling = equilibrated,
        symmetric: bool = False,
    ) -> None:
        self.arrangement, self._symmetric = arrangement, symmetric
        values = arrangement.arranged(slots)
        # nothing to scale where the diagonal shows balance, nor any look at the rank
        sums = arrangement.layout.balanced_sums(values) if scaled is equilibrated else None
        if sums is not None:
            self.values, self.scales, (self.column_sums, least, self._norm) = values, None, sums
        else:
            self.values, size, self.scales = arrangement.scaled(engine, values, scaled)
            self.column_sums = arrangement.layout.column_sums(size)
            least, self._norm = self.column_sums.min(), largest(self.column_sums[:, None])
        super().__init__(arrangement.n, self.values.dtype, self.values.nbytes)
        if not least > 0:
            raise SingularMatrixError(engine, "a column of zeros", certain=True)

    @property
    def diagonal(self) -> Any:
        """The diagonal of M, None if it has gaps."""
        at = self.arrangement.layout.diagonal
        return None if at is None else self.values[at]

    def norm(self, op: str) -> float:
        return self._norm

    def product(self, x: Any, op: str) -> Any:
        # M^H x = conj(M^T conj(x)), and M^T = M if M is symmetric
        if op == "H" and self.dtype.kind == "c":
            return self.product(x.conj(), "N" if self._symmetric else "T").conj()
        # compressed columns of M are compressed rows of M^T
        return self.arrangement.layout.product(self.values, x, self._symmetric or op != "N")

    def sizes(self, x: Any, op: str) -> Any:
        transposed = self._symmetric or op != "N"
        return self.arrangement.layout.product(np.abs(self.values), np.abs(x), transposed)

    def _residual(self, b: Any, x: Any, op: str) -> tuple[Any, tuple[float, float, float]] | None:
        """r, max |r|, max |x| and max |b| in compiled loops, None where there are none for these."""
        compiled = self.arrangement.layout.compiled
        if compiled is None or b.shape[1] != 1 or (op == "H" and self.dtype.kind == "c"):
            return None
        if not b.dtype == x.dtype == self.dtype:
            return None
        b, x = np.ascontiguousarray(b), np.ascontiguousarray(x)
        r = np.empty_like(b)
        values = np.ascontiguousarray(self.values)
        return r, compiled.residual(values, x, b, r, self._symmetric or op != "N")

    def checked_residual(self, b: Any, x: Any, op: str) -> tuple[Any, bool]:
        if (found := self._residual(b, x, op)) is None:
            return super().checked_residual(b, x, op)
        r, (r_size, x_size, _) = found
        # |r| <= enough |M| |x| in the max norm
        return r, r_size <= self.enough * self._norm * x_size

    def measured(self, b: Any, x: Any, op: str) -> tuple[Any, Any]:
        if (found := self._residual(b, x, op)) is None:
            return super().measured(b, x, op)
        return found[0], self._error_of_sizes(*found[1], op)

    def arranged(self, b: Any, op: str) -> Any:
        a = self.arrangement
        # rows of op(M): those of M, or its columns if op transposes
        order = a.cols if VIEWS[op][0] else a.rows
        return permuted(b, order).astype(self.dtype, copy=False)

    def rearranged(self, x: Any, op: str) -> Any:
        a = self.arrangement
        return permuted(x, a.row_place if VIEWS[op][0] else a.col_place)


def permuted(x: Any, order: Any) -> Any:
    """x[order], in a third of the time; without an order x itself."""
    return x if order is None else x.take(order, axis=0)


def parity(order: Any) -> int:
    """The sign of a permutation: -1 to the number of its elements less that of its cycles."""
    n = len(order)
    graph = sp.csr_array((np.ones(n, bool), order, np.arange(n + 1)), shape=(n, n))
    cycles = connected_components(graph, directed=False, return_labels=False)
    return -1 if (n - cycles) % 2 else 1
