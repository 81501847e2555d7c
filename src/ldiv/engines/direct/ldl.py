"""Sparse, A = A^T or A = A^H, indefinite: R P A P^T R = L D L^T, or L D L^H, in compiled code of ldiv's own.

Half the work of an LU, in dense fronts. Pivots of one or two rows come from inside of a front, and
are as large as its whole columns demand; columns without one wait for the parent's front. So |L| is
bounded, whatever the matrix, and the signs of D are those of the eigenvalues (Sylvester), which
refutes a wrong assume_a="pos". A second attempt demands larger pivots.
Reference: Bunch, Kaufman, Math. Comp. 31 (1977); Duff, Reid, ACM Trans. Math. Softw. 9 (1983).
"""

from __future__ import annotations

from typing import Any

from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.limits import CAREFUL_PIVOT, SYMMETRIC_PIVOT
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.selected.fronts import Fronts
from ldiv.engines.selected.ldl import CompiledLdl
from ldiv.errors import NotPositiveDefiniteError
from ldiv.structures.symmetric import Symmetric

RANK = 41
ON_HOST = True
REMEMBERED = True
IN_SINGLE = True
NAME = "Ldl"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Symmetric) or structure.pattern is None:
        return "factors sparse symmetric matrices only"
    return sparse_checked.declined(dtype, device)


class LdlFronts(Fronts):
    """The fronts of a structure, and its kind: A = A^H, or A = A^T."""

    def __init__(self, structure: Any) -> None:
        super().__init__(structure.pattern)
        self.is_hermitian = structure.op == "H"


def analyze(structure: Any) -> LdlFronts:
    return LdlFronts(structure)


def factor(fronts: LdlFronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return _factorize(fronts, structure, p, assume_a == "pos", SYMMETRIC_PIVOT)


def factor_carefully(fronts: LdlFronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return _factorize(fronts, structure, p, assume_a == "pos", CAREFUL_PIVOT)


def _factorize(
    fronts: LdlFronts, structure: Any, p: Tree, positive: bool, least: float
) -> Verified:
    slots = structure.slot_values(p)
    is_its_transpose = slots.dtype.kind != "c" or not fronts.is_hermitian
    m = SparseMatrix(NAME, fronts, slots, symmetric=is_its_transpose)
    made = CompiledLdl(NAME, fronts, m.values, fronts.is_hermitian, least)
    if positive and (signs := made.signs()) is not None and signs[1]:
        raise NotPositiveDefiniteError(
            NAME, f"{signs[1]} negative pivots, one for each negative eigenvalue"
        )
    # a norm hides what small entries lose
    return Verified(NAME, m, made, m.scales, by_rows=not positive and m.scales is not None)
