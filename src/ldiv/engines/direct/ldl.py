"""Sparse, A = A^T or A = A^H, indefinite: R P A P^T R = L D L^T, or L D L^H, in compiled code of ldiv's own.

Half the work of an LU, in dense fronts. Pivots of one or two rows come from inside of a front, and
are as large as its whole columns demand; columns without one wait for the parent's front. So |L| is
bounded, whatever the matrix, and the signs of D are those of the eigenvalues (Sylvester), which
refutes a wrong assume_a="pos". A second attempt demands larger pivots.
Reference: Bunch, Kaufman, Math. Comp. 31 (1977); Duff, Reid, ACM Trans. Math. Softw. 9 (1983).
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
    if np.dtype(dtype) not in sparse_checked.DTYPES:
        return f"factors float32, float64, complex64, complex128, not {np.dtype(dtype)}"
    if device != "cpu":
        return f"runs on the cpu, but the values are on {device}"
    return sparse_checked.missing()


def analyze(structure: Any) -> Fronts:
    return Fronts(structure.pattern)


def factor(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return _factorize(fronts, structure, p, assume_a == "pos", SYMMETRIC_PIVOT)


def factor_carefully(fronts: Fronts, structure: Any, p: Tree, assume_a: str) -> Factor:
    return _factorize(fronts, structure, p, assume_a == "pos", CAREFUL_PIVOT)


def _factorize(fronts: Fronts, structure: Any, p: Tree, positive: bool, least: float) -> Verified:
    slots = structure.slot_values(p)
    is_hermitian = slots.dtype.kind == "c" and structure.op == "H"
    m = SparseMatrix(NAME, fronts, slots, symmetric=not is_hermitian)
    made = CompiledLdl(NAME, fronts, m.values, is_hermitian, least)
    if positive and (signs := made.signs()) is not None and signs[1]:
        raise NotPositiveDefiniteError(
            NAME, f"{signs[1]} negative pivots, one for each negative eigenvalue"
        )
    # a norm hides what small entries lose
    return Verified(NAME, m, made, m.scales, by_rows=not positive and m.scales is not None)
