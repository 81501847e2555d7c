"""Diagonal matrices: x_i = b_i / d_i."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.engines.factor import Factor
from ldiv.errors import SingularMatrixError
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.diagonal_part import DiagonalPart

RANK = 5
ON_HOST = False
REMEMBERED = False


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return (
        None if isinstance(structure, Diagonal | DiagonalPart) else "solves diagonal matrices only"
    )


def factor(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    d = structure.diagonal(p) if isinstance(structure, DiagonalPart) else p
    check_or_raise(
        (d != 0).all(), lambda: SingularMatrixError("division", "a zero on the diagonal")
    )
    return Division(d)


class Division(Factor):
    """x = b / d."""

    def __init__(self, d: Array) -> None:
        self._d = d

    def solve(self, b: Array, op: str) -> Array:
        # D^T = D: only the views C and H change D, to conj(D)
        with np.errstate(over="ignore"):  # the caller refuses an infinite solution
            return b / (conj(self._d) if VIEWS[op][1] else self._d)[..., None]

    def logabsdet(self) -> Array:
        xp = namespace(self._d)
        return xp.sum(xp.log(xp.abs(self._d)), axis=-1)
