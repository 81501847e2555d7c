"""K u = r for given active rows, on the host, in units in which the blocks of K are near 1.

    D K D (D^-1 u) = D r,    D = 2^e

Of one program that is not small the rows that are not active are left out: what is fixed falls out of
the graph, so that factors are sparser. Others stay on the whole pattern, where such a row says that its
multiplier is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import common_batch, eps, spread
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import Structure
from ldiv.engines import solver
from ldiv.engines.accuracy.limits import PLAIN_UNITS
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factors import doubled
from ldiv.engines.libraries.program import Values
from ldiv.engines.programs.numbers import (
    SMALL,
    dense_if_full,
    exponents,
    largest_of_rows,
    product,
    whole,
)
from ldiv.engines.programs.optimality import Optimality
from ldiv.engines.programs.orthogonal import Careful, careful
from ldiv.errors import SingularMatrixError

DRAWS = 3
FEW = 1e-3  # the part that rounding of some signs may move: other signs move ten times as much
CAUSES = (
    "(a) a P that is singular along what the constraints leave free: then the solution is not unique, "
    "(b) active rows that nearly depend on each other, and not by rounding alone. "
    "Add a small multiple of the identity to P, or leave rows out."
)


class ActiveSystem:
    """D K D, and what is left out of K (*batch, nnz)."""

    def __init__(
        self, system: Optimality, K: Values, active: Values, keeps_all: bool = False
    ) -> None:
        self.system, self.entries, self.active = system, K, active
        restricts = not keeps_all and K.ndim == active.ndim == 1 and sum(system.sizes) > SMALL
        self.part = system.restricted(active) if restricts else None
        structure: Structure = self.part.structure if self.part else system.structure
        if (e := _exponents(system, K, active)) is not None:
            # (D K D)_ij = 2^(e_i + e_j) K_ij
            i, j = system.pattern.places
            K = np.ldexp(K, e[..., i] + e[..., j])
            e = self._some(e)
        self.exponents = e
        self.structure, self.K = dense_if_full(structure, K[self.part.entries] if self.part else K)
        self.careful: Careful | None = None
        self.members: list[ActiveSystem] = []  # of a batch in which some take care

    def inside(self, r: Values) -> Values:
        """D r."""
        return self._times_units(self._some(r))

    def outside(self, u: Values) -> Values:
        """u of D^-1 u, with 0 for what is left out."""
        u = self._times_units(u)
        if self.part is None:
            return u
        # unknowns that are left out have their place at the 0 behind the others
        none = np.zeros((*u.shape[:-1], 1), u.dtype)
        return np.concatenate([u, none], -1).take(self.part.places, -1)

    def scaled(self, z: Values) -> Values:
        """D^-1 z."""
        z = self._some(z)
        return z if self.exponents is None else np.ldexp(z, -self.exponents)

    def solved(self, r: Values) -> Values:
        """(D K D)^-1 r."""
        if self.careful is not None:
            return self.careful.solved(r)
        if self.members:
            return self._of_members(lambda member, s: member.solved(s), r)
        try:
            u: Any = solver.solve(self.structure, self.K, r[..., None], "gen", "auto")
        except SingularMatrixError as error:
            # orthogonal factors of the rows keep more digits
            if not self.use_careful_solver():
                count = (self.active > 0).sum(-1).max(initial=0)
                evidence = f"a singular system of {count} active rows ({error.evidence})"
                raise dependent(evidence) from error
            return self.solved(r)
        return u[..., 0]

    @property
    def is_careful(self) -> bool:
        return self.careful is not None or bool(self.members)

    def use_careful_solver(self) -> bool:
        """Switch to the factorization that keeps more digits, if there is one; False if it is in use."""
        if self.is_careful:
            return False
        if self.entries.ndim == 1:
            self.careful = careful(whole(self.structure, self.K), self.system.sizes[0])
            return self.careful is not None
        # one member that is nearly singular makes all go on by themselves
        given: list[Any] = [
            spread(x, self.entries.shape[:-1], 1) for x in (self.entries, self.active)
        ]
        count = prod(self.entries.shape[:-1])  # there may be no rows
        members = zip(*(x.reshape(count, x.shape[-1]) for x in given), strict=True)
        self.members = [ActiveSystem(self.system, K, active, True) for K, active in members]
        for member in self.members:
            member.use_careful_solver()
        return True

    def loses_solution(self, u: Values, r: Values) -> Values:
        """True if the rounding of K and r leaves less than two digits of x."""
        return self._loses(u, r, slice(self.system.sizes[0]))

    def loses_multipliers(self, u: Values, r: Values) -> Values:
        """True if the rounding leaves less than two digits of the multipliers, or of those of a cotangent of x."""
        n, cotangent = self.system.sizes[0], np.zeros_like(r)
        # K lam = (x_bar, 0), the system of a derivative, for a random x_bar
        cotangent[..., :n] = direction(n)[:, 0]
        of_rows = slice(n, None)
        found = self._loses(u, r, of_rows)
        if not self.is_careful:
            return found
        return found | self._loses(self.solved(cotangent), cotangent, of_rows)

    def _loses(self, u: Values, r: Values, part: slice) -> Values:
        if not self.is_careful:
            return np.zeros(u.shape[:-1], bool)
        moved, whole = (abs(x[..., part]).max(-1, initial=0) for x in (self.moved(u, r), u))
        found: Values = moved > FEW * whole
        return found

    def moved(self, u: Values, r: Values) -> Values:
        """The most by which rounding of K and r, of some signs, moves u: K (u + du) = r + dr - dK u with
        |dK| <= eps |K|.
        """
        if self.members:
            return self._of_members(lambda member, *own: member.moved(*own), u, r)
        # eps (|K| |u| + |r|) bounds |dK u| + |dr|
        size = eps(u) * (product((self.structure, abs(self.K)), abs(u)) + abs(r))
        signs = np.random.default_rng(0).choice([-1, 1], (DRAWS, *u.shape)).astype(u.dtype)
        found: Values = np.max([abs(self.solved(s * size)) for s in signs], 0)
        return found

    def _of_members(self, f: Callable[..., Values], *given: Values) -> Values:
        """f of each member and of what belongs to it, which may have more batch axes."""
        batch = self.entries.shape[:-1]
        whole = np.broadcast_shapes(batch, *[x.shape[:-1] for x in given])
        rows = [np.broadcast_to(x, (*whole, x.shape[-1])) for x in given]
        # the number of the member that each vector belongs to
        at = np.broadcast_to(np.arange(len(self.members)).reshape(batch), whole)
        places = [at == i for i in range(len(self.members))]
        parts = [f(m, *[x[p] for x in rows]) for m, p in zip(self.members, places, strict=True)]
        found = np.empty((*whole, *parts[0].shape[1:]), parts[0].dtype)
        for place, part in zip(places, parts, strict=True):
            found[place] = part
        return found

    def correction(self, u: Values, r: Values) -> Values:
        """(D K D)^-1 (r - D K D u), by a residual of twice the digits."""
        left = doubled.residual(self.structure, self.K, u[..., None], r[..., None])
        return self.solved(left[..., 0])

    def _some(self, x: Values) -> Values:
        return x.take(self.part.unknowns, -1) if self.part else x

    def _times_units(self, x: Values) -> Values:
        return x if self.exponents is None else np.ldexp(x, self.exponents)


def solve(
    system: Optimality, K: Values, r: Values, active: Values, loose: Values
) -> tuple[Values, Values]:
    """u with K u = r, where `loose` says so corrected twice, and by how much rounding may move it there."""
    with under("raise"):
        some = ActiveSystem(system, K, active)
        # (D K D) (D^-1 u) = D r
        r = some.inside(r)
        u = some.solved(r)
        is_loose = loose.any(-1, keepdims=True)
        for _ in range(2 if is_loose.any() else 0):
            u = u + some.correction(u, r)
        off = some.moved(u, r) if is_loose.any() else 0 * u
        batch = common_batch((1,) * 4, (K, r, active, loose))
        both = some.outside(u), some.outside(off) * is_loose
        of_u, of_off = (np.array(spread(x, batch, 1), order="C") for x in both)
        return of_u, of_off


def dependent(evidence: str) -> SingularMatrixError:
    return SingularMatrixError("solve_qp", evidence, causes=CAUSES, what="the optimality system")


def _exponents(system: Optimality, K: Values, active: Values) -> Values | None:
    """e (*batch, n + k + m + w), or None where all blocks are near 1. Each x has the unit in which P is,
    and each row its own; a row that is not active has none.
    """
    size = abs(K)
    if not (size > 2.0**PLAIN_UNITS).any() and not ((size < 2.0**-PLAIN_UNITS) & (size > 0)).any():
        return None
    P, C = system.P.entries, system.C.entries
    of_P, of_C, _ = np.split(size, [P.nnz, P.nnz + C.nnz], -1)
    # D P D is near 1: e of x is minus half of the exponent of P's largest entry
    of_x = -(exponents(of_P.max(-1, initial=0)[..., None]) // 2)
    # D C D is near 1: e of a row is minus the exponent of its largest entry times 2^(e of x)
    of_rows = -exponents(largest_of_rows(C, of_C), of_x)
    # D B D = B: e of w is minus that of x
    at_bound = np.where(system.at_bound(active) > 0, -of_x, 0)
    batch = np.broadcast_shapes(size.shape[:-1], active.shape[:-1])
    of_x = np.broadcast_to(of_x, (*batch, P.shape[0]))
    e = np.concatenate([of_x, spread(of_rows, batch, 1), spread(at_bound, batch, 1)], -1)
    return e if e.any() else None
