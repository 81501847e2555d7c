"""X = log A, exp(X) = A, |Im lam(X)| < pi, and its derivatives: roots, and their logarithm.

    log A = 2^s log(A^(1/2^s)),    log(I + X) = integral over u from 0 to 1 of X (I + u X)^-1

for hyperdual A on one Schur form of A: s square roots, and Gauss's rule, which is Pade's
approximation. Values are SciPy's, verified by exp(X) = A.
Reference: Al-Mohy, Higham and Relton, SIAM J. Sci. Comput. 35 (2013).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.branch_cut import met, principal, require_off_the_cut
from ldiv.engines.functions.checked_lu import lu
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.hyperdual import hyperdual, identity, quotient
from ldiv.engines.functions.matrix_root import schur_form, square_root
from ldiv.errors import SingularMatrixError

_nodes, _weights = np.polynomial.legendre.leggauss(9)
NODES, WEIGHTS = (1 + _nodes) / 2, _weights / 2
NEAR_ONE = 0.25  # |X|_1 up to which the rule is exact to rounding, its derivatives too
ROOTS = 100  # at most: 60 bring any number of the range near 1
FAR = 25.0  # eigenvalues of log(A / |A|) that are smaller are those of no singular matrix
RESIDUAL = 1e-3  # of |A|, beyond which X is no logarithm


@dataclass(frozen=True)
class Logarithm:
    """exp(X) = A."""

    name: str = "logm"
    units: ClassVar[Homogeneous | None] = Homogeneous(0, logarithms=1)

    def value(self, a: HostArray) -> HostArray:
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")  # SciPy looks at exp(X) itself
            try:
                x = principal(scipy.linalg.logm, a)
            except (ValueError, np.linalg.LinAlgError):
                x = np.full_like(a, np.nan)
        if doubts or not np.isfinite(x).all():
            # SciPy doubts its value: it stands if exp(X) = A
            off = np.linalg.norm(scipy.linalg.expm(x) - a) if np.isfinite(x).all() else np.inf
            if not off <= RESIDUAL * np.linalg.norm(a):
                raise _no_logarithm(f"|exp(X) - A| = {off:.1e}")
        # a large log(A / |A|) has an eigenvalue that is tiny beside |A|
        if np.linalg.norm(x - np.log(np.linalg.norm(a)) * np.eye(len(a))) > FAR:
            values = np.linalg.eigvals(a)  # SciPy takes a tiny number for 0
            if (on := met(a, abs(values))) is not None:
                raise _no_logarithm(f"an eigenvalue of {abs(values[on]):.1e}")
        return x

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        # D log(A)[E] = Q D log(T)[Q^H E Q] Q^H
        t, q, fs = schur_form(a, es)
        require_off_the_cut(self.name, a, t)
        return q @ logarithm(hyperdual(t, fs))[-1] @ q.conj().T


def _no_logarithm(evidence: str) -> SingularMatrixError:
    causes = (
        "(a) a singular matrix, (b) eigenvalues that are many powers of ten apart, (c) a repeated "
        "negative eigenvalue without enough vectors, at which the logarithm jumps."
    )
    return SingularMatrixError("logm", evidence, causes=causes, verdict="has no logarithm")


def logarithm(x: HostArray) -> HostArray:
    """log X of a hyperdual X, whose part without any e is triangular, or nearly."""
    one, steps = identity(x), 0
    # log X = 2^s log X^(1/2^s), with roots until X is near I
    while np.linalg.norm(x[0] - one[0], 1) > NEAR_ONE and steps < ROOTS:
        x, steps = square_root(x), steps + 1
    x = x - one
    # log(I + X) = sum_j w_j (I + u_j X)^-1 X
    total = np.zeros_like(x)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        below = one + node * x
        total += weight * quotient(lu(below[0]), below, x)
    return total * 2.0**steps
