"""Differences I - A x B, X - A X B^T = Q, by Schur forms: Y - T Y W = U^H Q V, X = U Y V^H.

cost         25 (n^3 + m^3) operations once, of complex numbers; 3 n m (n + m) for each right-hand
             side
reference    Barraud, IEEE Trans. Autom. Control 22 (1977)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct.schur_pair import PairMatrix, SchurPair
from ldiv.engines.factor import Factor
from ldiv.engines.functions.triangular_stein import triangular_stein
from ldiv.engines.registry import where_not_cpu
from ldiv.structures.stein import Stein

RANK = 13
ON_HOST = True
REMEMBERED = True
NAME = "Barraud"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Stein):
        return "solves with I - A x B only"
    return where_not_cpu(device)


def factor(symbolic: None, structure: Stein, p: Tree, assume_a: str) -> Factor:
    m = Difference(structure, p)
    return Verified(NAME, m, Forms(m, "complex"), m.scales)


class Difference(PairMatrix):
    """X - A X B^T."""

    def applied(self, a: HostArray, b: HostArray, x: HostArray, hermitian: bool) -> HostArray:
        # B = conj(A) and X = X^H: A X B^T = A X A^H is Hermitian, to the last bit after averaging
        y = a @ x @ b.T
        return x - ((y + adjoint(y)) / 2 if hermitian else y)

    def sized(self, a: HostArray, b: HostArray, x: HostArray) -> HostArray:
        return x + a @ x @ b.T

    def norm_from(self, a: float, b: float) -> float:
        # |I - A x B| <= 1 + |A| |B|
        return 1 + a * b


class Forms(SchurPair):
    """Y - T Y W."""

    ENGINE, SINGULAR = NAME, "product is one"

    def combined(self, one: HostArray, two: HostArray) -> HostArray:
        # the eigenvalues of I - A x B: 1 - l_i mu_j
        return 1 - np.multiply.outer(one, two)

    def triangular(self, t: HostArray, w: HostArray, f: HostArray, ops: str) -> HostArray:
        return triangular_stein(t, w, f, ops)
