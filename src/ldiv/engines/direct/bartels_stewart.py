"""Kronecker sums, A X + X B^T = Q, by Schur forms: T Y + Y W = U^H Q V, X = U Y V^H.

cost         25 (n^3 + m^3) operations once; 3 n m (n + m) for each right-hand side
reference    Bartels and Stewart, Comm. ACM 15 (1972)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.core.rules.structure import Structure
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct.schur_pair import PairMatrix, SchurPair
from ldiv.engines.factor import Factor
from ldiv.engines.functions.triangular_sylvester import triangular_sylvester
from ldiv.engines.registry import where_not_cpu
from ldiv.structures.kronecker_sum import KroneckerSum

RANK = 12
ON_HOST = True
REMEMBERED = True
NAME = "Bartels-Stewart"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, KroneckerSum):
        return "solves with Kronecker sums only"
    return where_not_cpu(device)


def factor(symbolic: None, structure: KroneckerSum, p: Tree, assume_a: str) -> Factor:
    m = Sum(structure, p)
    output = "complex" if m.dtype.kind == "c" else "real"
    return Verified(NAME, m, Forms(m, output), m.scales)


class Sum(PairMatrix):
    """t (A X + X B^T) t for a power of two t that brings A and B near 1: libraries of Schur forms round
    when they change units, and take small numbers for zero.
    """

    def in_units(self, a: HostArray, b: HostArray) -> tuple[HostArray, HostArray]:
        # one unit t^2 for A and B, since the terms A X and X B^T are added
        t: Any = balance(np.maximum(magnitude(a, None), magnitude(b, None)))
        self.root = t = t.ravel()[0]
        return a * t * t, b * t * t

    def applied(self, a: HostArray, b: HostArray, x: HostArray, hermitian: bool) -> HostArray:
        left = a @ x
        # B = conj(A) and X = X^H give X B^T = X A^H = (A X)^H
        return left + (adjoint(left) if hermitian else x @ b.T)

    def sized(self, a: HostArray, b: HostArray, x: HostArray) -> HostArray:
        return self.applied(a, b, x, False)

    def norm_from(self, a: float, b: float) -> float:
        # |A x I + I x B| <= |A| + |B|
        return a + b


class Forms(SchurPair):
    """T Y + Y W."""

    ENGINE, SINGULAR = NAME, "sum is zero"

    def combined(self, one: HostArray, two: HostArray) -> HostArray:
        # the eigenvalues of A x I + I x B: l_i + mu_j
        return np.add.outer(one, two)

    def triangular(self, t: HostArray, w: HostArray, f: HostArray, ops: str) -> HostArray:
        return triangular_sylvester(t, w, f, ops)
