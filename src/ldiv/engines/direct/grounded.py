"""Sparse, a singular A with a border: the solve of [A, V; W^H, 0] by a factor of A + E E^H.

E has k columns of the identity, k the width of the border, each times a power of two: E E^H is about as
large as the rows of A to which it is added. For an A whose null space has k dimensions

    (A + E E^H) X = E,      A X = 0;      (A + E E^H)^H Y = E,      Y^H A = 0

and A u + V m = f, W^H u = g is solved by

    m = (Y^H V)^-1 Y^H f,   (A + E E^H) y = f - V m,   u = y + X (W^H X)^-1 (g - W^H y),

for Y^H times the first equation gives m, then E^H y = 0, and A y = f - V m. A + E E^H is as sparse as A,
and definite where A is semidefinite. The dense border is not eliminated, and delays no pivot.
The rows of E are those in which an orthonormal basis of V has its pivots. The null vectors of an
unsymmetric A need not be large there. A careful attempt finds them by a solve with a matrix near A, and
takes rows in which those of A and of A^H are large. An A of another kind shows in the residual of the
whole system; then, and if A + E E^H appears singular, the next engine eliminates all.
Reference: Golub and Van Loan, section 4.4; Bochev and Lehoucq, SIAM Review 47 (2005); Govaerts, Numerical
Methods for Bifurcations of Dynamical Equilibria (2000), chapter 3.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import adjoint, conj
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.core.rules.units import balance
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct import lapack
from ldiv.engines.factor import Factor
from ldiv.engines.factors.escalation import Escalating
from ldiv.engines.factors.plan import planned
from ldiv.engines.registry import where_not_cpu
from ldiv.errors import SingularMatrixError
from ldiv.structures.bordered import Bordered
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

RANK = 35  # before engines that eliminate all of it
ON_HOST = True
REMEMBERED = True
NAME = "Grounded"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(_base(structure), Bordered):
        return "solves large sparse systems with a null space"
    return where_not_cpu(device)


def _base(structure: Structure) -> Any:
    return structure.base if isinstance(structure, Symmetric) else structure


class Analysis(Arrangement):
    """The slots of A, V and W^H, and the pattern of A + E E^H for every E."""

    def __init__(self, structure: Any) -> None:
        pattern, width = structure.pattern, _base(structure).width
        super().__init__(pattern)
        n, rows, cols = pattern.shape[0] - width, pattern.indices, pattern.columns
        self.inner, self.width = n, width
        self.of_a, self._of_v, self._of_w = (
            np.flatnonzero(at)
            for at in ((rows < n) & (cols < n), (rows < n) & (cols >= n), (rows >= n) & (cols < n))
        )
        i, j = (places[self.of_a] for places in (rows, cols))
        every = np.arange(n)
        own = Sparse(Pattern(np.append(i, every), np.append(j, every), (n, n)))
        self.general, self.hermitian = own, Symmetric(own)

    def require_rank(self, engine: str, values: Any) -> None:
        """Raise if a row or column is empty: the factor of A + E E^H shows a lower rank."""
        if self.layout.has_empty:
            raise SingularMatrixError(engine, "a row or column without entries", certain=True)

    def border(self, values: Any) -> tuple[Any, Any]:
        """V and W, arrays (n, k)."""
        n, rows, cols = self.inner, self.pattern.indices, self.pattern.columns
        v, w = np.zeros((2, n, self.width), values.dtype)
        v[rows[self._of_v], cols[self._of_v] - n] = values[self._of_v]
        w[cols[self._of_w], rows[self._of_w] - n] = values[self._of_w].conj()
        return v, w


def analyze(structure: Any) -> Analysis:
    return Analysis(structure)


def factor(
    analysis: Analysis, structure: Any, p: Tree, assume_a: str, careful: bool = False
) -> Factor:
    m = SparseMatrix(NAME, analysis, structure.slot_values(p))
    return Verified(NAME, m, Grounded(analysis, m, careful), m.scales)


factor_carefully = partial(factor, careful=True)


class Grounded(Factor):
    """The factor of A + E E^H, the null vectors X and Y, and their products with the border."""

    def __init__(self, analysis: Analysis, m: SparseMatrix, careful: bool) -> None:
        self._n, values, mirror = analysis.inner, m.values, analysis.pattern.transposition
        v, w = analysis.border(values)
        is_hermitian = mirror is not None and np.array_equal(values, values[mirror].conj())
        part = analysis.hermitian if is_hermitian else analysis.general

        def plus(diagonal: Any) -> Escalating:
            """The factor of A plus a diagonal, by usual settings alone."""
            whole = np.append(values[analysis.of_a], diagonal)
            plan = planned(part, whole, None, "gen").factors
            assert plan is not None, "a sparse matrix is factored on the host"
            return Escalating(plan.attempts[0][:1], (), whole)

        try:
            if careful:
                # near A, whose inverse turns any vector into null vectors of A
                shift = m.limits.eps**0.5 * np.abs(values).max()
                near, z = plus(np.full(self._n, shift)), direction(v.size).reshape(v.shape)
                # a row must be large in both
                found = near.solve(z, "N") * np.abs(near.solve(z, "H")).max(axis=1, keepdims=True)
            else:
                # R A C has the left null vectors R^-1 V_A where those of A are V_A, and V = R V_A
                found = v if m.scales is None else v / m.scales[0][: self._n, None] ** 2
            e, row_of = np.zeros_like(v), analysis.pattern.indices[analysis.of_a]
            for j, i in enumerate(independent_rows(found)):
                # E E^H in the units of row i of A
                size = np.abs(values[analysis.of_a[row_of == i]]).max(initial=0)
                e[i, j] = 1 / balance(size)
            self._inner = plus((e * e).sum(axis=1))
            x = self._inner.solve(e, "N")
            y = x if is_hermitian else self._inner.solve(e, "H")
            # Y^H V and W^H X
            at_v, at_w = (lapack.factorize(c, lapack.lu) for c in (adjoint(y) @ v, adjoint(w) @ x))
        except SingularMatrixError as error:
            # not certain: another E may do
            raise SingularMatrixError(NAME, f"{error.evidence}, of A + E E^H") from error
        # A^H has the border W, V and the null vectors Y, X
        self._parts = {"N": (v, w, x, y, at_v, at_w), "H": (w, v, y, x, at_w, at_v)}
        self.nbytes = self._inner.nbytes + 4 * v.nbytes

    def solve(self, b: Any, op: str) -> Any:
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        v, w, x, y, at_v, at_w = self._parts[op]
        f, g = b[: self._n], b[self._n :]
        # m = (Y^H V)^-1 Y^H f
        m = at_v.solve(adjoint(y) @ f, op)
        # (A + E E^H) u = f - V m
        u = self._inner.solve(f - v @ m, op)
        # u + X (W^H X)^-1 (g - W^H u)
        return np.concatenate([u + x @ at_w.solve(g - adjoint(w) @ u, op), m])

    def logabsdet(self) -> Any:
        # |det| = |det (A + E E^H)| |det Y^H V| |det W^H X|
        *_, at_v, at_w = self._parts["N"]
        return self._inner.logabsdet() + at_v.logabsdet() + at_w.logabsdet()


def independent_rows(v: Any) -> Any:
    """k rows of V (n, k), such that no entry of V V[rows]^-1 is larger than 2^(k - 1)."""
    # V = Q R, Q = P L U with |L| <= 1: V V[rows]^-1 = P L L[:k]^-1
    place = scipy.linalg.lu(np.linalg.qr(v)[0], p_indices=True, check_finite=False)[0]
    return np.flatnonzero(place < v.shape[1])
