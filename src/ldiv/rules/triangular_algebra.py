"""The algebra of lower triangles: X = tril(op(L)^-1 B) and P = tril(op(A) op(B)) for lower L, A, B.

solve    "N"  X = L^-1 B           dX = solve_N(L, dB - dL X)
                                   B_bar = solve_H(L, X_bar),   L_bar = -tril(B_bar X^H)
         "H"  X = tril(L^-H B)     dX = solve_H(L, dB - tril(dL^H X))
                                   B_bar = solve_N(L, X_bar),   L_bar = -tril(X B_bar^H)
product  "NN" P = A B              A_bar = tril(P_bar B^H),     B_bar = tril(A^H P_bar)
         "NH" P = tril(A B^H)      A_bar = P_bar B,             B_bar = tril(P_bar^H A)
         "HN" P = tril(A^H B)      A_bar = tril(B P_bar^H),     B_bar = A P_bar

Column j of tril(L^-H B) has its rows from j on, and these depend only on the rows from j on of L
and B. So the two solves and three products are closed under differentiation, and no upper triangle
is ever formed. Where a buffer can be written to, they are computed by blocks in n^3 / 6
multiplications; a compiler gets the formulas above.
Reference: Murray, Differentiation of the Cholesky decomposition (2016), for the idea of staying in
the triangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_writeable_array

from ldiv.core.arrays.shapes import adjoint, alike, batch_of, broadcast
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.linear import Bilinear
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import minus
from ldiv.errors import SingularMatrixError

BLOCKS = 8  # at most so many blocks
SMALL = 128  # fewer rows are not cut into blocks


@dataclass(frozen=True)
class LowerSolve(Rule):
    """Arguments (L, B), both read as lower triangles, (*batch, n, n). `op`: N or H."""

    op: str = "N"

    core = (2, 2)
    traits = Traits(on_host=True, only_refuses=True)

    units = Unit((2, 0), (-2,)), Unit((0, 2), (2,))

    def kernel(self, L: Array, B: Array) -> Arrays:
        if 0 in B.shape:
            return (_room(L, B),)
        require_regular(L)
        solve = frontend_of(L, B).dense.solve_triangular
        if not _in_blocks(L, B):
            return (
                solve(L, _tril(B), True)
                if self.op == "N"
                else _tril(solve(adjoint(L), _tril(B), False)),
            )
        return ((_forward if self.op == "N" else _backward)(solve, L, B),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (L, _), (dL, dB), (X,) = args, tangents, out
        # dX = solve(L, dB - tril(op(dL) X))
        right = minus(dB, None if dL is None else product(self.op + "N", dL, X))
        return (None if right is None else bind(self, L, right)[0],)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (L, _), (X_bar,), (X,) = args, cotangents, out
        B_bar = bind(LowerSolve("H" if self.op == "N" else "N"), L, X_bar)[0]
        # N: L_bar = -tril(B_bar X^H);  H: L_bar = -tril(X B_bar^H)
        pair = (B_bar, X) if self.op == "N" else (X, B_bar)
        return -product("NH", *pair) if need[0] else None, B_bar if need[1] else None


@dataclass(frozen=True)
class LowerProduct(Bilinear):
    """Arguments (A, B), both read as lower triangles, (*batch, n, n). `ops`: NN, NH or HN."""

    ops: str = "NN"

    traits = Traits(may_overflow=True, on_host=True, only_refuses=True)
    core = (2, 2)

    def kernel(self, *args: Tree) -> Arrays:
        A, B = args
        if self.ops == "NN" or not _in_blocks(A, B):
            A, B = (
                adjoint(_tril(x)) if op == "H" else _tril(x)
                for x, op in zip(args, self.ops, strict=True)
            )
            return (_tril(namespace(A).matmul(A, B)),)
        return ((_times_adjoint if self.ops == "NH" else _adjoint_times)(A, B),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (A, B), (P,) = args, cotangents
        # the rows of the table above: `op A B` stands for tril(op(A) B), P for P_bar
        to_A, to_B = {
            "NN": (("NH", P, B), ("HN", A, P)),
            "NH": (("NN", P, B), ("HN", P, A)),
            "HN": (("NH", B, P), ("NN", A, P)),
        }[self.ops]
        return product(*to_A) if need[0] else None, product(*to_B) if need[1] else None


def require_regular(L: Array) -> None:
    """Raise if there is a zero on the diagonal."""
    check_or_raise(
        (namespace(L).linalg.diagonal(L) != 0).all(),
        lambda: SingularMatrixError("substitution", "a zero on the diagonal"),
    )


def product(ops: str, A: Array, B: Array) -> Array:
    """tril(op(A) op(B))."""
    return bind(LowerProduct(ops), A, B)[0]


def _tril(x: Array, k: int = 0) -> Array:
    return namespace(x).tril(x, k=k)


# -- by blocks, in place ------------------------------------------------------


def _in_blocks(A: Array, B: Array) -> bool:
    return B.shape[-1] > SMALL and A.dtype == B.dtype and is_writeable_array(B)


def _forward(solve: Any, L: Array, B: Array) -> Array:
    """X_i = L_ii^-1 (B_i - L_ij X_j), summed over the rows j above.

    The columns come two blocks at a time: their nonzero rows differ by one block at most.
    """
    X, wide = _room(L, B), 2 * _width(B)
    # X is lower: in the columns from j on its rows above j are zero, so that k runs from j to i
    for i, end in _blocks(B):
        X[..., i:end, i:end] = _tril(B[..., i:end, i:end])
        for j in range(0, i, wide):
            to = min(j + wide, i)
            X[..., i:end, j:to] = B[..., i:end, j:to] - L[..., i:end, j:i] @ X[..., j:i, j:to]
        X[..., i:end, :end] = solve(L[..., i:end, i:end], X[..., i:end, :end], True)
    return X


def _backward(solve: Any, L: Array, B: Array) -> Array:
    """X_i = L_ii^-H (B_i - L_ji^H X_j), summed over the rows j below."""
    X = _room(L, B)
    for i, end in reversed(_blocks(B)):
        # the blocks below i are known: B_i - sum of L_ki^H X_k
        R = B[..., i:end, :end] - adjoint(L[..., end:, i:end]) @ X[..., end:, :end]
        X[..., i:end, :end] = solve(adjoint(L[..., i:end, i:end]), R, False)
        # X = tril(L^-H B): what fills in above the diagonal of a block is no part of it
        X[..., i:end, i:end] = _tril(X[..., i:end, i:end])
    return X


def _times_adjoint(A: Array, B: Array) -> Array:
    """P_ij = A_ik B_jk^H, summed over the columns k up to j."""
    P = _room(A, B)
    for j, end in _blocks(B):
        # rows that begin at row j have their diagonal at offset j
        right = adjoint(_tril(B[..., j:end, :end], j))
        P[..., j:end, j:end] = _tril(_tril(A[..., j:end, :end], j) @ right)
        P[..., end:, j:end] = A[..., end:, :end] @ right
    return P


def _adjoint_times(A: Array, B: Array) -> Array:
    """P_ij = A_ki^H B_kj, summed over the rows k from i on."""
    P = _room(A, B)
    for i, end in _blocks(B):
        # the diagonal block of A ends at its diagonal; what is below it adds whole products
        own = adjoint(_tril(A[..., i:end, i:end])) @ _tril(B[..., i:end, :end], i)
        P[..., i:end, :end] = _tril(own + adjoint(A[..., end:, i:end]) @ B[..., end:, :end], i)
    return P


def _room(A: Array, B: Array) -> Any:
    return namespace(B).zeros(
        (*broadcast(batch_of(A, 2), batch_of(B, 2)), *B.shape[-2:]), **alike(B)
    )


def _blocks(B: Array) -> list[tuple[int, int]]:
    """The begin and the end of each block of rows."""
    n, width = B.shape[-1], _width(B)
    return [(i, min(i + width, n)) for i in range(0, n, width)]


def _width(B: Array) -> int:
    return max(SMALL, -(-int(B.shape[-1]) // BLOCKS))


def cases(structures: Any, draw: Any) -> Cases:
    strong = 4 * np.eye(5)
    for op in "NH":
        yield LowerSolve(op), (draw(5, 5) + strong, draw(5, 5))
    yield LowerSolve(), (draw(2, 5, 5) + strong, draw(5, 5))
    for ops in ("NN", "NH", "HN"):
        yield LowerProduct(ops), (draw(5, 5), draw(5, 5))
