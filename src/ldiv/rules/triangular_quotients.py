"""Quotients by triangles from both sides, and halves of matrices: the algebra of factorizations."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import transpose, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.rules.solve import solve
from ldiv.structures.triangular import Triangular, triangular


def eye(like: Array, n: int) -> Array:
    """The identity of size n, with the dtype and device of `like`."""
    return unit_columns(like, n, range(n))


def half(x: Array) -> Array:
    """tril(X) with half of the diagonal: X = half(X) + half(X)^H for a Hermitian X."""
    return namespace(x).tril(x) - x * (eye(x, x.shape[-1]) / 2)


def left_solve(structure: Structure, p: Tree, x: Array) -> Any:
    """S(p)^-1 X."""
    return solve(structure, p, x)


def right_solve(x: Array, structure: Structure, p: Tree) -> Array:
    """X S(p)^-1 = (S^-T X^T)^T."""
    return transpose(solve(structure.T, p, transpose(x)))


def congruence_solve(structure: Structure, p: Tree, x: Array, op: str = "H") -> Array:
    """S(p)^-1 X op(S(p))^-1, op in T, H: it preserves symmetry (T) or Hermitian symmetry (H)."""
    return right_solve(left_solve(structure, p, x), structure.view(op), p)


def lower(x: Array, unit: bool = False) -> tuple[Triangular, Array]:
    """The lower triangle of a square array as a structure and its parameters."""
    return triangular(x.shape[-1], True, "unit" if unit else "own"), x


def upper(x: Array) -> tuple[Triangular, Array]:
    """The upper triangle of a square array."""
    return triangular(x.shape[-1], False), x


def factor_solve(T: Structure, lower: bool, p: Tree, b: Array) -> Array:
    """(L L^H)^-1 b for L = T(p), or (R^H R)^-1 b for R = T(p)."""
    first, second = (T, T.H) if lower else (T.H, T)
    return left_solve(second, p, left_solve(first, p, b))
