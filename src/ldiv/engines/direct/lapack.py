"""Dense: P A = L U, or A = L L^H if A is assumed definite, by LAPACK, cuSOLVER or XLA."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, numpy_dtype, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.policies.errstate import raises
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import CHOLESKY, accepted
from ldiv.engines.accuracy.accepted import LU as BY_LU
from ldiv.engines.accuracy.dense_matrix import (
    DenseMatrix,
    equilibrated,
    equilibrated_by_sums,
    scaled,
    sum_scales,
)
from ldiv.engines.accuracy.singularity_check import is_suspicious
from ldiv.engines.accuracy.verifiable import Scales
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.factors.escalation import first_nonsingular
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.composed import Composed, is_dense
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sum import Sum
from ldiv.structures.symmetric import Symmetric, symmetric_part

RANK = 20
ON_HOST = False
REMEMBERED = True
NAME = "LAPACK"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    base = structure.base if isinstance(structure, Symmetric) else structure
    if isinstance(base, Composed):
        m, n = base.shape
        enough = 2 * sum(map(math.prod, base.sizes or ())) >= m * n
        return (
            None
            if enough and base.sizes is not None and (_is_dense(base) or _is_full(base))
            else "factors composed matrices only where their parts have half as many numbers "
            "as the whole, and are dense, or no engine for sparse matrices or updates does it"
        )
    return None if isinstance(base, Dense) else "factors dense matrices only"


def _is_dense(structure: Structure) -> bool:
    """Whether all parts are dense arrays or diagonals."""
    base = structure.unview()[0]
    return (
        all(map(_is_dense, base.parts))
        if isinstance(base, Composed)
        else isinstance(base, Diagonal) or is_dense(base)
    )


def _is_full(base: Composed) -> bool:
    """Whether the matrix is neither sparse nor a matrix with an update of low rank."""
    return base.pattern is None and not (isinstance(base, Sum) and base.updated is not None)


def factor(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    if isinstance(structure, Symmetric):
        a = symmetric_part(structure.base.todense(p), structure.op)
    else:
        a = structure.todense(p)
    kind, make = (CHOLESKY, cholesky) if assume_a == "pos" else (BY_LU, lu)
    return accepted(kind, a, partial(factorize, a, make))


def factorize(a: Array, make: Callable[[Array], Factor]) -> Verified:
    """A of any scales, factored by `make`."""
    m, scales = equilibrated(a, congruent=make is cholesky)
    if m.is_traced and make is lu and scales is not None:
        return _in_better_units(m, scales)
    return Verified(NAME, m, make(m.whole), scales)


def _in_better_units(m: DenseMatrix, scales: tuple[Array, Array]) -> Verified:
    """Factor in a trace, where no other attempt follows: a matrix that appears singular is factored
    again in units of equal sums, in a loop of one step, or none.
    """
    xp = namespace(m.whole)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        a, r, c, *_, again = state
        u, v = sum_scales(a, again)
        # the new scales are of R A C: those of A are r u and c v
        a = scaled(a, u, v)
        return a, r * u, c * v, *_factored(a).arrays, xp.zeros_like(again)

    first = _factored(m.whole)
    # the last part of the state is the condition of the loop, which its one step clears
    state = m.whole, *scales, *first.arrays, is_suspicious(m, first)
    a, r, c, *arrays, _ = frontend_of(m.whole).loop(lambda state: state[-1], step, state, 1)
    return Verified(NAME, DenseMatrix(a), _regular(LU(*arrays)), (r, c))


def factor_carefully(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    """Factor by QR if entries grow under partial pivoting: unitary factors prevent the growth."""
    given = structure.todense(p)

    def by_qr(scaled: Callable[[Array], tuple[DenseMatrix, Scales]]) -> Factor:
        m, scales = scaled(given)
        return Verified(NAME, m, QR(m.whole), scales, last=True)

    ways = partial(by_qr, equilibrated), partial(by_qr, equilibrated_by_sums)
    # for a singular matrix, unless that raises, the LU factors are the result as before
    as_usual = partial(factor, symbolic, structure, p, assume_a)
    made: Factor = first_nonsingular(ways, ways[0] if raises() else as_usual)
    return made


def lu(a: Array) -> LU:
    """The factors; raises if a pivot is zero."""
    return _regular(_factored(a))


def _factored(a: Array) -> LU:
    return LU(*frontend_of(a).dense.lu_factor(transpose(a)))


def _regular(factored: LU) -> LU:
    """Raise if a pivot is zero."""
    pivots = factored.diagonal
    if type(pivots) is np.ndarray:
        regular = np.count_nonzero(pivots) == pivots.size
        if regular:
            return factored
    else:
        regular = (pivots != 0).all()
    check_or_raise(regular, lambda: SingularMatrixError(NAME, "a pivot that is exactly zero"))
    return factored


class LU(Factor):
    """P A^T = L U with partial pivoting: the rows of A are the columns that LAPACK reads."""

    core = (2, 1)

    def __init__(self, lu: Array, pivots: Array) -> None:
        self._linalg = frontend_of(lu).dense
        self.arrays = self._lu, self._pivots = lu, pivots
        self.nbytes = lu.nbytes + pivots.nbytes

    @property
    def diagonal(self) -> Array:
        """The diagonal of U."""
        lu = self._lu
        return (
            lu.diagonal()
            if type(lu) is np.ndarray and lu.ndim == 2
            else namespace(lu).linalg.diagonal(lu)
        )

    def solve(self, b: Array, op: str) -> Array:
        # A^H x = b is A^T conj(x) = conj(b)
        if op == "H":
            return conj(self.solve(conj(b), "T"))
        # L U are factors of A^T: the solve with A is the transposed one with them
        return self._linalg.lu_solve(self._lu, self._pivots, b, "T" if op == "N" else "N")

    def logabsdet(self) -> Array:
        xp = namespace(self._lu)
        return xp.sum(xp.log(xp.abs(self.diagonal)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        """(det A / |det A|, log |det A|), of shape (*batch,)."""
        xp = namespace(self._lu)
        # det A = det P prod u_ii, and det P = +-1 by the number of exchanges
        turns = xp.prod(self.diagonal / xp.abs(self.diagonal), axis=-1)
        return turns * xp.astype(
            self._linalg.sign_of_rows(self._pivots), turns.dtype
        ), self.logabsdet()


def cholesky(a: Array) -> Cholesky:
    """The factor of a matrix that must be positive definite."""
    l, definite = frontend_of(a).dense.cholesky(a)
    check_or_raise(
        definite, lambda: NotPositiveDefiniteError(NAME, "a leading minor that is not positive")
    )
    return Cholesky(l)


class Cholesky(Factor):
    """A = L L^H; the four views of A are A itself or its conjugate."""

    core = (2,)

    def __init__(self, l: Array) -> None:
        self._linalg = frontend_of(l).dense
        self._l = l
        self.arrays = (l,)
        self.nbytes = l.nbytes

    def solve(self, b: Array, op: str) -> Array:
        # A = A^H, so A^T x = b is A conj(x) = conj(b)
        if op == "T":
            return conj(self.solve(conj(b), "N"))
        # L y = b, L^H x = y
        y = self._linalg.solve_triangular(self._l, b, True)
        return self._linalg.solve_triangular(conj(transpose(self._l)), y, False)

    def inverse(self, a: Array) -> Array:
        inverse: Array = self._linalg.cholesky_inverse(self._l)
        return inverse

    def logabsdet(self) -> Array:
        xp = namespace(self._l)
        # det A = prod l_ii^2, and L has a real diagonal
        return 2 * xp.sum(xp.log(xp.real(xp.linalg.diagonal(self._l))), axis=-1)


class QR(Factor):
    """A = Q R with orthonormal Q."""

    def __init__(self, a: Array) -> None:
        xp = namespace(a)
        self._q, self._r = frontend_of(a).dense.qr(a)
        self._diagonal = xp.linalg.diagonal(self._r)
        self.nbytes = self._q.nbytes + self._r.nbytes
        # |r_jj| / |a_j| is the sine of the angle between column j and the span of those before it
        enough = (
            a.shape[-1] * float(np.finfo(numpy_dtype(a)).eps) * xp.linalg.vector_norm(a, axis=-2)
        )
        check_or_raise(
            (xp.abs(self._diagonal) > enough).all(),
            lambda: SingularMatrixError(NAME, "a column that depends on the others"),
        )

    def solve(self, b: Array, op: str) -> Array:
        # A^T x = b is A^H conj(x) = conj(b)
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        frontend, r = frontend_of(b), self._r
        b = namespace(b).astype(b, r.dtype)
        if op == "H":
            # A^H = R^H Q^H: R^H y = b, x = Q y
            return frontend.dense.product(
                self._q, frontend.dense.solve_triangular(conj(transpose(r)), b, True)
            )
        # R x = Q^H b
        return frontend.dense.solve_triangular(
            r, frontend.dense.product(conj(transpose(self._q)), b), False
        )

    def logabsdet(self) -> Array:
        xp = namespace(self._r)
        # |det Q| = 1
        return xp.sum(xp.log(xp.abs(self._diagonal)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        xp = namespace(self._r)
        # det A = det Q prod r_jj; Q is unitary, so that its determinant is a sign, or a phase
        return xp.linalg.slogdet(self._q)[0] * xp.prod(
            self._diagonal / xp.abs(self._diagonal), axis=-1
        ), self.logabsdet()
