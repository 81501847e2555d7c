"""Derivatives of (A + U V^H) X = B by Y = V^H X and M = U^H lam, the unknowns of

    [A     U] [X]   [B]        [A^H   V] [lam]   [X_bar]
    [V^H  -I] [Y] = [0],       [U^H  -I] [M  ] = [0    ].

    C = I + V^H W,   W = A^-1 U,   Y = C^-1 V^H A^-1 B

tangent      dX = S^-1 (dB - dA X - dU Y) - W C^-1 (dV^H X)
cotangent    A_bar = -lam X^H,   U_bar = -lam Y^H,   V_bar = -X M^H
cost         one solve with A for each column of B and of U, with the factor that is there

X and lam are large where A is close to singular. V^H X is not, and as a product it has no digits left.
Reference: Hager, Updating the inverse of a matrix, SIAM Review 31 (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import device_of, result_dtype, unit_columns
from ldiv.core.structure import Structure, matmul, minus, nothing, outer, plus, push
from ldiv.core.trees import Tree, leaves
from ldiv.engines.registry import choose, name_of
from ldiv.structures.dense import dense
from ldiv.structures.self_adjoint import SelfAdjoint
from ldiv.structures.sum import Sum

ENGINE = "woodbury"
Solver = Callable[[Structure, Tree, Array], Array]


def updated(structure: Structure, p: Tree, b: Array, assume_a: str, method: str) -> Sum | None:
    """The sum, if the engine that solves updates the factors of one part by the other one."""
    base = structure.plain if isinstance(structure, SelfAdjoint) else structure
    if not isinstance(base, Sum) or base.updated is None:
        return None
    task = result_dtype(p, b), device_of(b), assume_a, method
    engine = structure.cached(
        ("engine", *task), lambda: name_of(choose(structure.unview()[0], *task))
    )
    return base if engine == ENGINE else None


class Coefficients(NamedTuple):
    """Y, W and C."""

    y: Array
    w: Array
    c: Array


def coefficients(s: Any, p: Tree, b: Array, solve: Solver) -> Coefficients:
    """Compute Y, W and C of S X = B; with S^H in the place of S, Y is the M of the adjoint system."""
    (a, pa), (low, q) = s.update(p)
    (u, pu), (vh, pv) = low.halves(q)
    r = u.shape[1]
    unit = unit_columns(leaves(pu)[0], r, range(r))
    w = solve(a, pa, matmul(u, pu, unit))
    c = matmul(vh, pv, w)
    c = c + unit_columns(c, r, range(r))
    y = solve(dense(r, r), c, matmul(vh, pv, solve(a, pa, b)))
    return Coefficients(y, w, c)


def right_side(
    s: Sum, p: Tree, dp: Tree, db: Array | None, x: Array, b: Array, solve: Solver
) -> tuple[Array | None, Array | None]:
    """dB - dA X - dU Y, and W C^-1 (dV^H X): what S^-1 takes, and what it does not."""
    (a, pa), (low, q) = s.update(p)
    (_, da), (_, dq) = s.update(dp)
    (u, pu), (vh, pv) = low.halves(q)
    (_, du), (_, dv) = low.halves(dq)
    y, w, c = coefficients(s, p, b, solve)
    moved = plus(push(a, pa, da, x), push(u, pu, du, y))
    along = push(vh, pv, dv, x)
    return minus(db, moved), None if along is None else w @ solve(dense(*c.shape[-2:]), c, along)


def cotangent(
    s: Sum, p: Tree, need: Tree, lam: Array, x: Array, x_bar: Array, b: Array, solve: Solver
) -> Tree:
    """p_bar."""
    (a, pa), (low, q) = s.update(p)
    (_, na), (_, nq) = s.update(need)
    to_low = nothing(nq)
    if any(leaves(nq)):
        y, m = coefficients(s, p, b, solve).y, coefficients(s.H, p, x_bar, solve).y
        to_low = low.outer_between(q, -lam, x, (-m, y), nq)
    return s.of_parts(outer(a, pa, -lam, x, na), to_low)
