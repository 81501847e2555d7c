"""K u = r for given active rows, on the host, in units in which the blocks of K are near 1.

    D K D (D^-1 u) = D r,    D = 2^e

Of one program the rows that are not active are left out: what is fixed falls out of the graph, so that
factors are sparser. A batch stays on the whole pattern, where such a row says that its multiplier is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import common_batch, spread
from ldiv.core.errstate import under
from ldiv.core.structure import Structure
from ldiv.engines import solver
from ldiv.engines.factors import doubled
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.optimality import Optimality
from ldiv.engines.programs.posed import NEAR, exponents, largest_of_rows
from ldiv.errors import SingularMatrixError
from ldiv.structures.dense import Dense
from ldiv.structures.sparse import Sparse

SMALL = 64  # unknowns of a system that is factored as a dense one

CAUSES = (
    "(a) a P that is singular along what the constraints leave free: then the solution is not unique, "
    "(b) active rows that nearly depend on each other, and not by rounding alone. "
    "Add a small multiple of the identity to P, or leave rows out."
)


class ActiveSystem:
    """D K D, and what is left out of K (*batch, nnz)."""

    def __init__(self, system: Optimality, K: Values, active: Values) -> None:
        self.active = active
        self.part = system.restricted(active) if K.ndim == active.ndim == 1 else None
        structure: Structure = self.part.structure if self.part else system.structure
        if (e := _exponents(system, K, active)) is not None:
            i, j = system.pattern.places
            K = np.ldexp(K, e[..., i] + e[..., j])
            e = self._some(e)
        self.exponents = e
        self.structure, self.K = dense_if_full(structure, K[self.part.entries] if self.part else K)

    def inside(self, r: Values) -> Values:
        """D r."""
        return self._times_units(self._some(r))

    def outside(self, u: Values) -> Values:
        """u of D^-1 u, with 0 for what is left out."""
        u = self._times_units(u)
        if self.part is None:
            return u
        none = np.zeros((*u.shape[:-1], 1), u.dtype)
        return np.concatenate([u, none], -1).take(self.part.places, -1)

    def solved(self, r: Values) -> Values:
        """(D K D)^-1 r."""
        try:
            u: Any = solver.solve(self.structure, self.K, r[..., None], "gen", "auto")
        except SingularMatrixError as error:
            count = (self.active > 0).sum(-1).max(initial=0)
            evidence = f"a singular system of {count} active rows ({error.evidence})"
            raise dependent(evidence) from error
        found: Values = u[..., 0]
        return found

    def correction(self, u: Values, r: Values) -> Values:
        """(D K D)^-1 (r - D K D u), by a residual of twice the digits."""
        left = doubled.residual(self.structure, self.K, u[..., None], r[..., None])
        return self.solved(left[..., 0])

    def _some(self, x: Values) -> Values:
        return x.take(self.part.unknowns, -1) if self.part else x

    def _times_units(self, x: Values) -> Values:
        return x if self.exponents is None else np.ldexp(x, self.exponents)


def solve(system: Optimality, K: Values, r: Values, active: Values, loose: Values) -> tuple[Values]:
    """(u,) with K u = r; where `loose` says so it is corrected twice."""
    with under("raise"):
        some = ActiveSystem(system, K, active)
        r = some.inside(r)
        u = some.solved(r)
        for _ in range(2 if loose.any() else 0):
            u = u + some.correction(u, r)
        batch = common_batch((1,) * 4, (K, r, active, loose))
        return (np.array(spread(some.outside(u), batch, 1)),)


def dense_if_full(structure: Structure, p: Values) -> tuple[Structure, Values]:
    """A small or nearly full matrix with its zeros: LAPACK needs no ordering, and takes a batch at once."""
    m, n = structure.shape
    if not 0 < m * n <= max(SMALL**2, 4 * p.shape[-1]):
        return structure, p
    if isinstance(structure, Sparse) and structure.entries.is_full:
        entries: Any = p.reshape(*p.shape[:-1], m, n)
    else:
        entries = structure.todense(p)
    return structure.cached("dense system", lambda: Dense(m, n)), entries


def dependent(evidence: str) -> SingularMatrixError:
    return SingularMatrixError("solve_qp", evidence, causes=CAUSES, what="the optimality system")


def _exponents(system: Optimality, K: Values, active: Values) -> Values | None:
    """e (*batch, n + k + m + w), or None where all blocks are near 1: x has the unit in which P is,
    and each row its own; a row that is not active has none.
    """
    size = abs(K)
    if not (size > 2.0**NEAR).any() and not ((size < 2.0**-NEAR) & (size > 0)).any():
        return None
    P, A, G = system.P.entries, system.A.entries, system.G.entries
    of_P, of_A, _, of_G, *_ = np.split(size, np.cumsum([P.nnz, A.nnz, A.nnz, G.nnz]), -1)
    of_x = -(exponents(of_P.max(-1, initial=0)[..., None]) // 2)
    of_rows = [-exponents(largest_of_rows(M, x), of_x) for M, x in ((A, of_A), (G, of_G))]
    parts = [of_x, *of_rows, np.where(system.at_bound(active) > 0, -of_x, 0)]
    batch = np.broadcast_shapes(*(x.shape[:-1] for x in parts))
    sizes = zip(parts, system.sizes, strict=True)
    e = np.concatenate([np.broadcast_to(x, (*batch, count)) for x, count in sizes], -1)
    return e if e.any() else None
