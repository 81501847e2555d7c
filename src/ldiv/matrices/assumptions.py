"""An assumption about a matrix is a structure on the same parameters.

That structure is its symmetric part, one of its triangles, or its diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import is_complex, masked
from ldiv.core.arrays.validate import ASSUMPTIONS, require_option, require_square
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.errors import value_error
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.rules.assertion import checked
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.diagonal_part import DiagonalPart
from ldiv.structures.self_adjoint import SelfAdjoint
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import Triangular, triangular

# SciPy's other names, and those that say no more than the matrix does
_SAME = {
    None: "gen",
    "general": "gen",
    "banded": "gen",
    "symmetric": "sym",
    "hermitian": "her",
    "positive definite": "pos",
}


def assumption(assume_a: Any) -> str:
    """The short name of an assumption, under any of SciPy's names."""
    if assume_a is not None:
        require_option("assume_a", assume_a, ASSUMPTIONS)
    return _SAME.get(assume_a, assume_a)


def promised_square(A: Any, assume_a: str, *others: Any) -> tuple[Matrix, Structure, Tree, str]:
    """A square matrix of a user's; the structure that a promise makes of it, with its
    parameters; and what engines may assume. Constants come in the framework of the others.
    """
    assume_a = assumption(assume_a)
    matrix = as_matrix("A", A, *others)
    require_square("A", matrix.structure.shape)
    structure, params = promised(matrix, assume_a)
    return matrix, structure, params, definiteness(structure, assume_a)


def promised(matrix: Matrix, assume_a: str) -> tuple[Structure, Tree]:
    """The structure, and its parameters, of a matrix under an assumption."""
    structure = matrix.structure
    base, op = structure.unview()
    if assume_a == "gen":
        return structure, matrix.params
    if assume_a == "tridiagonal":
        return structure, _tridiagonal(base, matrix.params)
    if assume_a in ("sym", "her", "pos"):
        part = "T" if assume_a == "sym" and any(map(is_complex, leaves(matrix.params))) else "H"
        if isinstance(base, Diagonal | Triangular | SparseTriangular):
            advice = f"Leave it out, {base} knows better."
            raise value_error(
                "assume_a", "'gen' for a matrix whose structure says it all", repr(assume_a), advice
            )
        if structure.view(part) == structure:
            return structure, matrix.params
        if isinstance(base, Dense) or base.has_entries:
            return structure.cached(
                ("part", part), lambda: Symmetric(structure, part)
            ), matrix.params
        return structure.cached(
            ("promise", part), lambda: SelfAdjoint(structure, part)
        ), matrix.params
    if not isinstance(base, Dense | Sparse):
        expected = "'gen', 'sym', 'her' or 'pos' for a matrix that is neither dense nor sparse"
        raise value_error("assume_a", expected, repr(assume_a), f"It is {base}.")
    if assume_a == "diagonal":
        return base.cached("diagonal", lambda: DiagonalPart(base)).view(
            "C" if VIEWS[op][1] else "N"
        ), matrix.params
    return triangle(structure, assume_a == "lower triangular", "own"), matrix.params


@dataclass(frozen=True)
class _Tridiagonal:
    """Raises unless all entries of a matrix outside of three diagonals are zero."""

    base: Dense | Sparse

    @property
    def outside(self) -> Any:
        if isinstance(self.base, Dense):
            i, j = np.indices(self.base.shape)
            return abs(i - j) > 1
        return abs(self.base.pattern.rows - self.base.pattern.cols)[:, None] > 1

    def __call__(self, p: Array) -> None:
        check_or_raise((masked(p, self.outside) == 0).all(), _not_tridiagonal)


def _tridiagonal(base: Structure, p: Tree) -> Tree:
    """The parameters, checked."""
    if not isinstance(base, Dense | Sparse):
        return p
    check, alone = _Tridiagonal(base), isinstance(base, Sparse)
    x = p[..., None] if alone else p
    if isinstance(x, np.ndarray):
        check(x)
        return p
    x = checked(check, x)
    return x[..., 0] if alone else x


def _not_tridiagonal() -> ValueError:
    what, advice = "zeros outside of the three diagonals", "Use 'gen', or set them to zero."
    return value_error("assume_a='tridiagonal'", what, "other numbers", advice)


def definiteness(structure: Structure, assume_a: str) -> str:
    """The promise that engines receive beside the structure: "pos" or "gen"."""
    return "pos" if assume_a == "pos" or structure.definite else "gen"


def triangle(structure: Structure, lower: bool, diagonal: Any) -> Structure:
    """The triangle of a dense or sparse matrix, or of a view of one, on the same parameters."""
    base, op = structure.unview()
    in_base = lower != VIEWS[op][0]
    if isinstance(base, Dense):
        return triangular(base.n, in_base, diagonal).view(op)
    if isinstance(base, Sparse):
        return base.cached(
            ("triangle", in_base, diagonal), lambda: SparseTriangular(base, in_base, diagonal)
        ).view(op)
    if base == triangular(structure.shape[0], in_base, diagonal):
        return structure
    advice = "Use solve, which knows the structure."
    raise value_error("solve_triangular", "a dense or sparse matrix", base, advice)
