"""Sparse: R P A Q C = L D U by blocks, with the sign of the determinant and the selected inverse.

At first P = Q^T is an ordering for the symmetrized pattern, and pivots are chosen inside of the
diagonal blocks only. Where that loses accuracy, SuperLU pivots freely, and its orders of rows and
columns become P and Q: with them no pivot needs to move. The fill of the symmetrized pattern is
larger then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ldiv.core.pattern import Pattern
from ldiv.core.trees import Tree
from ldiv.engines import ordering
from ldiv.engines.equilibration import equilibrated
from ldiv.engines.escalation import first_nonsingular
from ldiv.engines.factor import Factor
from ldiv.engines.refinement import Arrangement
from ldiv.engines.selected.blocks import Blocks
from ldiv.engines.selected.factors import Selected
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError

ON_HOST = True
REMEMBERED = True

Array = np.ndarray[Any, np.dtype[Any]]


def analyze(structure: Any) -> Fronts:
    return Fronts(structure.pattern)


def factor(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return BlockLDU(fronts, structure.slot_values(p))


def factor_carefully(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    pattern, slots = structure.pattern, structure.slot_values(p)
    # pivots near the diagonal keep the fill small; the largest ones of their columns are safest
    orders = (partial(ordering.of_sum, pattern), 0.1), (partial(ordering.of_columns, pattern), 1.0)
    makes = [partial(_pivoted, pattern, slots, order, threshold) for order, threshold in orders]
    factored: Factor = first_nonsingular(makes, makes[-1])
    return factored


def sign(structure: Any, p: Tree) -> Any:
    """det / |det| by SuperLU with partial pivoting: of a matrix that is known to be regular."""
    lu = _factored(structure.pattern.csc(structure.slot_values(p)), 1.0, "COLAMD")
    pivots = lu.U.diagonal()
    return (pivots / np.abs(pivots)).prod() * _parity(lu.perm_r) * _parity(lu.perm_c)


def _factored(matrix: Any, threshold: float, order: str) -> Any:
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
        raise SingularMatrixError(BlockLDU.__name__, "a pivot that is exactly zero") from None


def _pivoted(
    pattern: Pattern, slots: Array, order: Callable[[], Array | None], threshold: float
) -> BlockLDU:
    """The blocks on the orders of rows and columns that SuperLU finds with this threshold."""
    values, _, _ = Arrangement(pattern).scaled(BlockLDU.__name__, slots, equilibrated)
    matrix, before = pattern.csc(values), order()
    if before is not None:
        matrix = matrix[before][:, before]
    lu = _factored(matrix, threshold, "COLAMD" if before is None else "NATURAL")
    rows, cols = np.argsort(lu.perm_r), np.argsort(lu.perm_c)
    if before is not None:
        rows, cols = before[rows], before[cols]
    factored = BlockLDU(Fronts(pattern, rows, cols), slots, carefully=True)
    factored.inverse_entries()  # which are checked, and kept
    return factored


class BlockLDU(Selected):
    """The blocks of the permuted and equilibrated matrix."""

    _arrangement: Fronts

    def __init__(
        self, fronts: Fronts, slots: Any, positive: bool = False, carefully: bool = False
    ) -> None:
        super().__init__(fronts, slots, carefully)
        with np.errstate(all="ignore"):
            self._blocks = Blocks(fronts, self._values, positive)
        if (failed := self._blocks.failed) is not None:
            if positive:
                raise NotPositiveDefiniteError(
                    self._name, f"a pivot that is not positive in supernode {failed}"
                )
            raise SingularMatrixError(self._name, "a diagonal block that is singular")
        self.nbytes = self._blocks.nbytes + self._values.nbytes
        self.check_suspect()

    def _solved(self, b: Any, op: str) -> Any:
        with np.errstate(all="ignore"):
            return self._blocks.solve(b, op).astype(self._values.dtype, copy=False)

    def _log_pivots(self) -> Any:
        return self._blocks.slogdet()[1]

    def slogdet(self) -> tuple[Any, Any]:
        size = self.logabsdet()
        fronts = self._arrangement
        return self._blocks.slogdet()[0] * _parity(fronts.rows) * _parity(fronts.cols), size

    def _lower(self) -> Array:
        return self._blocks.lower()

    def _inverse(self) -> Array:
        return self._entries

    @cached_property
    def _entries(self) -> Array:
        self._require_accurate_factors()
        z = self._blocks.inverse()
        self._require_identity(z)
        return z

    def _tangent(self, e: Array) -> Array:
        self._require_accurate_factors()
        return self._blocks.tangent(e)

    def _require_accurate_factors(self) -> None:
        """Small pivots lose what products with entries of M do not show where these are small."""
        self._require_accurate(lambda b: self._solved(b, "N"))


def _parity(order: Any) -> int:
    """The sign of a permutation: -1 to the number of its elements less that of its cycles."""
    seen, sign = np.zeros(len(order), bool), 1
    following = order.tolist()
    for start in range(len(following)):
        j, length = start, 0
        while not seen[j]:
            seen[j] = True
            j = following[j]
            length += 1
        if length and not length % 2:
            sign = -sign
    return sign
