"""Sparse: R P A Q C = L D U by blocks, with the sign of the determinant and the selected inverse.

At first P = Q^T is an ordering for the symmetrized pattern, and pivots are chosen inside of the
diagonal blocks only. Where that loses accuracy, SuperLU pivots freely, and its orders of rows and
columns become P and Q: with them no pivot needs to move. The fill of the symmetrized pattern is
larger then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.engines.accuracy.equilibration import equilibrated
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.factor import Factor
from ldiv.engines.factors.escalation import first_nonsingular
from ldiv.engines.libraries import ordering
from ldiv.engines.selected.compiled import CompiledBlockLu
from ldiv.engines.selected.factors import Selected
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import SingularMatrixError

ON_HOST = True
REMEMBERED = True
NAME = "BlockLDU"
BYTES = 48  # for each number of L: L and U, Z and its tangent, in double precision


def analyze(structure: Any) -> Fronts:
    return Fronts(structure.pattern)


def factor(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return factorize(fronts, structure.slot_values(p))


def factor_carefully(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    pattern, slots = structure.pattern, structure.slot_values(p)
    # pivots near the diagonal keep the fill small; the largest ones of their columns are safest
    orders = (partial(ordering.of_sum, pattern), 0.1), (partial(ordering.of_columns, pattern), 1.0)
    makes = [partial(_pivoted, pattern, slots, order, threshold) for order, threshold in orders]
    made: Factor = first_nonsingular(makes, makes[-1])
    return made


def factorize(fronts: Fronts, slots: HostArray, last: bool = False) -> Selected:
    """The values of A in slots, factored."""
    fronts.require_memory(fronts.entries, BYTES)
    m = SparseMatrix(NAME, fronts, slots)
    return Selected(NAME, m, CompiledBlockLu(NAME, fronts, m.values), last)


def _superlu(matrix: Any, threshold: float, order: str) -> Any:
    try:
        return splu(
            sp.csc_array(matrix),
            permc_spec=order,
            diag_pivot_thresh=threshold,
            options={"SymmetricMode": order == "NATURAL"},
        )
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        raise SingularMatrixError(NAME, "a pivot that is exactly zero") from None


def _pivoted(
    pattern: Pattern, slots: HostArray, order: Callable[[], HostArray | None], threshold: float
) -> Selected:
    """The blocks on the orders of rows and columns that SuperLU finds with this threshold."""
    values, _, _ = Arrangement(pattern).scaled(NAME, slots, equilibrated)
    matrix, before = pattern.csc(values), order()
    if before is not None:
        # rows go with the columns, so that the diagonal stays the diagonal
        matrix = matrix[before][:, before]
    lu = _superlu(matrix, threshold, "COLAMD" if before is None else "NATURAL")
    # L U = A[rows][:, cols]: the inverses of SuperLU's permutations
    rows, cols = np.argsort(lu.perm_r), np.argsort(lu.perm_c)
    # orders of A[before][:, before] as orders of A
    if before is not None:
        rows, cols = before[rows], before[cols]
    made = factorize(Fronts(pattern, rows, cols), slots, last=True)
    made.inverse_entries()  # which are checked, and kept
    return made
