"""Dense triangles: forward or back substitution, n^2 operations per right-hand side."""

from __future__ import annotations

from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure, view_dense
from ldiv.engines.factor import Factor
from ldiv.errors import SingularMatrixError
from ldiv.structures.triangular import Triangular

RANK = 10
ON_HOST = False
REMEMBERED = False


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return None if isinstance(structure, Triangular) else "solves dense triangular matrices only"


def factor(symbolic: None, structure: Triangular, p: Tree, assume_a: str) -> Factor:
    return Substitution(structure, p)


class Substitution(Factor):
    """x = L \\ b."""

    def __init__(self, structure: Triangular, p: Array) -> None:
        self._structure = structure
        self._a = p
        self._unit = structure.diagonal == "unit"
        if not self._unit:
            regular = (namespace(p).linalg.diagonal(p) != 0).all()
            check_or_raise(
                regular,
                lambda: SingularMatrixError(
                    "substitution", "a zero on the diagonal of the triangle"
                ),
            )

    def solve(self, b: Array, op: str) -> Array:
        # the transpose of a lower triangle is an upper one
        lower = self._structure.lower != VIEWS[op][0]
        return frontend_of(b).dense.solve_triangular(view_dense(self._a, op), b, lower, self._unit)

    def logabsdet(self) -> Array:
        xp = namespace(self._a)
        diagonal = xp.linalg.diagonal(self._a)
        # log 1 = 0 for a unit diagonal
        return xp.sum(
            xp.zeros_like(xp.abs(diagonal)) if self._unit else xp.log(xp.abs(diagonal)), axis=-1
        )
