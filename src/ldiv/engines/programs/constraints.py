"""C_T = M C_B: an independent subset B of the active rows T, and the others as combinations of it.

x depends on the rows B alone. The multipliers y of all of T are y = y_B + N t with C_T^T N = 0: where
some of them are nonnegative on the inequalities, x is optimal, and those of least norm are returned.
Rows are in units of their largest entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.core.arrays.shapes import eps
from ldiv.engines.libraries.program import LOOSE, Values
from ldiv.engines.programs.active_system import dependent
from ldiv.engines.programs.attempts import Attempt, multipliers
from ldiv.engines.programs.numbers import Numbers, or_one

IMPLIED = -1.0  # in `active`: a row that holds because others do
LARGEST = 1 << 26  # entries of dense rows among which dependent ones are sought


class Constraints:
    """The rows of one program."""

    def __init__(self, numbers: Numbers) -> None:
        system = self.system = numbers.system
        self.numbers, C = numbers, system.C
        (self.n, self.k, _, self.w), self.of_matrices = system.sizes, C.shape[0]
        heights = self.heights = numbers.heights[: self.of_matrices].astype(np.float64)
        (i, j), values = C.entries.places, numbers.C.astype(np.float64)
        self.rows: Any = sp.csr_array((values / or_one(heights)[i], (i, j)), shape=C.shape)
        self.rounding = 100 * eps(numbers.C)

    def independent(self, active: Values, slack: Values) -> Values:
        """`active`, with IMPLIED for rows that depend on others. Bounds come first, then equalities,
        then inequalities by their slack.
        """
        active = np.where(active == 0, 0, np.where(active == 0.5, 0.5, 1)).astype(active.dtype)
        *_, upper, lower = self.system.of_rows(active)
        *_, above, below = self.system.of_rows(slack)
        both = (upper == 1) & (lower == 1)
        upper[both & (above > below)] = IMPLIED
        lower[both & (above <= below)] = IMPLIED
        fixed = np.zeros(self.n, bool)
        fixed[: self.w] = (upper > 0) | (lower > 0)
        some = np.flatnonzero(active[: self.of_matrices])
        rows, free = self.rows[some], np.flatnonzero(~fixed)
        if len(some) * len(free) > LARGEST:
            raise dependent(f"{len(some)} active rows that may depend on each other")
        sizes = np.sqrt((rows * rows).sum(axis=1))
        ranks = np.where(some < self.k, -np.inf, self._nearness(slack[some]))
        kept = _independent(rows[:, free].toarray(), self.rounding * sizes, ranks)
        active[some[~kept]] = IMPLIED
        return active

    def _nearness(self, slack: Values) -> Values:
        """Violated rows first, then those that x is on, then the others by decades of their slack."""
        decades = np.ceil(np.log10(np.maximum(slack, 1e-9)))
        return np.where(slack < -10 * self.rounding, -100, decades)

    def row(self, j: int) -> Values:
        """Row j, over its largest entry."""
        if j < self.of_matrices:
            return self.rows[[j]].toarray()[0]
        i, found = j - self.of_matrices, np.zeros(self.n)
        found[i % self.w] = 1 if i < self.w else -1
        return found

    def combination(self, found: Attempt, active: Values, j: int) -> tuple[Values, bool]:
        """(alpha, whether row j is C_B^T alpha): by K [dx; alpha] = [row j; 0]."""
        row, size = self.row(j), sum(self.system.sizes)
        side = np.zeros(size, found.z.dtype)
        side[: self.n] = row
        some, side = found.system, found.system.inside(side)
        u = some.solved(side)
        z = some.outside(u + some.correction(u, side))
        alpha = multipliers(self.numbers, z.astype(np.float64))
        alpha = np.where(active > 0, alpha, 0)
        *_, upper, lower = self.system.of_rows(alpha)
        lower[self.system.of_rows(active)[-1] == 0.5] = 0  # bounds that meet are one row
        rest = row - self.rows.T @ alpha[: self.of_matrices]
        rest[: self.w] -= upper - lower
        least = 10 * self.rounding * self.n**0.5 * (1 + abs(alpha).max(initial=0))
        alpha[abs(alpha) <= 10 * least] = 0  # rounding, which would say that rows belong together
        return alpha, bool(abs(rest).max(initial=0) <= least)

    def null_space(self, found: Attempt, active: Values) -> Values:
        """N (rows, implied rows)."""
        implied = np.flatnonzero(active == IMPLIED)
        N = np.zeros((len(active), len(implied)))
        for i, j in enumerate(implied.tolist()):
            N[:, i] = self.combination(found, active, j)[0]
            N[j, i] = -1
        return N

    def inequalities(self, active: Values) -> Values:
        """Which active rows have multipliers of one sign."""
        found: Values = (active == 1) | (active == IMPLIED)
        found[: self.k] = False
        return found

    def own_multipliers(self, found: Attempt, active: Values) -> Values:
        """y_B."""
        y = np.where(active > 0, found.pull.astype(np.float64), 0)
        *_, lower = self.system.of_rows(y)
        lower[self.system.of_rows(active)[-1] == 0.5] = 0
        return y

    def falls_short(self, found: Attempt, j: int) -> bool:
        """Is A x < b in this row?"""
        x = self.system.split(found.z)[0]
        return bool(self.rows[[j]] @ x < self.numbers.sides[j] / or_one(self.heights)[j])

    def proves(self, y: Values, x: Values) -> bool:
        """Is b^T y < (C^T y)^T x for all x of this size, and of that which the rows say?"""
        rest = self.rows.T @ y[: self.of_matrices]
        *_, upper, lower = self.system.of_rows(y)
        rest[: self.w] += upper - lower
        used, numbers = abs(y) > 0, self.numbers
        along = y[used] @ (numbers.limits / or_one(numbers.heights))[used]
        size = max(abs(x).max(), numbers.terms[used].max())
        return bool(abs(rest).sum() * size < -LOOSE * along)

    def certificate(self, y: Values) -> Values:
        """y in the order of a program's certificate: A, fixed unknowns, G, and finite bounds."""
        of_A, of_G, upper, lower = self.system.of_rows(y)
        *_, ub, lb = self.system.of_rows(self.numbers.sides)
        meet = lb == ub
        bounds = upper[np.isfinite(ub) & ~meet], lower[np.isfinite(lb) & ~meet]
        return np.concatenate([of_A, upper[meet], of_G, *bounds])

    def outside(self, z: Values, y: Values, force: Values) -> Values:
        """z with these multipliers."""
        y = y * or_one(force)
        y[: self.of_matrices] /= or_one(self.heights)
        of_A, of_G, upper, lower = self.system.of_rows(y)
        return np.concatenate([z[: self.n], of_A, of_G, upper - lower]).astype(z.dtype)


def least(
    y: Values, N: Values, signed: Values, rounding: float, margin: float = 0.0
) -> Values | None:
    """y + N t of least norm with entries of at least `margin` where `signed`; None where there is none.

    The least distance t' to G t' >= h, by nonnegative least squares.
    Reference: Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    from scipy.optimize import nnls  # takes as long to load as all of ldiv

    Q, together = np.linalg.qr(N)[0], (abs(N) > 0).any(-1)
    Q[~together] = 0
    y = y - Q @ (Q.T @ y)
    some = signed & together
    if (y[some] >= margin).all():
        return y
    G, h = Q[some], margin - y[some]
    target = np.zeros(G.shape[1] + 1)
    target[-1] = 1
    E = np.vstack([G.T, h])
    u, distance = nnls(E, target)
    if distance < 1e-8:
        return None
    r = E @ u - target
    y = y - Q @ (r[:-1] / r[-1])
    return y if (y[some] >= margin - rounding).all() else None


def _independent(rows: Values, least_sizes: Values, ranks: Values) -> Values:
    """A largest set of rows that do not depend on each other, those of a low rank first; among those of
    one rank the row that is farthest from the span of the others: Gram and Schmidt, twice.
    """
    Q, kept, rank = np.empty_like(rows), np.zeros(len(rows), bool), 0
    for level in np.unique(ranks):
        some = np.flatnonzero(ranks == level)
        rest = rows[some] - rows[some] @ Q[:rank].T @ Q[:rank]
        while rank < rows.shape[1]:
            sizes = np.linalg.norm(rest, axis=1)
            j = np.argmax(sizes / or_one(least_sizes[some]))
            if not sizes[j] > least_sizes[some[j]]:
                break
            v = rest[j] - Q[:rank].T @ (Q[:rank] @ rest[j])
            Q[rank] = v / np.linalg.norm(v)
            kept[some[j]] = True
            rest = rest - np.outer(rest @ Q[rank], Q[rank])
            rest[j] = 0
            rank += 1
    return kept
