"""Products, multiples, Kronecker and Gram matrices: S^-1 b by solves with the parts of S."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure
from ldiv.engines.factor import Factor
from ldiv.engines.solver import logabsdet, solve
from ldiv.structures.composed import Composed

RANK = 10
ON_HOST = False
REMEMBERED = False


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Composed) or structure.inverse is None:
        return "solves with products, multiples, Kronecker products and Gram matrices only"
    if any(m != n for m, n in (part.shape for part in structure.parts)):
        return "wants parts that are square"
    return None


def factor(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    composed, first = Parts(structure, p), leaves(p)[0]
    if not traced(first):
        # a solve without columns factors the parts; the owner of the call keeps their factors
        composed.solve(namespace(first).zeros((structure.shape[0], 0), **alike(first)), "N")
    return composed


class Parts(Factor):
    """S^-1 by the inverses of its parts."""

    def __init__(self, structure: Any, p: Tree) -> None:
        self._structure, self._p = structure, p

    def solve(self, b: Array, op: str) -> Array:
        with np.errstate(over="ignore"):  # the caller refuses an infinite solution
            return self._structure.view(op).inverse(self._p, b, solve_part)

    def logabsdet(self) -> Array:
        size: Array = self._structure.slogdet(self._p, unsigned)[1]
        return size


def solve_part(part: Structure, p: Tree, b: Array) -> Array:
    """S_i(p)^-1 b, by the engine and with the factor of a solve with S_i alone."""
    return solve(part, p, b, "pos" if part.definite else "gen", "auto")


def logabsdet_part(part: Structure, p: Tree) -> Array:
    """log |det S_i(p)|."""
    return logabsdet(part, p, "pos" if part.definite else "gen", "auto")


def unsigned(part: Structure, p: Tree) -> tuple[Any, Array]:
    """(1, log |det S_i(p)|): not every engine knows the sign."""
    return 1, logabsdet_part(part, p)
