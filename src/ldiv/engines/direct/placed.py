"""Sparse, with a pattern that is computed in a program: by the engines of its entries, on the host.

Equal patterns share their analysis, as elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.direct import superlu
from ldiv.engines.factor import Factor
from ldiv.engines.factors.analyses import analysed
from ldiv.engines.factors.factorize import factorize, factorize_by
from ldiv.engines.factors.plan import planned
from ldiv.engines.selected import general
from ldiv.errors import EngineError, SingularMatrixError
from ldiv.structures.placed import Placed
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

RANK = 5
ON_HOST = True
REMEMBERED = False

_GENERAL: Any = general
_SUPERLU: Any = superlu


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(_base(structure), Placed):
        return "is for sparse matrices that are arguments of programs"
    return None if device == "cpu" else "runs on the cpu: close over the matrix, or iterate"


def _base(structure: Structure) -> Structure:
    return structure.base if isinstance(structure, Symmetric) else structure


def factor(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    values, rows, cols = p
    # programs pass places as floating numbers, which are integers here
    places = rows.astype(np.int64), cols.astype(np.int64)
    pattern = Pattern(*places, structure.shape)
    own = Sparse(pattern)
    matrix: Structure = analysed("pattern", own, lambda: own)
    if isinstance(structure, Symmetric):
        matrix = Symmetric(matrix, structure.op)
    return OfPattern(matrix, values, assume_a)


class OfPattern(Factor):
    """The factor of a solve with the matrix, and its determinant by an engine that knows the sign."""

    def __init__(self, matrix: Structure, values: Array, assume_a: str) -> None:
        self._matrix, self._values = matrix, values
        plan = planned(matrix, values, None, assume_a)
        assert plan.factors is not None, "a sparse matrix is factored on the host"
        self._found = factorize(plan.factors, values)[0]
        self.nbytes = self._found.nbytes

    def solve(self, b: Array, op: str) -> Array:
        return self._found.solve(b, op)

    def solve_unrefined(self, b: Array, op: str) -> Array:
        return self._found.solve_unrefined(b, op)

    def logabsdet(self) -> Array:
        return self._found.logabsdet()

    def slogdet(self) -> tuple[Array, Array]:
        with suppress(SingularMatrixError, EngineError):
            return factorize_by(_GENERAL, self._matrix, self._values, "gen").slogdet()
        return factorize_by(_SUPERLU, self._matrix, self._values, "gen").slogdet()

    def signs(self) -> tuple[int, int] | None:
        return self._found.signs()

    def check_nonsingular(self) -> None:
        self._found.check_nonsingular()
