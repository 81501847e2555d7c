"""Solvers of least squares problems, chosen by the matrix; each has solve(b).

dense            QR of A, of a wide A that of A^H
A kron B         A^+ kron B^+, by the solvers of both
sparse, banded, and sums and products of these    the augmented matrix
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ldiv.core.arrays.shapes import (
    adjoint,
    alike,
    astype,
    batch_of,
    broadcast,
    is_complex,
    join,
    numpy_dtype,
    real,
    spread,
    take,
    unit_columns,
)
from ldiv.core.arrays.validate import as_float, together
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace
from ldiv.core.rules.rule import bind
from ldiv.errors import type_error, value_error
from ldiv.linalg.systems.sparse_least_squares import Augmented
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray, on_a_pattern
from ldiv.rules.least_squares import LeastSquares
from ldiv.rules.root_of_weights import RootOfWeights
from ldiv.structures.composed import is_dense
from ldiv.structures.dense import dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.kronecker import Kronecker

OF_DAMP = "It is static here: ldiv.lsqr and lsmr take an array, and differentiate in it."
ENTRIES = "Its entries are asked for: write it as a SparseArray or an array, or take method='lsqr'."


class Solver(Protocol):
    """argmin |A x - b|^2 + damp^2 |x|^2, of least norm for m < n, for blocks b (*batch, m, k)."""

    def solve(self, b: Array) -> Array: ...


def solver_of(A: Matrix, damp: float) -> Solver:
    """The solver of a matrix, which keeps what it computes of A alone."""
    structure = A.structure
    if is_dense(structure):
        return ByQR(structure.todense(A.params), damp)
    if isinstance(structure, Kronecker) and not damp:
        one, two = map(Matrix, structure.parts, A.params)
        return ByParts(structure, (solver_of(one, damp), solver_of(two, damp)))
    entered = on_a_pattern(A)
    solver = Augmented(A if entered is None else entered, damp)
    if solver.matrix is None:
        raise type_error("a", "an array, or a matrix with entries", repr(A), ENTRIES)
    return solver


def scaled_rows(A: Matrix, root: Array) -> Matrix:
    """The rows of A times these numbers (*batch, m)."""
    if is_dense(A.structure):
        return Matrix(dense(*A.structure.shape), root[..., None] * A.structure.todense(A.params))
    if not isinstance(A, SparseArray):
        return Matrix(Diagonal(A.structure.shape[0]), root) @ A
    values = A.data
    batch = broadcast(batch_of(values, 1), batch_of(root, 1))
    return A.with_data(spread(values, batch, 1) * take(root, np.array(A.row)))


def roots(weights: Any, m: int, like: Array) -> Array:
    """The roots of weights (*batch, m), beside numbers of this kind."""
    w = as_float("weights", weights, like)
    together("weights", w, like)
    if w.ndim == 0 or w.shape[-1] != m or is_complex(w):
        came = f"{tuple(w.shape)} {numpy_dtype(w)}"
        advice = "There is one for each row."
        raise value_error("weights", f"real numbers (..., {m})", came, advice)
    w = astype(w, numpy_dtype(real(like)))
    found: Array = bind(RootOfWeights(), w[..., None])[0][..., 0]
    return found


@dataclass(frozen=True)
class ByQR:
    """Least squares of a dense A, by the QR factors of T = [A; damp I], of a wide one T = [A^H; damp I].

    A wide A goes by the dual problem, x = A^H y, (A A^H + damp^2 I) y = b, which is T^H T y = b. The
    residual is damp^2 y: as b - A x it would have no digits left that a small damping could divide.
    """

    A: Array
    damp: float

    def solve(self, b: Array) -> Array:
        k, n = b.shape[-1], self.A.shape[-1]
        T, xp = self._tall, namespace(b)
        if self.is_tall:
            side = T.stacked(b, xp.zeros((n, k), **alike(b))) if self.damp else b
            return bind(LeastSquares("b", (True, False)), T.matrix, side)[1]
        return T.upper(bind(LeastSquares("c", (False, True)), T.matrix, b)[0], n)

    def covariance(self) -> Array:
        """(A^H A + damp^2 I)^-1: -X with R + T X = 0, T^H R = I; of a wide A R / damp^2 above, with
        R = (I - T T^+) [I; 0].
        """
        T, n = self._tall, self.A.shape[-1]
        unit, xp = unit_columns(self.A, n, range(n)), namespace(self.A)
        if self.is_tall:
            return -bind(LeastSquares("c", (True, False)), T.matrix, unit)[1]
        side = T.stacked(unit, xp.zeros((self.A.shape[-2], n), **alike(self.A)))
        r = bind(LeastSquares("b", (False, True)), T.matrix, side)[0]
        return T.upper(r, n) / self.damp / self.damp

    @property
    def is_tall(self) -> bool:
        return self.A.shape[-2] >= self.A.shape[-1]

    @property
    def _tall(self) -> _Tall:
        return _Tall(self.A if self.is_tall else adjoint(self.A), self.damp)


@dataclass(frozen=True)
class _Tall:
    """[A; damp I], or [damp I; A]: larger rows first, as reflections want it, to which small rows are
    rounding otherwise.
    """

    A: Array
    damp: float

    @cached_property
    def matrix(self) -> Array:
        n = self.A.shape[-1]
        return (
            self.stacked(self.A, self.damp * unit_columns(self.A, n, range(n)))
            if self.damp
            else self.A
        )

    @cached_property
    def _first(self) -> Any:
        A = self.A
        if 0 in A.shape:
            return namespace(A).asarray(True)
        return (
            namespace(A).max(namespace(A).abs(constant(A)), axis=(-2, -1))[..., None, None]
            >= self.damp
        )

    def stacked(self, x: Array, y: Array) -> Array:
        """The rows x beside A and y beside damp I, in the order of the rows."""
        return namespace(x).where(self._first, join(x, y, 2), join(y, x, 2))

    def upper(self, z: Array, n: int) -> Array:
        """The n rows of z beside A."""
        return namespace(z).where(self._first, z[..., :n, :], z[..., z.shape[-2] - n :, :])


@dataclass(frozen=True)
class ByParts:
    """(A kron B)^+ = A^+ kron B^+; a pseudo-inverse has the shape of the adjoint."""

    structure: Kronecker
    solvers: tuple[Solver, Solver]

    def solve(self, b: Array) -> Array:
        H: Any = self.structure.H
        return H.inverse(self.solvers, b, lambda _, solver, y: solver.solve(y))
