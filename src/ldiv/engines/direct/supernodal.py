"""Sparse, positive definite: R P A P^H R = L L^H by supernodes, in compiled code of ldiv's own.

Half the work of an LU, and no pivot ever moves. One factor serves solves, determinants, entries of
the inverse and of L. What is compiled declines where a pivot is not positive, and others decide;
without a compiler the blocks of `ldiv.engines.selected.blocks` give determinants by NumPy, and
other engines solve.
Reference: Ng, Peyton, SIAM J. Sci. Comput. 14 (1993); Liu, SIAM Review 34 (1992).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.structure import Structure
from ldiv.core.trees import Tree
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.factor import Factor
from ldiv.engines.libraries import native
from ldiv.engines.selected import general
from ldiv.engines.selected.cholesky import CompiledCholesky
from ldiv.engines.selected.factors import Selected
from ldiv.engines.selected.fronts import Fronts
from ldiv.structures.symmetric import Symmetric

RANK = 39
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "SupernodalCholesky"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or structure.pattern is None:
        return "factors sparse Hermitian matrices only"
    if structure.op != "H" and np.dtype(dtype).kind == "c":
        return "factors Hermitian matrices; a complex one that is symmetric is not"
    if assume_a != "pos":
        return "needs a matrix that is positive definite: assume_a='pos'"
    if device != "cpu":
        return f"runs on the cpu, but the values are on {device}"
    if native.native is None:
        return f"is compiled, and ldiv's compiled part is not here: {native.why_not}"
    return None


def analyze(structure: Any) -> Fronts:
    return Fronts(structure.pattern)


def is_compiled() -> bool:
    """Are its factors compiled, and so worth solving with?"""
    return native.native is not None


def factor(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    slots = structure.slot_values(p)
    if fronts.compiled is None:
        return general.factorize(fronts, slots, positive=True)
    m = SparseMatrix(NAME, fronts, slots, symmetric=slots.dtype.kind != "c")
    return Selected(NAME, m, CompiledCholesky(NAME, fronts, m.values))
