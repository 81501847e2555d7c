"""C_T = M C_B: an independent subset B of the active rows T, and the others as combinations of it.

x depends on the rows B alone. The multipliers y of all of T are y = y_B + N t with C_T^T N = 0. Where
some of them are nonnegative on the inequalities, x is optimal, and those of least norm are returned. Rows
are in units of their largest entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.core.arrays.shapes import eps
from ldiv.engines.libraries.program import LOOSE, Values
from ldiv.engines.programs.active_system import dependent
from ldiv.engines.programs.attempts import Attempt, multipliers
from ldiv.engines.programs.numbers import Numbers, or_one, whole
from ldiv.engines.programs.orthogonal import LARGEST as MANY
from ldiv.engines.programs.orthogonal import ROUNDING, orthogonal

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
        # 0: not active, 0.5: bounds that meet, 1: active; IMPLIED is decided anew
        active = np.where(active == 0, 0, np.where(active == 0.5, 0.5, 1)).astype(active.dtype)
        # views: what is written into these is written into `active`
        *_, upper, lower = self.system.of_rows(active)
        *_, above, below = self.system.of_rows(slack)
        # of two bounds of one unknown, the one with more slack is implied
        both = (upper == 1) & (lower == 1)
        upper[both & (above > below)] = IMPLIED
        lower[both & (above <= below)] = IMPLIED
        # unknowns at a bound are fixed: other rows depend on each other in the free columns
        fixed = np.zeros(self.n, bool)
        fixed[: self.w] = (upper > 0) | (lower > 0)
        some = np.flatnonzero(active[: self.of_matrices])
        rows, free = self.rows[some], np.flatnonzero(~fixed)
        if len(some) * len(free) > LARGEST:
            raise dependent(f"{len(some)} active rows that may depend on each other")
        sizes = np.sqrt((rows * rows).sum(axis=1))
        # equalities first, then inequalities by their slack
        ranks = np.where(some < self.k, -np.inf, self._nearness(slack[some]))
        kept = _independent(rows[:, free].toarray() / or_one(sizes)[:, None], self.rounding, ranks)
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
        # a bound is the row e_i, or -e_i for a lower one
        i, found = j - self.of_matrices, np.zeros(self.n)
        found[i % self.w] = 1 if i < self.w else -1
        return found

    def combination(self, found: Attempt, active: Values, j: int) -> tuple[Values, bool]:
        """(alpha, whether row j is C_B^T alpha): by K [dx; alpha] = [row j; 0]."""
        row, side = self.row(j), np.zeros(sum(self.system.sizes), found.z.dtype)
        side[: self.n] = row
        z = _solved(found, side)
        alpha = multipliers(self.numbers, z.astype(np.float64))
        alpha = np.where(active > 0, alpha, 0)
        # a view of alpha
        *_, lower = self.system.of_rows(alpha)
        lower[self.system.of_rows(active)[-1] == 0.5] = 0  # bounds that meet are one row
        # row_j - C_B^T alpha, which is 0 if the row depends on B
        rest = row - self._combined(self.rows, alpha)
        # rounding of a sum of n terms of sizes up to |alpha|
        least = 10 * self.rounding * self.n**0.5 * (1 + abs(alpha).max(initial=0))
        alpha[abs(alpha) <= 10 * least] = 0  # rounding, which would say that rows belong together
        return alpha, bool(abs(rest).max(initial=0) <= least)

    def edge(self, found: Attempt, active: Values, out: int) -> tuple[Values, float]:
        """(d, d^T P d) with C_B d = 0 but in row `out`, which it leaves."""
        side = np.zeros(sum(self.system.sizes), found.z.dtype)
        # the place of the row's multiplier in z: both bounds of an unknown share one
        of_bound = out - self.of_matrices
        at = self.n + (out if of_bound < 0 else self.of_matrices + of_bound % self.w)
        # C_B d = -e_out: a lower bound, -x_i <= -lb_i, is left by a larger x_i
        side[at] = 1 if of_bound >= self.w else -1
        z = _solved(found, side)
        # P d + C_B^T y = 0, so d^T P d = -(C_B d)^T y
        return z[: self.n], float(-side[at] * z[at])

    def on_a_face(self, active: Values, x: Values) -> Values:
        """Go on from x, downhill, along what neither P nor these rows hold, as far as others let it go,
        and add the row that stops it; until nothing is left, or it is level.
        """
        numbers, active = self.numbers, active.copy()
        P = whole(*numbers.matrices[0])
        P = (P + P.T) / 2
        while self.n <= MANY:
            active_rows = [self.row(j) for j in np.flatnonzero(active > 0).tolist()]
            factors = orthogonal(P, np.reshape(active_rows, (-1, self.n)))
            if factors is None or not factors.flat.size:
                break
            # x + t d goes down, and P and the rows do not hold it, along each axis with a slope
            slopes = factors.flat.T @ (P @ x + numbers.data.q)
            terms = abs(factors.flat).T @ (abs(P) @ abs(x) + abs(numbers.data.q))
            d = -factors.flat @ np.where(abs(slopes) > ROUNDING * eps(P) * terms, slopes, 0)
            if not d.any() or (stop := self.stops(active, x, d)) is None:
                break
            active[stop[0]], x = 1, x + stop[1] * d
        return active

    def stops(self, active: Values, x: Values, d: Values) -> tuple[int, float] | None:
        """The row at which x + t d leaves what is allowed, and t."""
        numbers = self.numbers
        # the row C x <= b is reached at t = (b - C x) / (C d)
        along, slack = numbers.along(d), numbers.limits - numbers.along(x)
        found = (active <= 0) & (along > self.rounding * or_one(numbers.heights) * abs(d).max())
        found[: self.k] = False
        found &= np.isfinite(slack)
        if not found.any():
            return None
        t = np.where(found, np.maximum(slack, 0) / np.where(found, along, 1), np.inf)
        return int(t.argmin()), float(t.min())

    def null_space(self, found: Attempt, active: Values) -> Values:
        """N (rows, implied rows)."""
        implied = np.flatnonzero(active == IMPLIED)
        N = np.zeros((len(active), len(implied)))
        # row_j = C_B^T alpha_j, so the column (alpha_j, -1 at j) has C_T^T N = 0
        for i, j in enumerate(implied.tolist()):
            N[:, i] = self.combination(found, active, j)[0]
            N[j, i] = -1
        return N

    def inequalities(self, active: Values) -> Values:
        """A mask of the active rows whose multipliers have one sign."""
        found: Values = (active == 1) | (active == IMPLIED)
        found[: self.k] = False
        return found

    def own_multipliers(self, found: Attempt, active: Values) -> Values:
        """y_B."""
        y = np.where(active > 0, found.pull.astype(np.float64), 0)
        # bounds that meet are one row, whose multiplier stands with ub
        *_, lower = self.system.of_rows(y)
        lower[self.system.of_rows(active)[-1] == 0.5] = 0
        return y

    def falls_short(self, found: Attempt, j: int) -> bool:
        """Whether A x < b in this row."""
        x = self.system.split(found.z)[0]
        return bool(self.rows[[j]] @ x < self.numbers.sides[j] / or_one(self.heights)[j])

    def proves(self, y: Values, x: Values) -> bool:
        """Whether b^T y < (C^T y)^T x for all x of this size, and of the sizes that all rows imply. What
        rounding of y leaves of C^T y is 0.
        """
        # what is left of C^T y is rounding below 4 eps of the sum of its absolute terms
        rest, most = self._combined(self.rows, y), self._combined(abs(self.rows), abs(y), 1)
        rest[abs(rest) <= 4 * eps(x) * most] = 0
        used, numbers = abs(y) > 0, self.numbers
        # by the signs of y all x have y^T C x <= b^T y: |C^T y|_1 |x| < -b^T y excludes them
        along = y[used] @ (numbers.limits / or_one(numbers.heights))[used]
        size = max(abs(x).max(), numbers.terms.max())
        return bool(abs(rest).sum() * size < -LOOSE * along)

    def _combined(self, rows: Any, y: Values, sign: int = -1) -> Values:
        """C^T y, with these rows of A and G; with sign = 1 lower bounds are x_i, too."""
        found: Values = rows.T @ y[: self.of_matrices]
        *_, upper, lower = self.system.of_rows(y)
        found[: self.w] += upper + sign * lower
        return found

    def certificate(self, y: Values) -> Values:
        """y in the order of a program's certificate: A, fixed unknowns, G, and finite bounds."""
        of_A, of_G, upper, lower = self.system.of_rows(y)
        *_, ub, lb = self.system.of_rows(self.numbers.sides)
        # bounds that meet are equalities of the certificate
        meet = lb == ub
        bounds = upper[np.isfinite(ub) & ~meet], lower[np.isfinite(lb) & ~meet]
        return np.concatenate([of_A, upper[meet], of_G, *bounds])

    def outside(self, z: Values, y: Values, force: Values) -> Values:
        """z with these multipliers."""
        # in the units of the program: times the force, over the largest entry of the row
        y = y * or_one(force)
        y[: self.of_matrices] /= or_one(self.heights)
        of_A, of_G, upper, lower = self.system.of_rows(y)
        return np.concatenate([z[: self.n], of_A, of_G, upper - lower]).astype(z.dtype)


def _solved(found: Attempt, side: Values) -> Values:
    """K^-1 of a right-hand side, corrected."""
    some = found.system
    side = some.inside(side)
    u = some.solved(side)
    return some.outside(u + some.correction(u, side))


def least(
    y: Values, N: Values, signed: Values, rounding: float, margin: float = 0.0
) -> Values | None:
    """y + N t of least norm with entries of at least `margin` where `signed`; None where there is none.

    The least distance t' to G t' >= h, by nonnegative least squares.
    Reference: Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    from scipy.optimize import nnls  # takes as long to load as all of ldiv

    # N t = Q t' with orthonormal Q, in the rows that depend on each other
    Q, together = np.linalg.qr(N)[0], (abs(N) > 0).any(-1)
    Q[~together] = 0
    # the least norm without signs: y - Q Q^T y
    y = y - Q @ (Q.T @ y)
    some = signed & together
    if (y[some] >= margin).all():
        return y
    # min |t'| with G t' >= h: r = [G^T; h^T] u - e_last for the u >= 0 of least |r|, with t' in the
    # unit of y
    unit = or_one(abs(y).max(initial=0))
    G, h = Q[some], (margin - y[some]) / unit
    target = np.zeros(G.shape[1] + 1)
    target[-1] = 1
    E = np.vstack([G.T, h])
    u, distance = nnls(E, target)
    # r = 0: no t' satisfies all inequalities
    if distance < 1e-8:
        return None
    # t' = -unit r / r_last
    r = E @ u - target
    y = y - Q @ (unit * (r[:-1] / r[-1]))
    return y if (y[some] >= margin - rounding).all() else None


def _independent(rows: Values, rounding: float, ranks: Values) -> Values:
    """A largest set of rows, of length 1 or less, that do not depend on each other, those of a low rank
    first. Among those of one rank the row comes first that is farthest from the span of the others: Gram
    and Schmidt, twice. The span of rows, of which the shortest rest has length `least_rest`, is known to rounding over it.
    """
    Q, kept, rank, least_rest = np.empty_like(rows), np.zeros(len(rows), bool), 0, 1.0
    for level in np.unique(ranks):
        some = np.flatnonzero(ranks == level)
        # the part beside the rows kept: (I - Q^T Q) row
        rest = rows[some] - rows[some] @ Q[:rank].T @ Q[:rank]
        while rank < rows.shape[1]:
            sizes = np.linalg.norm(rest, axis=1)
            j = sizes.argmax()
            # a rest is known to rounding / least_rest: a smaller one means a dependent row
            if not sizes[j] * least_rest > rounding:
                break
            # a nearly dependent row leaves a small rest, relative to which rounding is large
            least_rest = min(least_rest, sizes[j])
            # orthogonalized once more
            v = rest[j] - Q[:rank].T @ (Q[:rank] @ rest[j])
            Q[rank] = v / np.linalg.norm(v)
            kept[some[j]] = True
            rest = rest - np.outer(rest @ Q[rank], Q[rank])
            rest[j] = 0
            rank += 1
    return kept
