"""The algebra of lower triangles: X = tril(op(L)^-1 B) and P = tril(op(A) op(B)) for lower L, A, B, at n^3 / 3 multiplications or so each.

solve    "N"  X = L^-1 B           dX = solve_N(L, dB - dL X)           B_bar = solve_H(L, X_bar),  L_bar = -tril(B_bar X^H)
         "H"  X = tril(L^-H B)     dX = solve_H(L, dB - tril(dL^H X))   B_bar = solve_N(L, X_bar),  L_bar = -tril(X B_bar^H)
product  "NN" P = A B              A_bar = tril(P_bar B^H),             B_bar = tril(A^H P_bar)
         "NH" P = tril(A B^H)      A_bar = P_bar B,                     B_bar = tril(P_bar^H A)
         "HN" P = tril(A^H B)      A_bar = tril(B P_bar^H),             B_bar = A P_bar

tril(L^-H B) asks column j for its rows from j on only, and these follow from the rows from j on of L and B: so the two solves
and three products are closed under differentiation, and the upper triangle never comes up. By blocks of columns.
Reference: Murray, Differentiation of the Cholesky decomposition (2016), for the idea of staying in the triangle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.arrays import alike, conj, transpose
from ldiv.errors import SingularMatrixError
from ldiv.rule import Array, Rule, Tree, bind, frontend_of, insist, namespace
from ldiv.structure import minus, plus

BLOCKS = 8  # of columns
SMALL = 64  # columns that are not worth cutting


@dataclass(frozen=True)
class LowerSolve(Rule):
    """Arguments (L, B), both read as lower triangles, (*batch, n, n). `op`: N or H."""

    op: str = "N"

    @property
    def core(self) -> tuple[Tree, ...]:
        return (2, 2)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        L, B = args
        xp, solve = namespace(L), frontend_of(L, B).solve_triangular
        insist((xp.linalg.diagonal(L) != 0).all(), lambda: SingularMatrixError("substitution", "a zero on the diagonal"))

        def column(j: int, end: int) -> Array:
            left, right = L[..., j:, j:], _tril(B[..., j:, j:end])
            return solve(left, right, True) if self.op == "N" else solve(adjoint(left), right, False)

        return (_columns(column, B.shape[-1]),)

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        (L, _), (dL, dB), (X,) = args, tangents, out
        right = minus(dB, None if dL is None else product(self.op + "N", dL, X))
        return (None if right is None else bind(self, L, right)[0],)

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        (L, _), (X_bar,), (X,) = args, cotangents, out
        if X_bar is None:
            return None, None
        B_bar = bind(LowerSolve("H" if self.op == "N" else "N"), L, X_bar)[0]
        pair = (B_bar, X) if self.op == "N" else (X, B_bar)
        return -product("NH", *pair) if need[0] else None, B_bar if need[1] else None


@dataclass(frozen=True)
class LowerProduct(Rule):
    """Arguments (A, B), both read as lower triangles, (*batch, n, n). `ops`: NN, NH or HN."""

    ops: str = "NN"

    @property
    def core(self) -> tuple[Tree, ...]:
        return (2, 2)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        A, B = args
        xp = namespace(A)

        def column(j: int, end: int) -> Array:
            if self.ops == "NH":
                return xp.matmul(_tril(A[..., j:, :end], j), adjoint(_tril(B[..., j:end, :end], j)))
            left, right = _tril(A[..., j:, j:]), _tril(B[..., j:, j:end])
            return xp.matmul(adjoint(left) if self.ops == "HN" else left, right)

        return (_columns(column, B.shape[-1]),)

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        (A, B), (dA, dB) = args, tangents
        return (plus(None if dA is None else bind(self, dA, B)[0], None if dB is None else bind(self, A, dB)[0]),)

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        (A, B), (P,) = args, cotangents
        if P is None:
            return None, None
        to_A, to_B = {
            "NN": (("NH", P, B), ("HN", A, P)),
            "NH": (("NN", P, B), ("HN", P, A)),
            "HN": (("NH", B, P), ("NN", A, P)),
        }[self.ops]
        return product(*to_A) if need[0] else None, product(*to_B) if need[1] else None


def quotient(L: Array, B: Array) -> Array:
    """L^-1 B, lower."""
    return bind(LowerSolve("N"), L, B)[0]


def product(ops: str, A: Array, B: Array) -> Array:
    """tril(op(A) op(B))."""
    return bind(LowerProduct(ops), A, B)[0]


def adjoint(x: Array) -> Array:
    return conj(transpose(x))


def _tril(x: Array, k: int = 0) -> Array:
    return namespace(x).tril(x, k=k)


def _columns(column: Callable[[int, int], Array], n: int) -> Array:
    """A lower triangle from its block columns, of which `column` gives the rows from the diagonal on."""
    width = max(SMALL, -(-n // BLOCKS))
    blocks = [column(j, min(j + width, n)) for j in range(0, n, width)] or [column(0, 0)]
    xp, first = namespace(blocks[0]), blocks[0]
    above = [xp.zeros((*x.shape[:-2], n - x.shape[-2], x.shape[-1]), **alike(first)) for x in blocks]
    return _tril(xp.concat([xp.concat([zero, x], axis=-2) for zero, x in zip(above, blocks, strict=True)], axis=-1))


def cases(structures: Any, draw: Any) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    strong = 4 * np.eye(5)
    for op in "NH":
        yield LowerSolve(op), (draw(5, 5) + strong, draw(5, 5))
    yield LowerSolve(), (draw(2, 5, 5) + strong, draw(5, 5))
    for ops in ("NN", "NH", "HN"):
        yield LowerProduct(ops), (draw(5, 5), draw(5, 5))
