"""Sparse, A = A^T or A = A^H, indefinite: R P A P^T R = L D L^T, or L D L^H, in compiled code of ldiv's own.

Half the work of an LU, in dense fronts. Pivots of one or two rows come from inside of a front, and
are as large as its whole columns demand; columns without one wait for the parent's front. So |L| is
bounded, whatever the matrix, and the signs of D are those of the eigenvalues (Sylvester), which
refutes a wrong assume_a="pos". What is compiled accepts a factor and a solution, or declines: then L
and D are looked at here. A second attempt demands larger pivots.
Reference: Bunch, Kaufman, Math. Comp. 31 (1977); Duff, Reid, ACM Trans. Math. Softw. 9 (1983).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.limits import CAREFUL_PIVOT, SYMMETRIC_PIVOT
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.selected.checked_fronts import CheckedFronts
from ldiv.engines.selected.compiled import CompiledLdl
from ldiv.errors import NotPositiveDefiniteError
from ldiv.structures.symmetric import Symmetric

RANK = 37
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "Ldl"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or structure.pattern is None:
        return "factors sparse symmetric matrices only"
    return sparse_checked.declined(dtype, device)


def analyze(structure: Any) -> CheckedFronts:
    return CheckedFronts(structure, structure.op)


def factor(fronts: CheckedFronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    positive = assume_a == "pos"
    careful = partial(_verified, fronts, structure, p, positive, SYMMETRIC_PIVOT)
    # whoever promises a definite matrix has its signs looked at
    return careful() if positive else fronts.factor(structure, p, careful, Accepted)


def factor_carefully(fronts: CheckedFronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return _verified(fronts, structure, p, assume_a == "pos", CAREFUL_PIVOT)


def _verified(
    fronts: CheckedFronts, structure: Any, p: Tree, positive: bool, least: float
) -> Verified:
    slots = structure.slot_values(p)
    is_hermitian = fronts.kind == "H"
    # only a complex Hermitian M differs from its transpose
    is_its_transpose = slots.dtype.kind != "c" or not is_hermitian
    m = SparseMatrix(NAME, fronts, slots, symmetric=is_its_transpose)
    made = CompiledLdl(NAME, fronts, m.values, is_hermitian, least)
    # Sylvester: D of L D L^H has as many negative eigenvalues as A
    if positive and (signs := made.signs()) is not None and signs[1]:
        raise NotPositiveDefiniteError(
            NAME, f"{signs[1]} negative pivots, one for each negative eigenvalue"
        )
    # a norm hides what small entries lose
    return Verified(NAME, m, made, m.scales, by_rows=not positive and m.scales is not None)


class Accepted(sparse_checked.Accepted):
    """A factor that has passed every check, and the signs of D where it is accurate."""

    def signs(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._found.signs()
        return self._careful.signs() if found is None else found
