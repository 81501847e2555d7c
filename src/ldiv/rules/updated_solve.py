"""Derivatives of (A + U V^H) X = B by Y = V^H X and M = U^H lam, the unknowns of

    [A     U] [X]   [B]        [A^H   V] [lam]   [X_bar]
    [V^H  -I] [Y] = [0],       [U^H  -I] [M  ] = [0    ].

    C = I + V^H W,   W = A^-1 U,   Y = C^-1 V^H A^-1 B

tangent      dX = S^-1 (dB - dA X - dU Y) - W C^-1 (dV^H X)
             lam^H dS X = lam^H (dA X + dU Y) + M^H (dV^H X)
cotangent    A_bar = -lam X^H,   U_bar = -lam Y^H,   V_bar = -X M^H
cost         four solves with A for each column of B and one of U, with the factor that is there

X and lam are large where S is close to singular. V^H X is not, and as a product it has no digits
left. Where A is, and S is not, C has none: `border_solve` refines with all three equations.
Reference: Hager, Updating the inverse of a matrix, SIAM Review 31 (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.core.arrays.shapes import device_of, dots, result_dtype, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure, matmul, minus, nothing, outer, plus, push
from ldiv.engines.registry import choose, name_of
from ldiv.structures.composed import active
from ldiv.structures.dense import dense
from ldiv.structures.self_adjoint import SelfAdjoint
from ldiv.structures.sum import Sum

ENGINE = "woodbury"
Part = tuple[Structure, Tree]  # with its parameters
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


def parts(s: Any, p: Tree) -> Any:
    """A, U and V^H, each with its parameters, or with their tangents."""
    of_a, (low, q) = s.update(p)
    return of_a, *low.halves(q)


def capacitance(s: Any, p: Tree, solve: Solver) -> tuple[Array, Array]:
    """W and C."""
    (a, pa), (u, pu), (vh, pv) = parts(s, p)
    r = u.shape[1]
    # W = A^-1 U,  C = I + V^H W
    w = solve(a, pa, matmul(u, pu, unit_columns(leaves(pu)[0], r, range(r))))
    c = matmul(vh, pv, w)
    return w, c + unit_columns(c, r, range(r))


def border_solve(border: Any, c: Part, b: Any, t: Any, solve: Solver) -> tuple[Array, Array]:
    """X and Y of A X + U Y = B, V^H X - Y = T, refined once; B or T may be 0.

    C has few digits where A is much closer to singular than S, and the refined Y has twice as many.
    """
    ((a, pa), (u, pu), (vh, pv)), (small, pc) = border, c

    def eliminated(b: Any, t: Any) -> Array:
        # C Y = V^H A^-1 B - T
        return solve(small, pc, -t if isinstance(b, int) else matmul(vh, pv, solve(a, pa, b)) - t)

    y = eliminated(b, t)
    # X = A^-1 (B - U Y)
    x = solve(a, pa, b - matmul(u, pu, y))
    # R = B - A X - U Y
    r = b - matmul(a, pa, x) - matmul(u, pu, y)
    # C dY = V^H A^-1 R - (T - V^H X + Y),   dX = A^-1 (R - U dY)
    dy = eliminated(r, t - matmul(vh, pv, x) + y)
    return x + solve(a, pa, r - matmul(u, pu, dy)), y + dy


def _capacitance(s: Any, p: Tree, solve: Solver) -> Part:
    _, c = capacitance(s, p, solve)
    return dense(*c.shape[-2:]), c


def _middles(s: Any, p: Tree, x_bar: Array, b: Array, solve: Solver) -> tuple[Array, Array]:
    """Y of S X = B, and M, the same of S^H lam = X_bar."""
    (_, y), (_, m) = (
        border_solve(parts(v, p), _capacitance(v, p, solve), c, 0, solve)
        for v, c in ((s, b), (s.H, x_bar))
    )
    return y, m


def right_side(
    s: Sum, p: Tree, dp: Tree, db: Array | None, x: Array, b: Array, solve: Solver
) -> tuple[Array | None, Array | None]:
    """dB - dA X - dU Y, and W C^-1 (dV^H X): what S^-1 takes, and what it does not."""
    (a, pa), (u, pu), (vh, pv) = border = parts(s, p)
    (_, da), (_, du), (_, dv) = parts(s, dp)
    c = _capacitance(s, p, solve)
    _, y = border_solve(border, c, b, 0, solve)
    # dA X + dU Y
    moved = plus(push(a, pa, da, x), push(u, pu, du, y))
    along = push(vh, pv, dv, x)
    return minus(db, moved), None if along is None else border_solve(border, c, 0, along, solve)[0]


def tangent(
    s: Sum, p: Tree, dp: Tree, lam: Array, x: Array, x_bar: Array, b: Array, solve: Solver
) -> Array | None:
    """lam^H dS X, column by column."""
    (a, pa), (u, pu), (vh, pv) = parts(s, p)
    (_, da), (_, du), (_, dv) = parts(s, dp)
    # lam^H (dA X + dU Y) + M^H (dV^H X)
    moved = push(a, pa, da, x)
    total = None if moved is None else dots(lam, moved)
    if active((du, dv)):
        y, m = _middles(s, p, x_bar, b, solve)
        # the adjoint update is V (K W) with its own right half W, and U^H = K W:  M = K W lam
        adjoint: Any = s.H
        _, (low, q) = adjoint.update(p)
        m = low.between(q, m)
        for left, right in ((lam, push(u, pu, du, y)), (m, push(vh, pv, dv, x))):
            total = total if right is None else plus(total, dots(left, right))
    return total


def cotangent(
    s: Sum, p: Tree, need: Tree, lam: Array, x: Array, x_bar: Array, b: Array, solve: Solver
) -> Tree:
    """p_bar."""
    (a, pa), (low, q) = s.update(p)
    (_, na), (_, nq) = s.update(need)
    to_low = nothing(nq)
    if any(leaves(nq)):
        y, m = _middles(s, p, x_bar, b, solve)
        # U_bar = -lam Y^H,  V_bar = -X M^H
        to_low = low.outer_between(q, -lam, x, (-m, y), nq)
    return s.of_parts(outer(a, pa, -lam, x, na), to_low)
