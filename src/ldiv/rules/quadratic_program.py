"""x = argmin x^T P x / 2 + q^T x  with  A x = b, G x <= h, lb <= x <= ub, by K z = r of its active rows.

tangent      dz = K^-1 (dr - dK z), z = (x, multipliers), active rows fixed
cotangent    lam = K^-1 z_bar;   r_bar = lam,   K_bar = -dK^*[lam z^T]
cost         the solver, 1 factorization of P, and 1 of K, which derivatives reuse: 1 solve each
reference    Amos and Kolter, OptNet (2017); Fiacco, Introduction to Sensitivity and Stability Analysis
             in Nonlinear Programming (1983): where every active row has force, and the others slack

K and r are in `ldiv.engines.programs.optimality`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import common_batch, numpy_dtype
from ldiv.core.dispatch import asnumpy, check_or_raise, namespace, on_host
from ldiv.core.pattern import Pattern
from ldiv.core.rule import Rule, bind
from ldiv.core.structure import push
from ldiv.core.trees import Tree
from ldiv.engines.programs import active_rows
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.rules.assertion import checked
from ldiv.rules.optimality_solve import OptimalitySolve
from ldiv.structures.sparse import Sparse

SHOWN = 5  # rows that a message names


@dataclass(frozen=True)
class QuadraticProgram(Rule):
    """Arguments: the entries of P, q, those of A, b, those of G, h, lb, ub, each (*batch, .).

    Outputs: z = (x, y, z, w), and, without derivatives, what of each inequality is active, which are
    weak, the steps of the solver (*batch,), and whether solves with K are loose (*batch,).
    """

    system: Optimality
    solver: str

    core = (1,) * 8
    differentiable = (True, False, False, False, False)
    on_host = True
    few = 1 << 20  # engines work on NumPy arrays in any case

    @property
    def public_name(self) -> str:
        return "solve_qp"

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        batch, dtype = common_batch(self.core, args), numpy_dtype(args[1])
        rows = ((*batch, self.system.rows), dtype)
        specs = (
            ((*batch, sum(self.system.sizes)), dtype),
            rows,
            rows,
            (batch, dtype),
            (batch, dtype),
        )
        f = partial(active_rows.solve, self.system, self.solver)
        return tuple(on_host(f, specs, *args))

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        if all(dx is None for dx in tangents):
            return (None,) * len(out)
        z, active, weak, steps, loose = out
        moved = Data(
            *(0 * _finite(x) if d is None else d for x, d in zip(args, tangents, strict=True))
        )
        K, S = self._matrix(args, active), self.system.structure
        dK = self.system.values(moved.P, moved.A, moved.G, active, 0.0)
        dr = self.system.side(moved.q, moved.b, moved.h, moved.lb, moved.ub, active)
        dKz = push(S, K, dK, z[..., None])
        r = dr if dKz is None else dr - dKz[..., 0]
        dz = self._solved(K, r, active, weak, loose)
        return dz, 0 * active, 0 * weak, 0 * steps, 0 * loose

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        if (z_bar := cotangents[0]) is None or not any(need):
            return (None,) * len(need)
        z, active, weak, _, loose = out
        lam = self._solved(self._matrix(args, active), z_bar, active, weak, loose)
        of_x, b_bar, of_G, of_bounds = self.system.split(lam)
        G, upper, lower = self.system.of_rows(active)
        P_bar, A_bar, G_bar = self.system.cotangents((need[0], need[2], need[4]), args, lam, z)
        found: tuple[Tree, ...] = (P_bar, -of_x, A_bar, b_bar, G_bar, G * of_G)
        found += (lower * of_bounds, upper * of_bounds)
        return tuple(x if wanted else None for x, wanted in zip(found, need, strict=True))

    def _matrix(self, args: tuple[Tree, ...], active: Array) -> Array:
        data = Data(*args)
        return self.system.values(data.P, data.A, data.G, active)

    def _solved(self, K: Array, r: Array, active: Array, weak: Array, loose: Array) -> Any:
        """K^-1 r, and an error where there is no derivative."""
        seen = checked(partial(_require_force, self.system), weak[..., None])
        r = r + 0 * namespace(r).sum(seen, axis=-2)
        return bind(OptimalitySolve(self.system), K, r, active, loose[..., None])[0]


def _finite(x: Array) -> Array:
    """Without infinite bounds."""
    xp = namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def _require_force(system: Optimality, weak: Array) -> None:
    check_or_raise(~(weak > 0).any(), partial(_no_derivative, system), weak)


def _no_derivative(system: Optimality, weak: Any) -> NotDifferentiableError:
    found: Any = asnumpy(weak).reshape(-1, system.rows).any(0)
    parts = zip(("row {} of G", "ub[{}]", "lb[{}]"), system.of_rows(found), strict=True)
    names = [name.format(i) for name, part in parts for i in np.flatnonzero(part)]
    more = "" if len(names) <= SHOWN else f" and {len(names) - SHOWN} more"
    return NotDifferentiableError(
        expected_got(
            "solve_qp",
            "constraints that are active with force, or inactive with slack, for a derivative",
            f"{', '.join(names[:SHOWN])}{more} with neither",
            "To one side of here it binds, to the other it does not: move the data, or use the value alone.",
        )
    )


def cases(structures: Any, draw: Any) -> Iterator[tuple[QuadraticProgram, tuple[Tree, ...]]]:
    """With equalities alone: solvers of the others are optional."""
    i, one = np.arange(3), draw(1, 3)
    if np.iscomplexobj(one):
        return
    P, A = Pattern(i, i, (3, 3)), Pattern(0 * i, i, (1, 3))
    none = Pattern(i[:0], i[:0], (0, 3))
    system = Optimality(Sparse(P), Sparse(A), Sparse(none), False)
    yield (
        QuadraticProgram(system, "auto"),
        (abs(draw(2, 3)) + 1, draw(3), one[0], draw(1), *(draw(0) for _ in range(4))),
    )
