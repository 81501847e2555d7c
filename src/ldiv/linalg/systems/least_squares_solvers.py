"""What solves a least squares problem of a matrix, by what the matrix is: each has solve(b).

dense            QR
A kron B         A^+ kron B^+, by the solvers of both
sparse, banded, and what is made of such    the augmented matrix
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import (
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
from ldiv.core.dispatch import check_or_raise, constant, namespace
from ldiv.core.rule import bind
from ldiv.core.validate import as_float, together
from ldiv.errors import expected_got
from ldiv.linalg.systems.sparse_least_squares import Augmented
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.assertion import checked
from ldiv.rules.least_squares import LeastSquares
from ldiv.structures.composed import is_dense
from ldiv.structures.dense import dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.sparse import Sparse

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
    if isinstance(structure.unview()[0], Sparse) and not isinstance(A, SparseArray):
        A = SparseArray(structure, A.params)
    solver = Augmented(A, damp)
    if solver.matrix is None:
        came = repr(A)
        raise TypeError(expected_got("a", "an array, or a matrix with entries", came, ENTRIES))
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
        raise ValueError(expected_got("weights", f"real numbers (..., {m})", came, advice))
    root: Array = namespace(w).sqrt(checked(_positive, astype(w, numpy_dtype(real(like)))))
    return root


def _positive(w: Array) -> None:
    advice = "Leave the rows out that do not count."
    if 0 in w.shape:
        return

    def error(least: Any) -> ValueError:
        return ValueError(expected_got("weights", "positive numbers", f"{float(least):g}", advice))

    check_or_raise((w > 0).all(), error, namespace(w).min(w))


@dataclass(frozen=True)
class ByQR:
    """Of a dense A; of a wide one by that of A^H."""

    A: Array
    damp: float

    def solve(self, b: Array) -> Array:
        return by_qr(*damped(self.A, b, self.damp))

    def covariance(self) -> Array:
        """(A^H A + damp^2 I)^-1: -X with R + A X = 0, A^H R = I."""
        n = self.A.shape[-1]
        unit = unit_columns(self.A, n, range(n))
        tall, _ = damped(self.A, self.A, self.damp)
        return -bind(LeastSquares(auxiliary=(True, False)), tall, 0 * tall, unit)[1]


@dataclass(frozen=True)
class ByParts:
    """Of A kron B, (A kron B)^+ = A^+ kron B^+: a pseudo-inverse has the shape of the adjoint."""

    structure: Kronecker
    solvers: tuple[Solver, Solver]

    def solve(self, b: Array) -> Array:
        H: Any = self.structure.H
        found: Array = H.inverse(self.solvers, b, lambda _, solver, y: solver.solve(y))
        return found


def by_qr(a: Array, b: Array) -> Array:
    m, n = a.shape[-2:]
    zero = namespace(b).zeros((n, b.shape[-1]), **alike(b))
    if m >= n:
        return bind(LeastSquares(auxiliary=(True, False)), a, b, zero)[1]
    return bind(LeastSquares(auxiliary=(False, True)), adjoint(a), zero, b)[0]


def damped(a: Array, b: Array, damp: float) -> tuple[Array, Array]:
    """[A; damp I] and [b; 0], or [damp I; A] and [0; b]: larger rows first, as reflections want it, to
    which small rows are rounding otherwise.
    """
    if not damp:
        return a, b
    n, xp = a.shape[-1], namespace(a)
    unit, zeros = damp * unit_columns(a, n, range(n)), xp.zeros((n, b.shape[-1]), **alike(b))
    pairs = (a, unit), (b, zeros)
    if 0 in a.shape:
        return join(*pairs[0], 2), join(*pairs[1], 2)
    first = xp.max(xp.abs(constant(a)), axis=(-2, -1))[..., None, None] >= damp
    of_a, of_b = (xp.where(first, join(x, y, 2), join(y, x, 2)) for x, y in pairs)
    return of_a, of_b
