"""The differentiated functions: g(t) = loss(f(A(t), b(t))), a real function of three real
parameters.

    A(t) = A_0 + sum_k t_k A_k on a pattern,   b(t) = b_0 + sum_k t_k b_k

Real parameters leave no room for conventions: a gradient is a gradient, of complex matrices too. Of a
symmetric matrix all A_k are symmetric, so that it does not matter which triangle a package reads.
References are central differences of g in mpmath, with 60 digits and steps of 1e-15: 25 digits are right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mpmath as mp
import numpy as np
from references import MATRICES, SHIFT, SMALLER, box_program, marginal

DIGITS = 60
PARAMETERS = 3
AT = (0.25, -0.5, 0.125)
# directions: derivatives of order 1 in U, 2 in U and V, 3 in U twice and V
U = (0.5, 1.0, -0.75)
V = (-1.0, 0.25, 0.5)
PROBLEMS = (
    "solve dense",
    "solve dense pos",
    "solve sparse",
    "solve sparse pos",
    "logdet dense pos",
    "logdet sparse pos",
    "lstsq dense",
    "lstsq sparse",
    "qp dense pos",
    "qp sparse pos",
    "cholesky dense pos",
    "eigenvalues dense, repeated",
    "eigenvalues sparse, repeated",
    "subspace dense, repeated",
    "eigvals dense",
    "eig dense",
    "expm dense",
    "logm dense",
    "sqrtm dense",
    "sylvester dense",
    "care dense",
    "dare dense",
    "damped dense",
    "graded dense",
    "det singular dense",
    "rebuilt dense",
    "triplets dense",
    "small dense",
    "qp implied dense pos",
    "updated dense pos",
    "schur sparse",
    "kron dense pos",
    "marginal dense pos",
    "singular dense",
    "singular sparse",
)
KEPT = 2  # unknowns of a Schur complement, the first ones
DAMP = 2.0**-20
LOW, UP = 2.0**-60, 2.0**6  # of graded matrices: what is below and above the diagonal
SOLUTIONS = {
    "solve": mp.lu_solve,
    "graded": mp.lu_solve,
    "damped": lambda A, b: A.H * mp.lu_solve(A * A.H + mp.mpf(DAMP) ** 2 * mp.eye(A.rows), b),
    "lstsq": lambda A, b: mp.lu_solve(A.H * A, A.H * b),
    "qp": box_program,
}
# the matrices are 16 I + O(1); of these they are that times a power of 2
# A of Riccati equations is stable
SCALES = {"expm": 0.125, "care": -1.0, "dare": 0.03125, "small": 0.03125}


@dataclass(frozen=True)
class Problem:
    """Numbers that are short binary fractions, exact in float32, too."""

    name: str
    complex: bool

    @cached_property
    def _numbers(self) -> Callable[[], float]:
        draw = random.Random(self.name + str(self.complex))
        return lambda: draw.randrange(-16, 17) / 16

    def _draw(self, *shape: int) -> Any:
        if self.complex:
            parts = [self._numbers() + 1j * self._numbers() for _ in range(int(np.prod(shape)))]
        else:
            parts = [self._numbers() for _ in range(int(np.prod(shape)))]
        return np.array(parts).reshape(shape)

    @property
    def operation(self) -> str:
        return self.name.split()[0]

    @property
    def sparse(self) -> bool:
        return "sparse" in self.name

    @property
    def symmetric(self) -> bool:
        return "pos" in self.name or "repeated" in self.name

    @cached_property
    def data(self) -> tuple[Any, Any, Any]:
        """(matrices (4, m, n), right-hand sides (4, m), weights of the loss)."""
        n = 6
        m = {"lstsq": 9, "damped": 4}.get(self.operation, n)
        matrices, sides = self._draw(1 + PARAMETERS, m, n), self._draw(1 + PARAMETERS, m)
        if self.sparse:  # a ring
            place = np.arange(n)
            ring = abs(np.arange(m)[:, None] - place) % (n - 1) < 2
            matrices = matrices * ring
        if self.symmetric:
            matrices = matrices + matrices.conj().transpose(0, 2, 1)
        if m == n:
            matrices[0] += 16 * np.eye(n)
        matrices = matrices * SCALES.get(self.operation, 1.0)
        if "repeated" in self.name:
            matrices = self._repeated(matrices)
        if self.operation == "rebuilt":  # eigenvalues are as far apart as they are large
            matrices[0] -= 16 * np.eye(n)
        if self.operation == "graded":  # nearly triangular
            matrices[0] -= 14 * np.eye(n)
            row, col = np.indices((n, n))
            matrices = matrices * np.where(row > col, LOW, np.where(row < col, UP, 1.0))
        if self.operation == "det":  # at AT the rank is n - 2
            matrices[0] = np.diag([0.0, 0.0, 1.0, 2.0, 3.0, 4.0])
            matrices[0] = matrices[0] - sum(t * a for t, a in zip(AT, matrices[1:], strict=True))
        if self.operation == "singular":
            # the first two rows agree for every t, and there is no solution
            matrices[:, 1] = matrices[:, 0]
        return matrices, sides, self._draw(n, n)

    def _repeated(self, matrices: Any) -> Any:
        """A matrix that is diagonal at AT, with the lowest eigenvalue twice."""
        matrices = matrices.copy()
        if self.sparse:
            matrices[0] = matrices[0] * 0 + np.diag([2.0, 2.0, 5.0, 6.0, 7.0, 8.0])
        else:
            matrices[0] = np.diag([2.0, 2.0, 5.0, 6.0, 7.0, 8.0])
        matrices[0] -= sum(t * a for t, a in zip(AT, matrices[1:], strict=True))
        return matrices

    @cached_property
    def pattern(self) -> tuple[Any, Any]:
        """Rows and columns of all entries that are ever nonzero, by rows; the diagonal is there."""
        matrices, _, _ = self.data
        there = (matrices != 0).any(0)
        if there.shape[0] == there.shape[1]:
            there |= np.eye(len(there), dtype=bool)
        if self.symmetric:
            there |= there.T
        return tuple(np.nonzero(there))  # type: ignore[return-value]

    # -- the reference ---------------------------------------------------------------------------

    def exact(self, t: Sequence[Any]) -> Any:
        """g(t), in mpmath."""
        matrices, sides, weights = self.data
        A = _combined(matrices, t)
        b = _combined(sides[:, :, None], t)
        W = _exactly(weights)
        n = matrices.shape[2]
        w = [W[0, j] for j in range(n)]
        if self.operation in SOLUTIONS:
            x = SOLUTIONS[self.operation](A, b)
            return sum(mp.re(mp.conj(w[i]) * x[i]) + abs(x[i]) ** 2 for i in range(n))
        if self.operation == "logdet":
            return mp.log(abs(mp.det(A)))
        if self.operation == "kron":  # an eigenvalue of a Kronecker product is a product of two
            inner, outer = mp.eighe(A)[0], mp.eigsy(mp.matrix(SMALLER))[0]
            return sum(mp.log(x * y + SHIFT) for x in inner for y in outer)
        if self.operation == "marginal":
            return marginal(A, b)
        if self.operation == "schur":
            rest, kept = range(KEPT, n), range(KEPT)
            part = lambda I, J: mp.matrix([[A[i, j] for j in J] for i in I])
            below = mp.inverse(part(rest, rest)) * part(rest, kept)
            S = part(kept, kept) - part(kept, rest) * below
            places = [(i, j) for i in kept for j in kept]
            return sum(mp.re(mp.conj(W[p]) * S[p]) + abs(S[p]) ** 2 for p in places)
        if self.operation == "det":
            return mp.re(mp.det(A)) + sum(abs(x) ** 2 for x in A)
        if self.operation in ("cholesky", "updated"):
            L = mp.cholesky(A if self.operation == "cholesky" else A + b * b.H)
            return sum(mp.re(mp.conj(W[i, j]) * L[i, j]) for i in range(n) for j in range(i + 1))
        if self.operation in ("eigvals", "eig"):
            return _of_spectrum(self.operation, A, w)
        if self.operation in MATRICES:
            Y = MATRICES[self.operation](A, b)
            return sum(mp.re(mp.conj(v) * y) + abs(y) ** 2 for v, y in zip(W, Y, strict=True))
        values, X = mp.eighe(A)
        if self.operation == "eigenvalues":
            return values[0] + values[1] + values[0] * values[1]
        inner = [sum(mp.conj(X[i, k]) * w[i] for i in range(n)) for k in range(2)]
        return sum(abs(c) ** 2 for c in inner)

    def reference(self, mode: str) -> list[float]:
        """The right result of the mode."""
        with mp.workdps(DIGITS):
            return [float(x) for x in _reference(self.exact, mode)]


def _reference(g: Callable[[Sequence[Any]], Any], mode: str) -> list[Any]:
    order = ORDERS[mode]
    at = [mp.mpf(x) for x in AT]
    if order == 0:
        return [g(at)]
    axes = [[int(i == k) for i in range(PARAMETERS)] for k in range(PARAMETERS)]
    if mode in ("forward", "forward over forward"):
        return [_derivative(g, at, [U, V][:order])]
    along = {1: [], 2: [U], 3: [U, V]}[order]
    gradient = [_derivative(g, at, [*along, axis]) for axis in axes]
    if mode == "vmap of reverse":
        there = [x + u for x, u in zip(at, U, strict=True)]
        gradient += [_derivative(g, there, [axis]) for axis in axes]
    return gradient


def _derivative(g: Callable[[Sequence[Any]], Any], at: Sequence[Any], along: Sequence[Any]) -> Any:
    """The derivative by central differences, one direction after the other."""
    if not along:
        return g(at)
    h = mp.mpf(10) ** (-12)
    first, rest = along[0], along[1:]
    ends = [[x + s * h * mp.mpf(u) for x, u in zip(at, first, strict=True)] for s in (1, -1)]
    above, below = (_derivative(g, end, rest) for end in ends)
    return (above - below) / (2 * h)


def _of_spectrum(operation: str, A: Any, w: Any) -> Any:
    """Sums over all eigenvalues, which have no order: of |value|^2, of "eig" times |w^H x|^2."""
    values, X = mp.eig(A)
    total = mp.mpf(0)
    for k, value in enumerate(values):
        share = mp.mpf(1)
        if operation == "eig":
            x = X[:, k]
            share = abs(sum(mp.conj(u) * y for u, y in zip(w, x, strict=True))) ** 2
            share /= mp.norm(x) ** 2
        total += abs(value) ** 2 * share
    return total


def _exactly(a: Any) -> Any:
    return mp.matrix(
        [[mp.mpmathify(complex(x) if np.iscomplexobj(a) else float(x)) for x in row] for row in a]
    )


def _combined(parts: Any, t: Sequence[Any]) -> Any:
    total = _exactly(parts[0])
    for x, part in zip(t, parts[1:], strict=True):
        total = total + x * _exactly(part)
    return total


# -- modes: what is asked of a package, and the order of its derivatives ----------------------------

ORDERS = {
    "value": 0,
    "reverse": 1,
    "forward": 1,
    "vmap of reverse": 1,
    "reverse, compiled": 1,
    "reverse over reverse": 2,
    "forward over reverse": 2,
    "reverse over forward": 2,
    "forward over forward": 2,
    "reverse, three times": 3,
}
