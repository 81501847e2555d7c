"""op(A) x = b by a factored M = R P A Q C, with a check and refinement of each solution.

    error = |r|_max / (|M| |y|_max + |b|_max),   r = b - op(M) y
    y <- y + op(M)^-1 r   while error > 4 eps and it halves
A solution that stays inaccurate raises. P and Q are permutations that an engine asks for, R and C
the scaling of `equilibration`. An engine derives from `Refined`, and says how M is factored, how to
solve with it in the views N, T and H, and what log |det M| is. Permutations, scaling, the probe for
singularity, backward errors and refinement are here, the same for all engines.
Reference: Arioli, Demmel, Duff, SIAM J. Matrix Anal. Appl. 10 (1989); Higham, Accuracy and
Stability, chapter 12.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, cached_property, partial
from math import isfinite, sqrt
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.finite import total, unwarned
from ldiv.core.pattern import Pattern
from ldiv.core.structure import VIEWS
from ldiv.engines.equilibration import Layout, Scaling, equilibrated
from ldiv.engines.factor import Factor
from ldiv.engines.limits import REFINED, limits
from ldiv.engines.singularity_check import (
    SUSPICIOUS,
    direction,
    direction_size,
    require_nonsingular,
    second_look,
)
from ldiv.engines.structural_rank import rank_bound
from ldiv.errors import SingularMatrixError

REFINEMENTS = 5  # at most
ADEQUATE = 16  # eps: for those who look at what they compute from many solves themselves
FEW = 512  # numbers up to which LAPACK's loop finds the largest before NumPy's functions do


class Arrangement:
    """P A Q by columns and by rows; rows[i] is the row of A in place i; without rows A itself."""

    def __init__(self, pattern: Pattern, rows: Any = None, cols: Any = None) -> None:
        self.rows, self.cols = rows, cols
        self.row_place, self.col_place = (
            None if order is None else np.argsort(order) for order in (rows, cols)
        )
        self.is_natural = rows is None and cols is None
        self.pattern = pattern
        if not self.is_natural:
            number = np.arange(pattern.shape[0])
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

    def scaled(self, engine: str, slots: Any, by: Scaling) -> tuple[Any, Any, Any]:
        """The values of M, their absolute values, and the scales (None if it is not scaled).

        A diagonal that is not much smaller than any entry needs no scaling, and shows full rank.
        """
        values = self.arranged(slots)
        if by is equilibrated and self.layout.is_balanced_by_diagonal(size := np.abs(values)):
            return values, size, None
        self.require_rank(engine, values)
        values, scales = by(self.layout, values)
        return values, np.abs(values), scales

    def require_rank(self, engine: str, values: Any) -> None:
        """Raises if the positions of the nonzero entries alone make the matrix singular."""
        diagonal = self.layout.diagonal
        if self.layout.has_empty:
            raise SingularMatrixError(engine, "a row or column without entries", certain=True)
        if diagonal is not None and values[diagonal].all():
            return
        rank = self._rank if values.all() else rank_bound(self.pattern, values != 0)
        if rank < self.n:
            raise SingularMatrixError(
                engine,
                "rows whose entries lie in so few columns that the rank is "
                f"{rank} of {self.n} at most",
                certain=True,
            )

    @cached_property
    def _rank(self) -> int:
        """The structural rank, or a bound below n."""
        return rank_bound(self.pattern)


class Refined(Factor):
    """The matrix M that an engine factors, by its values in the slots of the arrangement.

    The constructor of an engine calls this one, factors, and then calls `check_suspect`.

    `carefully`: this is the last attempt: refine longer, and accept larger errors.
    """

    def __init__(
        self,
        arrangement: Arrangement,
        slots: Any,
        carefully: bool = False,
        scaled: Scaling = equilibrated,
    ) -> None:
        values, size, self._scales = arrangement.scaled(self._name, slots, scaled)
        self._arrangement, self._values = arrangement, values
        self._sums = self._column_sums(arrangement.layout, size)
        self._norm = largest(self._sums)
        if not self._sums.min() > 0:
            raise SingularMatrixError(self._name, "a column of zeros", certain=True)
        accepted = limits(values.dtype)
        self._eps = accepted.eps
        # steps of refinement: at least, whatever the error, and at most
        self._min_steps, self._max_steps = 0, 4 * REFINEMENTS if carefully else REFINEMENTS
        self._tolerance = accepted.accurate if carefully else accepted.usually_accurate
        self._proven = False
        self._probed: Any = None  # the solution for the probe in view N, where it is known
        self._accurate: bool | None = None  # without refinement; None until it was tried

    def _column_sums(self, layout: Layout, size: Any) -> Any:
        """Those of |M|, whose entries are `size`."""
        return layout.column_sums(size)

    @abstractmethod
    def _solved(self, b: Any, op: str) -> Any:
        """op(M)^-1 b for b (n, k) of the matrix's dtype, as the engine finds it."""

    @abstractmethod
    def _log_pivots(self) -> Any:
        """log |det M|."""

    def check_suspect(self, suspicious: bool = False) -> None:
        """The last call of a constructor: a factor that may not be that of M is checked at once."""
        if suspicious:
            self._first_solve(np.empty((self._arrangement.n, 0)), "N", suspicious)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def solve(self, b: Any, op: str) -> Any:
        return self._arranged_solve(self._refined, b, op)

    def solve_unrefined(self, b: Any, op: str) -> Any:
        return self._arranged_solve(
            self._unrefined if self._proven and not self._min_steps else self._refined, b, op
        )

    def _unrefined(self, b: Any, op: str) -> Any:
        """The engine's solution, if the first such solution was nearly as good as a refined one."""
        if self._accurate:
            return self._solved(b, op)
        y = self._solved(b, op)
        if self._accurate is None:
            self._look(y, b, op)
        return y if self._accurate else self._refined(b, op)

    def _look(self, y: Any, b: Any, op: str) -> None:
        """Note how accurate y is, an unrefined solution."""
        error = self._backward_error(b - self._product(y, op), y, b)
        self._accurate = error <= ADEQUATE * self._eps

    def _is_accurate(self) -> bool:
        """Is an unrefined solution accurate? One solve, unless there was one."""
        if self._accurate is None:
            z = direction(self._arrangement.n).astype(self._values.dtype, copy=False)
            self._look(self._solved(z, "N"), z, "N")
        return bool(self._accurate)

    def _arranged_solve(self, solved: Callable[[Any, str], Any], b: Any, op: str) -> Any:
        """op(A)^-1 b from a solve with op(M): permuted and scaled before and after."""
        a, transposed = self._arrangement, VIEWS[op][0]
        order, place = (a.cols, a.row_place) if transposed else (a.rows, a.col_place)
        b = permuted(b, order).astype(self._values.dtype, copy=False)
        if self._scales is None:
            return permuted(solved(b, op), place)
        r, c = self._scales[::-1] if transposed else self._scales
        return permuted(c[:, None] * solved(r[:, None] * b, op), place)

    def logabsdet(self) -> Any:
        """A determinant cannot be refined: the factors themselves must be accurate."""
        self.check_nonsingular()
        self._require_accurate(lambda b: self._solved(b, "N"))
        return self._log_pivots() - sum(np.log(s).sum() for s in self._scales or ())

    def check_nonsingular(self) -> None:
        """Raises now if the matrix appears singular, instead of in the first solve."""
        if not self._proven:
            self._first_solve(np.empty((self._arrangement.n, 0)), "N")

    def _refined(self, b: Any, op: str) -> Any:
        y = self._solved(b, op) if self._proven else self._first_solve(b, op)
        error = np.inf
        for step in range(self._max_steps):
            residual = b - self._product(y, op)
            before, error = error, self._backward_error(residual, y, b)
            enough = step >= self._min_steps and error <= REFINED * self._eps
            if enough or (step > self._min_steps and not error < before / 2):
                break
            y = y + self._solved(residual, op)
        if not error < self._tolerance:
            raise SingularMatrixError(
                self._name,
                f"a backward error of {error:.1e} that iterative refinement does not reduce",
            )
        return y

    def _require_accurate(self, solved: Callable[[Any], Any]) -> None:
        z = direction(self._arrangement.n).astype(self._values.dtype)
        y = solved(z)
        error = self._backward_error(z - self._product(y, "N"), y, z)
        if not error < self._tolerance:
            raise SingularMatrixError(self._name, f"factors with a backward error of {error:.1e}")

    def _first_solve(self, b: Any, op: str, strict: bool = False) -> Any:
        """The first solve, with the probe as an additional column.

        Raises if the growth of the probe, or of a column of b, shows a singular matrix.
        """
        z = direction(self._arrangement.n).astype(self._values.dtype, copy=False)
        if self._probed is not None and op == "N":
            y, of_z = self._solved(b, op), self._probed
        else:
            k = b.shape[1]
            block = np.empty((len(b), k + 1), self._values.dtype, order="F")
            block[:, :k], block[:, k:] = b, z
            both = self._solved(block, op)
            y, of_z = both[:, :k].copy("K"), both[:, k:]
        if strict or not self._is_calm(b, y, of_z):
            self._require_little_growth(b, y, z, of_z, op, strict)
        self._proven = True
        return y

    def _is_calm(self, b: Any, y: Any, of_z: Any) -> bool:
        """A cheap sufficient test for b of one column at most, y and of_z the solutions for b and
        the probe.

        It uses |y|_1 <= sqrt(n) |y|_2 and |b|_1 >= |b|_2.
        """
        n, k = b.shape
        if k > 1:
            return False
        bound = SUSPICIOUS / (self._eps * self._norm * sqrt(n))
        of_probe = bound * direction_size(n)
        return bool(
            total(of_z) < of_probe * of_probe and (k == 0 or total(y) < bound * bound * total(b))
        )

    def _require_little_growth(
        self, b: Any, y: Any, z: Any, of_z: Any, op: str, strict: bool
    ) -> None:
        with unwarned():
            # columns of b that grow are evidence, too, unless they are zero or overflow
            pairs = [
                (np.abs(x).sum(axis=0).tolist(), np.abs(w).sum(axis=0).tolist())
                for x, w in ((b, y), (z, of_z))
            ]
        growths = [
            size / load
            for loads, sizes in pairs
            for size, load in zip(sizes, loads, strict=True)
            if load
        ]
        growth = max(growths[-1], *filter(isfinite, growths), 0.0)
        self._require_nonsingular(z, of_z, op, self._norm * growth, strict)

    def _require_nonsingular(self, z: Any, y: Any, op: str, growth: float, strict: bool) -> None:
        """By the largest `growth`: that of the probe, or of a column of b, each at most cond(M)."""

        def load(r: Any) -> float:
            return float(np.abs(r).sum())

        def look() -> tuple[float, float]:
            product = partial(self._product, op=op)
            residual_growth, *contractions = second_look(
                z, y, product, lambda r: self._solved(r, op), lambda x: self._norm * load(x), load
            )
            return residual_growth, max(contractions)

        require_nonsingular(self._name, growth, self._eps, look, strict)

    def _product(self, x: Any, op: str) -> Any:
        """op(M) x."""
        product = self._arrangement.layout.product
        if op == "H" and self._values.dtype.kind == "c":
            return product(self._values, x.conj(), True).conj()
        return product(self._values, x, op != "N")

    def _backward_error(self, residual: Any, y: Any, b: Any) -> float:
        """The backward error of the worst column."""
        if y.shape[1] == 1:
            whole = self._norm * largest(y) + largest(b)
            return largest(residual) / whole if whole else 0.0
        size = self._norm * np.abs(y).max(0) + np.abs(b).max(0)
        worst = np.abs(residual).max(0)
        return float((worst / np.where(size == 0, 1, size)).max())


def permuted(x: Any, order: Any) -> Any:
    """x[order], in a third of the time; without an order x itself."""
    return x if order is None else x.take(order, axis=0)


def largest(x: Any) -> float:
    """max |x_i|, NaN if one of the numbers is."""
    if 0 < x.size <= FEW:
        return _lange(x.dtype)("M", x.reshape(-1, 1))
    return float(np.abs(x).max())


@cache
def _lange(dtype: np.dtype[Any]) -> Callable[[str, Any], Any]:
    """LAPACK's norms of matrices."""
    return get_lapack_funcs("lange", dtype=dtype)
