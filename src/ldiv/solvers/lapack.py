"""Dense: P A = L U, or A = L L^H where definiteness is promised, by the array's own namespace (LAPACK, cuSOLVER, XLA)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldiv.arrays import alike, conj, numpy_dtype, real, transpose
from ldiv.equilibration import SCALINGS
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.probe import direction, require_nonsingular, second_look
from ldiv.rule import Array, Tree, frontend_of, insist, namespace, traced
from ldiv.solver import Factor
from ldiv.structure import Structure
from ldiv.structures.composed import Composed, is_dense
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import Symmetric, largest, refuse_asymmetry

RANK = 20
ON_HOST = False
REMEMBERED = True
NAME = "LAPACK"
SMALL = 64  # up to this size a matrix on the cpu is factored as a NumPy array, whose calls cost less


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    base = structure.base if isinstance(structure, Symmetric) else structure
    if isinstance(base, Composed):
        m, n = base.shape
        enough = _is_dense(base) and 2 * sum(map(math.prod, base.sizes or ())) >= m * n
        return None if enough else "factors composed matrices only where all parts are dense and have half as many numbers as the whole"
    return None if isinstance(base, Dense) else "factors dense matrices only"


def _is_dense(structure: Structure) -> bool:
    """Are all parts stored as dense arrays or diagonals?"""
    base = structure.unview()[0]
    return all(map(_is_dense, base.parts)) if isinstance(base, Composed) else isinstance(base, Diagonal) or is_dense(base)


def analyze(structure: Structure) -> None:
    """A dense matrix has no symbolic part."""


def factor(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    a = structure.todense(p)
    if isinstance(structure, Symmetric):
        whole = structure.base.todense(p)
        refuse_asymmetry(2 * largest(whole - a), largest(whole), numpy_dtype(a), structure.op)
    return nonsingular(a, cholesky(a) if assume_a == "pos" else lu(a))


def factor_carefully(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    """Of entries that differ much partial pivoting takes the wrong ones: rows and columns are scaled first."""
    a, r, c = _equilibrated(structure.todense(p))
    return Scaled(nonsingular(a, lu(a)), r, c)


def nonsingular(a: Array, factored: Factor) -> Factor:
    """The factors, unless a is singular.

    The probe, for all matrices of a batch at once, in units in which rows and columns of any scale weigh the same.
    """
    xp, n = namespace(a), a.shape[-1]
    sizes = xp.abs(a)
    rows = sizes.max(-1, keepdims=True) if xp is np else xp.max(sizes, axis=-1, keepdims=True)
    z = rows * xp.asarray(direction(n), **alike(a)) if xp is np else rows * xp.asarray(direction(n).copy(), **alike(a))
    y = factored.solve(z, "N")

    def load(r: Array) -> Array:
        return xp.sum(xp.abs(r) / rows, axis=(-2, -1))

    def size(x: Array) -> Array:
        return load(xp.matmul(sizes, xp.abs(x)))

    def look() -> tuple[Array, Array]:
        again, one, two = second_look(z, y, lambda x: xp.matmul(a, x), lambda r: factored.solve(r, "N"), size, load)
        return xp.max(again), xp.max(xp.maximum(one, two))

    growth = xp.max(size(y)) / float(np.abs(direction(n)).sum())  # |z| in these units
    require_nonsingular(NAME, growth if traced(growth) else float(growth), float(np.finfo(numpy_dtype(a)).eps), look)
    return factored


def _equilibrated(a: Array) -> tuple[Array, Array, Array]:
    """(R A C, r, c), as in `ldiv.equilibration`, powers of two, for all matrices of a batch at once."""
    xp = namespace(a)
    r, c = (xp.ones_like(real(a[..., :, 0])) for _ in "rc")
    for _ in range(SCALINGS):
        size = xp.abs(r[..., :, None] * a * c[..., None, :])
        rows, cols = xp.max(size, axis=-1), xp.max(size, axis=-2)
        r, c = r * _inverse_root(rows), c * _inverse_root(cols)
    return r[..., :, None] * a * c[..., None, :], r, c


def _inverse_root(x: Array) -> Array:
    xp = namespace(x)
    return 2 ** xp.round(-0.5 * xp.log2(xp.where(x > 0, x, xp.ones_like(x))))


class Scaled(Factor):
    """A = R^-1 M C^-1 for a factored M, R and C diagonal."""

    def __init__(self, m: Factor, r: Array, c: Array) -> None:
        self._m, self._r, self._c = m, r, c
        self.nbytes = m.nbytes + r.nbytes + c.nbytes

    def solve(self, b: Array, op: str) -> Array:
        before, after = (self._r, self._c) if op == "N" else (self._c, self._r)
        return after[..., None] * self._m.solve(before[..., None] * b, op)

    def logabsdet(self) -> Array:
        xp = namespace(self._r)
        return self._m.logabsdet() - xp.sum(xp.log(self._r) + xp.log(self._c), axis=-1)


def lu(a: Array) -> LU:
    """The factors; all pivots are different from zero."""
    factored = LU(*frontend_of(a).lu_factor(a))
    insist((factored.diagonal != 0).all(), lambda: SingularMatrixError(NAME, "a pivot that is exactly zero"))
    return factored


class LU(Factor):
    """P A = L U with partial pivoting."""

    core = (2, 1)

    def __init__(self, lu: Array, pivots: Array) -> None:
        self._linalg = frontend_of(lu)
        self.arrays = self._lu, self._pivots = lu, pivots
        self.diagonal = namespace(lu).linalg.diagonal(lu)
        self.nbytes = lu.nbytes + pivots.nbytes

    def solve(self, b: Array, op: str) -> Array:
        return self._linalg.lu_solve(self._lu, self._pivots, b, op)

    def logabsdet(self) -> Array:
        xp = namespace(self._lu)
        return xp.sum(xp.log(xp.abs(self.diagonal)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        """(det A / |det A|, log |det A|), of shape (*batch,)."""
        xp = namespace(self._lu)
        turns = xp.prod(self.diagonal / xp.abs(self.diagonal), axis=-1)
        return turns * xp.astype(self._linalg.sign_of_rows(self._pivots), turns.dtype), self.logabsdet()


def cholesky(a: Array) -> Cholesky:
    """The factor of a matrix that must be positive definite."""
    l, definite = frontend_of(a).cholesky(a)
    insist(definite, lambda: NotPositiveDefiniteError(NAME, "a leading minor that is not positive"))
    return Cholesky(l)


class Cholesky(Factor):
    """A = L L^H; the four views of A are A itself or its conjugate."""

    core = (2,)

    def __init__(self, l: Array) -> None:
        self._linalg = frontend_of(l)
        self._l = l
        self.arrays = (l,)
        self.nbytes = l.nbytes

    def solve(self, b: Array, op: str) -> Array:
        if op == "T":
            return conj(self.solve(conj(b), "N"))
        y = self._linalg.solve_triangular(self._l, b, True)
        return self._linalg.solve_triangular(conj(transpose(self._l)), y, False)

    def logabsdet(self) -> Array:
        xp = namespace(self._l)
        return 2 * xp.sum(xp.log(xp.real(xp.linalg.diagonal(self._l))), axis=-1)
