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

from ldiv.core.finite import unwarned
from ldiv.core.pattern import Pattern
from ldiv.core.trees import HostArray, Tree
from ldiv.engines.accuracy.equilibration import equilibrated
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.factor import Factor
from ldiv.engines.factors.escalation import first_nonsingular
from ldiv.engines.libraries import metis
from ldiv.engines.selected.block_lu import CompiledBlockLu
from ldiv.engines.selected.blocks import Blocks
from ldiv.engines.selected.factors import FrontalFactor, Selected
from ldiv.engines.selected.fronts import Fronts, parity
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError

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
    orders = (partial(metis.of_sum, pattern), 0.1), (partial(metis.of_columns, pattern), 1.0)
    makes = [partial(_pivoted, pattern, slots, order, threshold) for order, threshold in orders]
    made: Factor = first_nonsingular(makes, makes[-1])
    return made


def factorize(
    fronts: Fronts, slots: HostArray, positive: bool = False, last: bool = False
) -> Selected:
    """The values of A in slots, factored."""
    fronts.require_memory(fronts.entries, BYTES)
    m = SparseMatrix(NAME, fronts, slots)
    return Selected(NAME, m, block_factor(fronts, m.values, positive), last)


def block_factor(fronts: Fronts, values: HostArray, positive: bool) -> FrontalFactor:
    """The compiled blocks, or those by NumPy, which of a positive definite matrix tell more."""
    if positive or fronts.compiled_both is None:
        return BlockLDU(fronts, values, positive)
    return CompiledBlockLu(NAME, fronts, values)


def sign(structure: Any, p: Tree) -> Any:
    """det / |det| by SuperLU with partial pivoting: of a matrix that is known to be regular."""
    lu = _superlu(structure.pattern.csc(structure.slot_values(p)), 1.0, "COLAMD")
    pivots = lu.U.diagonal()
    return (pivots / np.abs(pivots)).prod() * parity(lu.perm_r) * parity(lu.perm_c)


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
        matrix = matrix[before][:, before]
    lu = _superlu(matrix, threshold, "COLAMD" if before is None else "NATURAL")
    rows, cols = np.argsort(lu.perm_r), np.argsort(lu.perm_c)
    if before is not None:
        rows, cols = before[rows], before[cols]
    made = factorize(Fronts(pattern, rows, cols), slots, last=True)
    made.inverse_entries()  # which are checked, and kept
    return made


class BlockLDU(FrontalFactor):
    """The blocks of M."""

    def __init__(self, fronts: Fronts, values: HostArray, positive: bool) -> None:
        self._fronts, self._dtype = fronts, values.dtype
        with unwarned():
            self._blocks = Blocks(fronts, values, positive)
        if (failed := self._blocks.failed) is not None:
            if positive:
                raise NotPositiveDefiniteError(
                    NAME, f"a pivot that is not positive in supernode {failed}"
                )
            raise SingularMatrixError(NAME, "a diagonal block that is singular")
        self.nbytes = self._blocks.nbytes

    def solve(self, b: Any, op: str) -> Any:
        with unwarned():
            return self._blocks.solve(b, op).astype(self._dtype, copy=False)

    def logabsdet(self) -> Any:
        return self._blocks.slogdet()[1]

    def slogdet(self) -> tuple[Any, Any]:
        sign, size = self._blocks.slogdet()
        return sign * self._fronts.parity, size

    def lower(self) -> HostArray:
        return self._blocks.lower()[self._fronts.factor_entries[0]]

    def inverse_slots(self) -> HostArray:
        return self._blocks.inverse()

    def inverse_tangent(self, e: Any) -> HostArray:
        return self._blocks.tangent(e)
