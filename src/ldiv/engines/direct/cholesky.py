"""Sparse, positive definite: R P A P^H R = L L^H by supernodes, in compiled code of ldiv's own.

Half the work of an LU, and no pivot ever moves. One factor serves solves, determinants, entries of
the inverse and of L. What is compiled accepts a factor and a solution, or declines: then L is looked
at here. Where a pivot is not positive, others decide.
Reference: Ng, Peyton, SIAM J. Sci. Comput. 14 (1993); Liu, SIAM Review 34 (1992).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.equilibration import Layout, Scales
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.factor import Factor
from ldiv.engines.selected.checked_fronts import CheckedFronts
from ldiv.engines.selected.compiled import CompiledCholesky
from ldiv.engines.selected.factors import Selected
from ldiv.engines.selected.fronts import Fronts
from ldiv.structures.symmetric import Symmetric

RANK = 36
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "Cholesky"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or structure.pattern is None:
        return "factors sparse Hermitian matrices only"
    if structure.op != "H" and np.dtype(dtype).kind == "c":
        return "factors Hermitian matrices; a complex one that is symmetric is not"
    if assume_a != "pos":
        return "needs a matrix that is positive definite: assume_a='pos'"
    return sparse_checked.declined(dtype, device)


def analyze(structure: Any) -> CheckedFronts:
    return CheckedFronts(structure, "C")


def factor(fronts: CheckedFronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return fronts.factor(structure, p, partial(_verified, fronts, structure, p), Accepted)


def _verified(fronts: CheckedFronts, structure: Any, p: Tree, accepted: Any = None) -> Selected:
    """Return the factor with all checks in Python: of a new L, or of the L of an accepted factor."""
    slots = structure.slot_values(p)
    is_symmetric = slots.dtype.kind != "c"
    if accepted is None:
        m = SparseMatrix(NAME, fronts, slots, symmetric=is_symmetric)
        return Selected(NAME, m, CompiledCholesky.of(NAME, fronts, m.values))
    found, powers = accepted.cholesky()
    # in the units in which it was factored: L belongs to these
    m = SparseMatrix(NAME, fronts, slots, partial(_scaled, fronts, powers), symmetric=is_symmetric)
    return Selected(NAME, m, CompiledCholesky(NAME, fronts, found, slots.dtype), proven=True)


def _scaled(fronts: Fronts, powers: list[int], layout: Layout, values: Any) -> tuple[Any, Scales]:
    """R A R and its scales, for these powers of two, one for each row of A."""
    if not powers:
        return values, None
    # R = diag(s), s = 2^power, in the order of the rows of the fronts
    s = np.ldexp(np.ones((), values.real.dtype), np.array(powers)[fronts.rows])
    return layout.scaled(values, s, s), (s, s)


class Accepted(sparse_checked.Accepted):
    """A factor that has passed every check; Python computes the rest from the same L."""

    @cached_property
    def _selected(self) -> Selected:
        return self._make(self._found)

    def triangle(self) -> HostArray:
        return self._selected.triangle()

    def inverse_entries(self) -> HostArray:
        return self._selected.inverse_entries()

    def inverse_tangent(self, e: Any) -> HostArray:
        return self._selected.inverse_tangent(e)
