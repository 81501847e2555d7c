"""A = U P, U^H U = I, P Hermitian and positive definite, for an m x n matrix of rank n.

tangent      P W + W P = U^H dA - dA^H U   (W = U^H dU is skew);
             dU = U W + (I - U U^H) dA P^-1,   dP = U^H dA - W P
cotangent    P V + V P = G - G^H,   G = U^H U_bar - sym(P_bar) P;
             A_bar = U (V + sym(P_bar)) + (I - U U^H) U_bar P^-1
cost         1 singular value decomposition forward; each direction one equation of Sylvester's,
             whose Schur form serves all, and for m > n one solve with P
reference    Higham, Functions of Matrices, chapter 8; Kenney and Laub, SIAM J. Matrix Anal. Appl.
             12 (1991)

Smooth where singular values coincide, unlike the decomposition that it is made of. Where the rank
is not full U is not unique, and no derivative exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, eps, hermitian
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Traits, Unit
from ldiv.core.rules.structure import minus, plus
from ldiv.errors import NotDifferentiableError
from ldiv.rules.assertion import checked
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense
from ldiv.structures.kronecker_sum import kronecker_sum


@dataclass(frozen=True)
class Polar(Rescaled):
    """Argument A (*batch, m, n); outputs U (*batch, m, n), P (*batch, n, n).

    For m < n the rows of U are orthonormal, and there is no derivative.
    """

    traits = Traits(name="polar", on_host=True, only_refuses=True)
    core = (2,)
    units = (Unit((2,), (0, 2), by=(0,)),)

    def kernel(self, a: Array) -> Arrays:
        require_finite("a", a)
        if 0 in a.shape:
            return a + 0, adjoint(a) @ a
        u, s, vh = frontend_of(a).dense.svd(a)
        # A = (U_s V^H) (V diag(s) V^H) from the singular value decomposition U_s diag(s) V^H
        return u @ vh, hermitian((adjoint(vh) * s[..., None, :]) @ vh)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (u, p) = tangents, out
        if 0 in u.shape:
            return da, adjoint(da) @ u
        p, uh = _regular(p, u.shape[-2]), adjoint(u)
        inside = uh @ da
        # P W + W P = U^H dA - dA^H U
        w = _commuting(p, inside - adjoint(inside))
        # dU = U W + (I - U U^H) dA P^-1,  dP = U^H dA - W P
        du = u @ w
        if u.shape[-2] > u.shape[-1]:
            du = du + _over(da - u @ inside, p)
        return du, inside - w @ p

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (u_bar, p_bar), (u, p) = cotangents, out
        if 0 in u.shape:
            return (0 * args[0],)
        p, uh = _regular(p, u.shape[-2]), adjoint(u)
        p_bar = None if p_bar is None else hermitian(p_bar)
        # G = U^H U_bar - sym(P_bar) P,  P V + V P = G - G^H
        g: Any = minus(None if u_bar is None else uh @ u_bar, None if p_bar is None else p_bar @ p)
        # A_bar = U (V + sym(P_bar)) + (I - U U^H) U_bar P^-1
        a_bar = u @ plus(_commuting(p, g - adjoint(g)), p_bar)
        if u_bar is not None and u.shape[-2] > u.shape[-1]:
            a_bar = a_bar + _over(u_bar - u @ (uh @ u_bar), p)
        return (a_bar,)


def _commuting(p: Array, right: Array) -> Array:
    """W with P W + W P = right."""
    xp, n = namespace(right), p.shape[-1]
    # row-major: P W + W (P^T)^T
    structure = kronecker_sum(dense(n, n), dense(n, n).T)
    vector = xp.reshape(right, (*right.shape[:-2], n * n, 1))
    found = solve(structure, (p, p), vector)
    return xp.reshape(found, (*found.shape[:-2], n, n))


def _over(x: Array, p: Array) -> Array:
    """X P^-1, P Hermitian."""
    return adjoint(solve(dense(*p.shape[-2:]), p, adjoint(x), "pos"))


def _regular(p: Array, m: int) -> Array:
    if m < p.shape[-1]:
        raise NotDifferentiableError(
            f"no derivative: a has {m} rows and {p.shape[-1]} columns, so that P is singular. "
            "Take side='left', whose factor is regular."
        )
    return checked(_require_regular, p)


def _require_regular(p: Array) -> None:
    values = frontend_of(p).dense.svdvals(p)
    # 4 n eps s_1: smaller singular values of P are rounding
    least = 4 * p.shape[-1] * eps(p) * values[..., 0]
    check_or_raise((values[..., -1] > least).all(), _not_unique)


def _not_unique() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: the rank of a is not full, where the unitary factor is not unique."
    )


def cases(structures: Any, draw: Any) -> Cases:
    for shape in ((3, 3), (2, 4, 3)):
        yield Polar(), (draw(*shape),)
