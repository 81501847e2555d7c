"""Matrix equations in X by the Schur forms A = U T U^H and B^T = V W V^H of their two matrices.

The equation in Y = U^H X V is that in X with triangles. Where B = conj(A), as in the
equations of Lyapunov and Stein, one form serves both, and a Hermitian right-hand side has a
Hermitian solution. The form of a Hermitian matrix is diagonal, and the equation in Y a division.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import adjoint, conj, result_dtype
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.core.rules.structure import view_dense
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.accuracy.limits import BALANCED
from ldiv.engines.accuracy.verifiable import Normed
from ldiv.engines.factor import Factor
from ldiv.errors import OF_PAIRS_OF_EIGENVALUES, SingularMatrixError, overflowed
from ldiv.structures.composed import Composed


class PairMatrix(Normed):
    """X (n, m) -> F(A, B, X), for the columns vec X of a block."""

    root = 1.0  # a power of two, whose square is the unit of the numbers of A and B
    has_sizes = True

    def __init__(self, structure: Composed, p: Tree) -> None:
        dtype = result_dtype(p)
        a, b = self.in_units(
            *(
                np.asarray(part.todense(q), dtype)
                for part, q in zip(structure.parts, p, strict=True)
            )
        )
        super().__init__(len(a) * len(b), dtype, a.nbytes + b.nbytes)
        # S^-1 A S and T^-1 B T for diagonal S and T of powers of two
        (self.a, s), (self.b, t) = _balanced(a), _balanced(b)
        a, b = self.a, self.b
        # X = S Y T, so vec X = (s x t) vec Y, and F(A, B, X) = S F(S^-1 A S, T^-1 B T, Y) T
        both = np.multiply.outer(s, t).ravel()
        # M = R F C with R = root / (s x t) and C = root (s x t)
        self.scales = self.root / both, self.root * both
        # B = conj(A), so that B^T = A^H has the Schur form of A
        self.one_form = a.shape == b.shape and bool((conj(a) == b).all())
        self._norms = {
            op: self.norm_from(*(_row_sums(view_dense(x, op)) for x in (a, b))) for op in "NTH"
        }

    def in_units(self, a: HostArray, b: HostArray) -> tuple[HostArray, HostArray]:
        """A and B in units of their own; of those of the user if the equation has others, too."""
        return a, b

    @abstractmethod
    def applied(self, a: HostArray, b: HostArray, x: HostArray, hermitian: bool) -> HostArray:
        """F(a, b, X); with `hermitian` the result is Hermitian to the last bit."""

    @abstractmethod
    def sized(self, a: HostArray, b: HostArray, x: HostArray) -> HostArray:
        """Return F(a, b, X) with all of its terms added, for numbers that are not negative."""

    @abstractmethod
    def norm_from(self, a: float, b: float) -> float:
        """A bound of the norm, from those of A and B."""

    def norm(self, op: str) -> float:
        return self._norms[op]

    def product(self, x: Any, op: str) -> HostArray:
        a, b = view_dense(self.a, op), view_dense(self.b, op)
        return self.each(x, lambda block: self.applied(a, b, block, self.keeps(block, op)))

    def sizes(self, x: Any, op: str) -> HostArray:
        a, b = (np.abs(view_dense(part, op)) for part in (self.a, self.b))
        return self.each(np.abs(x), lambda block: self.sized(a, b, block))

    def keeps(self, x: HostArray, op: str) -> bool:
        """Whether the result is Hermitian, because X is."""
        return self.one_form and op != "T" and bool((x == adjoint(x)).all())

    def each(self, x: HostArray, f: Callable[[HostArray], HostArray]) -> HostArray:
        """f of every column of x (n m, k), as a block (n, m)."""
        y, shape = np.empty_like(x, order="F"), (len(self.a), len(self.b))
        # each column is vec X, row-major
        for j in range(x.shape[1]):
            y[:, j] = f(x[:, j].reshape(shape)).ravel()
        return y


class SchurPair(Factor):
    """U, T, V, W, and the eigenvalues of the equation: f(l, m) of one l of A and one m of B."""

    ENGINE: str
    SINGULAR: str  # how a pair makes the equation singular

    def __init__(self, m: PairMatrix, output: str) -> None:
        self._m = m
        self._t, self._u = _form(m.a, output)
        if m.one_form:  # B^T = A^H = U T^H U^H
            self._w, self._v, self._second = self._t, self._u, "H"
        else:
            self._w, self._v = _form(m.b.T, output)
            self._second = "N"
        self.nbytes = sum(x.nbytes for x in (self._t, self._u, self._w, self._v))
        # W, or W^H, is the Schur form of B^T, which has the eigenvalues of B
        one, two = _eigenvalues(self._t), _eigenvalues(self._w)
        two = conj(two) if self._second == "H" else two
        self._values = self.combined(one, two)
        self._is_diagonal = _is_hermitian(m.a) and (m.one_form or _is_hermitian(m.b))
        if self._values.size:
            i, j = np.unravel_index(np.abs(self._values).argmin(), self._values.shape)
            if not np.isfinite(m.norm("N")):
                raise overflowed("the norm of the equation")
            # singular to working precision: the smallest |f(l, mu)| is rounding of |M|
            rounding = m.limits.eps * m.norm("N")
            if abs(self._values[i, j]) <= rounding:
                # A and B are in units of root^2; the error names numbers in those of the user
                l, mu, within = (x / m.root / m.root for x in (one[i], two[j], rounding))
                pair = f"the eigenvalues {_shown(l)} of A and {_shown(mu)} of B"
                raise SingularMatrixError(
                    self.ENGINE,
                    f"{pair}, whose {self.SINGULAR} within the rounding of the equation, {within:.1e}",
                    what="the equation",
                    causes=OF_PAIRS_OF_EIGENVALUES,
                )

    @abstractmethod
    def combined(self, one: HostArray, two: HostArray) -> HostArray:
        """f(l, m) for all pairs (n, m)."""

    @abstractmethod
    def triangular(self, t: HostArray, w: HostArray, f: HostArray, ops: str) -> HostArray:
        """Y of the equation with op(T) and op(W)."""

    def solve(self, b: Any, op: str) -> HostArray:
        # M^T x = b is M^H conj(x) = conj(b)
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        return self._m.each(b, lambda q: self._solve(q, op))

    def _solve(self, q: HostArray, op: str) -> HostArray:
        # the adjoint equation has T^H and, for W, W^H: or W where B^T = V W^H V^H is the Schur form
        ops = "".join("N" if view == op else "H" for view in ("N", self._second))
        s = balance(magnitude(q, None))  # LAPACK divides with other roundings near the ends
        # with op(T) and op(W): Y of U^H Q V, then X = U Y V^H
        f = adjoint(self._u) @ (q * s * s) @ self._v
        # diagonal T and W have real numbers
        y = (
            f / self._values.real
            if self._is_diagonal
            else self.triangular(self._t, self._w, f, ops)
        )
        x = self._u @ y @ adjoint(self._v) / s / s
        # complex Schur forms of a real equation: X is real up to rounding
        x = x if self._m.dtype.kind == "c" else np.real(x)
        return (x + adjoint(x)) / 2 if self._m.keeps(q, op) else x

    def logabsdet(self) -> HostArray:
        return np.log(np.abs(self._values)).sum()

    def slogdet(self) -> tuple[HostArray, HostArray]:
        # the determinant of the operator is the product of its eigenvalues f(l, mu)
        sign = (self._values / np.abs(self._values)).prod()
        return (sign if self._m.dtype.kind == "c" else np.sign(sign.real)), self.logabsdet()


def _balanced(a: HostArray) -> tuple[HostArray, HostArray]:
    """(S^-1 A S, S): unknowns in units that differ much would hide small eigenvalues."""
    _, (s, _) = scipy.linalg.matrix_balance(a, permute=False, separate=True)
    if s.size == 0 or s.min() >= BALANCED * s.max():
        return a, np.ones(len(a), a.real.dtype)
    s = s.astype(a.real.dtype)
    # (S^-1 A S)_ij = a_ij s_j / s_i
    return a * s / s[:, None], s


def _is_hermitian(a: HostArray) -> bool:
    return bool((a == adjoint(a)).all())


def _form(a: HostArray, output: str) -> tuple[HostArray, HostArray]:
    """T and U of A = U T U^H. That of a Hermitian A is diagonal: its eigenvalues."""
    if not _is_hermitian(a):
        return scipy.linalg.schur(a, output=output, check_finite=False)
    l, u = scipy.linalg.eigh(-a, check_finite=False)  # the largest first
    dtype = np.result_type(u, np.complex64) if output == "complex" else u.dtype
    return np.diag(-l).astype(dtype), u.astype(dtype, copy=False)


def _eigenvalues(t: HostArray) -> HostArray:
    """The eigenvalues of a Schur form, in order: LAPACK's 2 x 2 blocks have equal diagonals."""
    values = np.diagonal(t).astype(np.result_type(t, np.complex64))
    if t.dtype.kind == "c" or len(t) < 2:
        return values
    below, above = np.diagonal(t, -1), np.diagonal(t, 1)
    # a block [[a, b], [c, a]] with b c < 0 has the eigenvalues a +- i sqrt(|b| |c|)
    for i in np.flatnonzero(below):
        imaginary = np.sqrt(abs(below[i])) * np.sqrt(abs(above[i]))
        values[i] += 1j * imaginary
        values[i + 1] -= 1j * imaginary
    return values


def _shown(value: Any) -> str:
    return f"{value:.6g}" if value.imag else f"{value.real:.6g}"


def _row_sums(a: HostArray) -> float:
    return float(np.abs(a).sum(axis=1).max(initial=0))
