"""The optimality system of a quadratic program, on one pattern for any active rows.

    [P    C^T D   B     ] [x]   [-q   ]      C = [A; G], d = [b; h]
    [D C  D - I         ] [y] = [D d  ]      D = 1 for the rows of C that are active, B = 1 for unknowns
    [B            B - I ] [w]   [ c   ]      at a bound, c the bound there; 0 for rows that are implied

The multiplier of a row with 0 is 0. `active` (*batch, k + m + 2 n) says D and B for A, G, ub and lb
in turn; where bounds meet, each of them is active by half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, take
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.structure import Structure, outer
from ldiv.engines.factors.analyses import analysed
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

X = TypeVar("X")  # arrays of one type
T = TypeVar("T")
KEPT = 64  # index sets of which something is kept


class Data(NamedTuple):
    """The numbers of a program: entries of P, A and G, and vectors."""

    P: Any
    q: Any
    A: Any
    b: Any
    G: Any
    h: Any
    lb: Any
    ub: Any


class Restricted(NamedTuple):
    """A part of K: its structure, its entries among those of K, its unknowns among those of z, and where
    those of z are among its unknowns and a 0 behind them.
    """

    structure: Structure
    entries: Any
    unknowns: Any
    places: Any


@dataclass(frozen=True)
class Optimality:
    """The patterns of P (n, n), A (k, n), G (m, n), and whether there are bounds."""

    P: Sparse
    A: Sparse
    G: Sparse
    bounds: bool
    latest: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """The sizes of x, y, z and w."""
        n = self.P.shape[0]
        return n, self.A.shape[0], self.G.shape[0], n if self.bounds else 0

    @cached_property
    def C(self) -> Sparse:
        """The rows of A, then those of G."""
        return self.P.cached(("rows", self.A, self.G), lambda: Sparse(_below(self.A, self.G)))

    @property
    def rows(self) -> int:
        """The number of constraints: rows of A, rows of G, upper and lower bounds."""
        return self.sizes[1] + self.sizes[2] + 2 * self.sizes[3]

    @cached_property
    def structure(self) -> Structure:
        key = ("optimality", self.A, self.G, self.bounds)
        return self.P.cached(key, lambda: Symmetric(Sparse(self.pattern)))

    @cached_property
    def pattern(self) -> Pattern:
        (n, k, m, w), P, C = self.sizes, self.P.entries, self.C.entries
        start, unknowns = n + k + m, np.arange(w)
        # the blocks P, C, C^T, D - I, B, B^T and B - I, in the order of `values`
        of_rows, of_bounds, y = n + np.arange(k + m), start + unknowns, n + C.rows
        rows = P.rows, y, C.cols, of_rows, of_bounds, unknowns, of_bounds
        cols = P.cols, C.cols, y, of_rows, unknowns, of_bounds, of_bounds
        return Pattern(np.concatenate(rows), np.concatenate(cols), (start + w, start + w))

    def restricted(self, active: Any) -> Restricted:
        """The system without the rows that are not active, of one program whose numbers are here: what is
        fixed falls out of its graph, so that factors are sparser.
        """
        return self.kept("restricted", (active,), lambda: self._without(active))

    def kept(self, name: str, of: Sequence[Any], make: Callable[[], T]) -> T:
        """Return what depends on these index sets; for each name the last ones are kept."""
        key, known = tuple([x.tobytes() for x in of]), self.latest.setdefault(name, {})
        if key not in known:
            if len(known) >= KEPT:
                known.clear()
            known[key] = make()
        return known[key]

    def _without(self, active: Any) -> Restricted:
        n, k, m, _ = self.sizes
        active_rows = active[: k + m] > 0, self.at_bound(active) > 0
        kept = np.concatenate([np.ones(n, bool), *active_rows])
        # the numbers of the kept unknowns in the smaller system
        (i, j), at = self.pattern.places, np.cumsum(kept) - 1
        entries = kept[i] & kept[j] & ((i != j) | (i < n))  # E - I, D - I and B - I are 0
        count = int(kept.sum())
        pattern = Pattern(at[i[entries]], at[j[entries]], (count, count))
        # what is left out has the place of the 0 behind the last unknown
        structure, places = Symmetric(Sparse(pattern)), np.where(kept, at, count)
        return Restricted(structure, np.flatnonzero(entries), np.flatnonzero(kept), places)

    def values(self, P: Array, C: Array, active: Array, own: float = 1.0) -> Any:
        """The entries of K, or with own = 0 those of its tangent."""
        of_C, at_bound = self.of_matrices(active), self.at_bound(active)
        # D of the row in which each entry of C is
        is_active = take(of_C, self.C.entries.places[0])
        C = C + 0 * is_active  # the derivative of `where` in autograd cannot broadcast
        C = namespace(C).where(is_active > 0, C, 0 * C)  # no product, which has zeros of two signs
        # own = 0 for a tangent, in which D and B are constants
        own_bounds = own * at_bound
        parts = P, C, C, own * (of_C - 1), own_bounds, own_bounds, own_bounds - own
        return side_by_side(parts)

    def at_bound(self, active: Array) -> Array:
        *_, upper, lower = self.of_rows(active)
        return upper + lower

    def in_system(self, x: Array, active: Array) -> Any:
        """A mask of the unknowns of z in the system: x, and the multipliers of its rows."""
        return side_by_side((1 + 0 * x, self.of_matrices(active), self.at_bound(active)))

    def of_matrices(self, x: X) -> X:
        """The part that belongs to A and G."""
        given: Any = x
        return given[..., : self.C.shape[0]]

    def of_rows(self, x: X) -> tuple[X, X, X, X]:
        """The parts that belong to A, G, ub and lb."""
        _, k, m, w = self.sizes
        given: Any = x
        at = 0, k, k + m, k + m + w
        return given[..., :k], given[..., k : at[2]], given[..., at[2] : at[3]], given[..., at[3] :]

    def side(self, q: Array, sides: Array, active: Array) -> Any:
        """The right-hand side, of b, h, ub and lb; infinite sides are not active."""
        # D d; the product 0 inf would be NaN
        active_sides = active * namespace(q).where(active > 0, sides + 0 * active, 0 * active)
        return side_by_side((-q, self.of_matrices(active_sides), self.at_bound(active_sides)))

    def split(self, z: X) -> tuple[X, X, X, X]:
        """x, y, z and w."""
        n, k, m, _ = self.sizes
        given: Any = z
        at = n, n + k, n + k + m
        return given[..., :n], given[..., n : at[1]], given[..., at[1] : at[2]], given[..., at[2] :]

    def cotangents(
        self, need: tuple[Any, ...], P: Array, C: Array, lam: Array, z: Array
    ) -> tuple[Any, ...]:
        """The cotangents of P, A and G in K_bar = -lam z^T: rows that are not active have z = lam = 0."""
        (n, k, m, _), nnz = self.sizes, self.A.entries.nnz
        x, y, lam_x, lam_y = (
            part for u in (z, lam) for part in (u[..., :n], u[..., n : n + k + m])
        )
        # P_bar = -lam_x x^T,  C_bar = -(lam_y x^T + y lam_x^T)
        found = outer(Symmetric(self.P), P, -lam_x[..., None], x[..., None], need[0])
        if not any(need[1:]):
            return found, None, None
        of_C = outer(self.C, C, -_columns(lam_y, y), _columns(x, lam_x), True)
        return found, of_C[..., :nnz], of_C[..., nnz:]


def optimality(P: Sparse, A: Sparse, G: Sparse, bounds: bool) -> Optimality:
    """The same object for equal patterns, so that everything cached on it is found again."""
    make = partial(Optimality, P, A, G, bounds)
    return analysed(("optimality", A, G, bounds), P, make)


def _below(A: Sparse, G: Sparse) -> Pattern:
    (k, n), (m, _) = A.shape, G.shape
    rows = np.concatenate([A.entries.rows, k + G.entries.rows])
    return Pattern(rows, np.concatenate([A.entries.cols, G.entries.cols]), (k + m, n))


def _columns(u: Array, v: Array) -> Any:
    return namespace(u).stack([u, v], axis=-1)


def side_by_side(parts: Sequence[Array]) -> Array:
    """Concatenated along the last axis, the batch axes broadcast."""
    xp, batches = namespace(parts[0]), [batch_of(x, 1) for x in parts]
    if batches.count(batches[0]) < len(batches):
        batch = broadcast(*batches)
        zero = xp.zeros((*batch, 1), **alike(parts[0]))  # autograd cannot broadcast to leading axes
        parts = [x if batch_of(x, 1) == batch else x + zero for x in parts]
    return xp.concat([x for x in parts if x.shape[-1]] or parts[:1], axis=-1)
