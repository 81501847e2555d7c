"""det (A + U V^H) = det A det C,   C = I + V^H W,   W = A^-1 U: changes and cotangents by r solves.

tangent      d det S / det S = tr(A^-1 dA - V^H A^-1 dA Q + V^H S^-1 dU + dV^H Q),   Q = S^-1 U
cotangent    of w S^-H:   Z = S^-H V w,   A_bar = w A^-H - Z W^H,   U_bar = Z,   V_bar = w S^-1 U
cost         9 r solves with A, and the determinant of A alone

S^-1 is large where S is close to singular. S^-1 U and S^-H V are not, and as products they have no
digits left: they are solutions of `border_solve`.
Reference: Hager, Updating the inverse of a matrix, SIAM Review 31 (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.core.arrays.shapes import conform, factors, join, transpose, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure, matmul, minus, outer, plus, push
from ldiv.rules.updated_solve import Solver, border_solve, capacitance, parts
from ldiv.structures.dense import dense
from ldiv.structures.sum import Sum


def relative_change(
    s: Sum, p: Tree, dp: Tree, solve: Solver, change: Callable[[Structure, Tree, Tree], Any]
) -> Array | None:
    """d det S / det S; `change`: that of A."""
    (a, pa), (u, pu), (vh, pv) = border = parts(s, p)
    (_, da), (_, du), (_, dv) = parts(s, dp)
    _, c = capacitance(s, p, solve)
    r = c.shape[-1]
    small, unit = (dense(r, r), c), unit_columns(c, r, range(r))
    # Q = S^-1 U = W C^-1
    q, _ = border_solve(border, small, 0, unit, solve)
    # tr(C^-1 dC) = tr(dV^H Q + V^H S^-1 dU - V^H A^-1 dA Q)
    along, to_u, to_a = push(vh, pv, dv, q), push(u, pu, du, unit), push(a, pa, da, q)
    if to_u is not None:
        along = plus(along, border_solve(border, small, to_u, 0, solve)[1])
    if to_a is not None:
        along = minus(along, matmul(vh, pv, solve(a, pa, to_a)))
    return along if along is None else plus(change(a, pa, da), namespace(c).linalg.trace(along))


def cotangent(
    s: Sum, p: Tree, weight: Array, need: Tree, solve: Solver, of_a: Callable[..., Tree]
) -> Tree:
    """dS^*[w S^-H]; `of_a`: that of A."""
    (a, pa), (low, q) = s.update(p)
    (_, na), (_, nq) = s.update(need)
    # W = A^-1 U, Z = S^-H V;  of S^H, whose factors change places, Y = S^-1 U
    (w, z), (_, y) = _solutions(s, p, solve), _solutions(s.H, p, solve)
    z = factors(weight) * z
    r = z.shape[-1]
    unit, (_, _, (v, pv)) = unit_columns(z, r, range(r)), parts(s.H, p)
    # pairs of columns: Z I^H for U, and w I Y^H for V, each beside zeros for the other one
    left, right = matmul(v, pv, z), unit
    weighted, none = factors(weight) * unit, 0 * y
    inner = _beside(left, weighted), _beside(right, 0 * unit)
    to_low = low.outer_between(q, _beside(z, none), _beside(none, y), inner, nq)
    # A_bar = w A^-H - Z W^H
    of_both = zip(*map(leaves, (of_a(a, pa, weight, na), outer(a, pa, -z, w, na), pa)), strict=True)
    return s.of_parts(rebuild(a.core, [_summed(x, y, like) for x, y, like in of_both]), to_low)


def _solutions(s: Any, p: Tree, solve: Solver) -> tuple[Array, Array]:
    """W, and S^-H V = A^-H V C^-H."""
    (a, pa), (u, pu), (vh, pv) = parts(s, p)
    w, c = capacitance(s, p, solve)
    r = c.shape[-1]
    # A^H X + V Y = 0,  U^H X - Y = I:  X = A^-H V C^-H
    adjoint, small = ((a.H, pa), (vh.H, pv), (u.H, pu)), (dense(r, r).H, c)
    return w, border_solve(adjoint, small, 0, unit_columns(c, r, range(r)), solve)[0]


def _summed(x: Array | None, y: Array | None, like: Array) -> Array | None:
    """x + y, each summed over the batch axes that the parameter does not have."""
    return plus(*(None if z is None else conform(z, like) for z in (x, y)))


def _beside(x: Array, y: Array) -> Array:
    """[X Y]."""
    return transpose(join(transpose(x), transpose(y), 2))
