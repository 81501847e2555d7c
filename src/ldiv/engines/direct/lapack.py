"""Dense: P A = L U, or A = L L^H if A is assumed definite, by LAPACK, cuSOLVER or XLA."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays import alike, conj, numpy_dtype, transpose
from ldiv.core.dispatch import check_or_raise, frontend_of, host_values, namespace, traced
from ldiv.core.errstate import singular_state
from ldiv.core.finite import total
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree
from ldiv.engines.backward_error import Verified
from ldiv.engines.equilibration import BALANCED, BALANCINGS, MODERATE, SCALINGS, are_alike
from ldiv.engines.escalation import first_nonsingular
from ldiv.engines.factor import Factor
from ldiv.engines.limits import limits
from ldiv.engines.singularity_check import (
    SUSPICIOUS,
    direction,
    direction_size,
    require_nonsingular,
    second_look,
)
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.composed import Composed, is_dense
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import Symmetric, symmetric_part

RANK = 20
ON_HOST = False
REMEMBERED = True
NAME = "LAPACK"
FEW = 512  # rows up to which one look by LAPACK is faster than several by NumPy


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    base = structure.base if isinstance(structure, Symmetric) else structure
    if isinstance(base, Composed):
        m, n = base.shape
        enough = _is_dense(base) and 2 * sum(map(math.prod, base.sizes or ())) >= m * n
        return (
            None
            if enough
            else "factors composed matrices only where all parts are dense "
            "and have half as many numbers as the whole"
        )
    return None if isinstance(base, Dense) else "factors dense matrices only"


def _is_dense(structure: Structure) -> bool:
    """Are all parts dense arrays or diagonals?"""
    base = structure.unview()[0]
    return (
        all(map(_is_dense, base.parts))
        if isinstance(base, Composed)
        else isinstance(base, Diagonal) or is_dense(base)
    )


def factor(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    if isinstance(structure, Symmetric):
        a = symmetric_part(structure.base.todense(p), structure.op)
    else:
        a = structure.todense(p)
    make = cholesky if assume_a == "pos" else lu
    if (most := _largest_if_balanced(a)) is not None:
        factored = make(a)
        if not _is_calm(factored, a, most):
            nonsingular(a, factored, row_maxima(np.abs(a)))
        return Checked(a, factored, None)
    a, scales, rows = _equilibrated(a)
    return Checked(a, nonsingular(a, make(a), rows), scales)


def factor_carefully(symbolic: None, structure: Structure, p: Tree, assume_a: str) -> Factor:
    """By QR, for matrices whose entries grow under partial pivoting: unitary factors prevent it."""
    given = structure.todense(p)

    def by_qr(scaled: Callable[[Array], tuple[Array, Any, Array]]) -> Factor:
        a, scales, rows = scaled(given)
        return Checked(a, nonsingular(a, QR(a), rows), scales, last=True)

    ways = partial(by_qr, _equilibrated), partial(by_qr, _equilibrated_by_sums)
    # for a singular matrix, unless that raises, the LU factors are the result as before
    as_usual = partial(factor, symbolic, structure, p, assume_a)
    factored: Factor = first_nonsingular(ways, ways[0] if singular_state() == "raise" else as_usual)
    return factored


def nonsingular(a: Array, factored: Factor, rows: Array) -> Factor:
    """The factors, unless a is singular; `rows` are the row maxima of |a|.

    The probe of `singularity_check`, for all matrices of a batch at once, with rows in units of
    their largest entries: so rows of any scale have equal weight.
    """
    xp, (n, eps) = namespace(a), (a.shape[-1], limits(numpy_dtype(a)).eps)
    rows = rows[..., None]
    z = rows * (direction(n, a.dtype) if xp is np else xp.asarray(direction(n).copy(), **alike(a)))
    y = factored.solve(z, "N")
    unit = direction_size(n)  # |z| in these units
    # A bound on the growth that is cheap to compute, as |a_ij| <= max_j |a_ij|; an empty row, of
    # which z is zero, is invisible to it.
    if not traced(a) and bool((rows > 0).all()) and n**1.5 * _norm2(y) * eps < SUSPICIOUS * unit:
        return factored

    sizes = xp.abs(a)

    def load(r: Array) -> Array:
        return xp.sum(xp.abs(r) / rows, axis=(-2, -1))

    def size(x: Array) -> Array:
        return load(xp.matmul(sizes, xp.abs(x)))

    def look() -> tuple[Array, Array]:
        residual_growth, one, two = second_look(
            z, y, lambda x: xp.matmul(a, x), lambda r: factored.solve(r, "N"), size, load
        )
        return xp.max(residual_growth), xp.max(xp.maximum(one, two))

    growth = xp.max(size(y)) / unit
    require_nonsingular(NAME, growth if traced(growth) else float(growth), eps, look)
    return factored


def _is_calm(factored: Factor, a: Array, most: float) -> bool:
    """The first look of `nonsingular` at a NumPy matrix with entries up to `most`: with
    z = `most` times the direction, which has at least the size in units of the rows' maxima.
    """
    n = len(a)
    y = factored.solve(direction(n, a.dtype), "N")
    growth = n**1.5 * most * math.sqrt(total(y))
    return growth * limits(a.dtype).eps < SUSPICIOUS * direction_size(n)


def _norm2(x: Array) -> float:
    """The 2-norm of all numbers of a batch."""
    return (
        math.sqrt(total(x)) if type(x) is np.ndarray else float(namespace(x).linalg.vector_norm(x))
    )


def _largest_if_balanced(a: Array) -> float | None:
    """max |a_ij| of a small NumPy matrix that one look by LAPACK shows to be balanced, else None.

    xGEEQU finds the column maxima, and the row maxima after columns are divided by theirs: each
    set within a ratio, and both within the product of the two.
    """
    if type(a) is not np.ndarray or a.ndim != 2 or not 0 < len(a) <= FEW:
        return None
    _, _, columns, rows, most, empty = _geequ(a.dtype)(a.T)
    balanced = not empty and rows * columns >= BALANCED and 1 / MODERATE <= most <= MODERATE
    return float(most) if balanced else None


def _equilibrated(a: Array) -> tuple[Array, tuple[Array, Array] | None, Array]:
    """(R A C, (r, c), row maxima) as in `ldiv.engines.equilibration`, for a batch.

    (A, None, row maxima) if it is balanced. A zero row stays zero.
    """
    xp = namespace(a)

    def maxima(r: Array, c: Array) -> tuple[Array, Array]:
        size = xp.abs(r[..., :, None] * a * c[..., None, :])
        return row_maxima(size), row_maxima(transpose(size))

    def going(state: tuple[Array, ...]) -> Array:
        return _differ(*state[2:4]) & (state[4] < SCALINGS)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        r, c, rows, cols, count = state
        r, c = r * _inverse_root(rows), c * _inverse_root(cols)
        return r, c, *maxima(r, c), count + 1

    size = xp.abs(a)
    rows = row_maxima(size)
    # a batch only: for one matrix computing all column maxima is cheaper
    if a.ndim > 2 and not traced(a) and _is_balanced_by_diagonal(size, rows):
        return a, None, rows
    cols = row_maxima(transpose(size))
    if not traced(a) and not bool(_differ(rows, cols)):
        return a, None, rows
    one = xp.ones_like(rows)
    r, c, rows, *_ = frontend_of(a).loop(
        going, step, (one, one, rows, cols, xp.zeros_like(one[..., :1]).sum())
    )
    return r[..., :, None] * a * c[..., None, :], (r, c), rows


def _is_balanced_by_diagonal(size: Array, rows: Array) -> bool:
    """Are min |a_ii| and max |a_ij|, between which all row and column maxima lie, alike?"""
    xp = namespace(size)
    least, most = xp.min(xp.linalg.diagonal(size), axis=-1), xp.max(rows, axis=-1)
    return bool(are_alike(least, most).all())


def _equilibrated_by_sums(a: Array) -> tuple[Array, tuple[Array, Array], Array]:
    """As in `ldiv.engines.equilibration`, for all matrices of a batch at once."""
    xp = namespace(a)
    a, scales, _ = _equilibrated(a)
    size = xp.abs(a)
    u = v = xp.ones_like(size[..., 0])

    def inverse(sums: Array) -> Array:
        return 1 / xp.where(sums > 0, sums, xp.ones_like(sums))

    for _ in range(BALANCINGS):
        u = inverse(xp.sum(size * v[..., None, :], axis=-1))
        v = inverse(xp.sum(size * u[..., :, None], axis=-2))
    u, v = (2 ** xp.round(xp.log2(x)) for x in (u, v))
    r, c = scales or (1, 1)
    a = u[..., :, None] * a * v[..., None, :]
    return a, (r * u, c * v), row_maxima(xp.abs(a))


def row_maxima(size: Array) -> Array:
    """The largest number of each row."""
    return (
        np.maximum.reduce(size, -1)
        if type(size) is np.ndarray
        else namespace(size).max(size, axis=-1)
    )


def _differ(rows: Array, cols: Array) -> Any:
    """Is any matrix unbalanced, apart from those with a zero row or column?"""
    xp = namespace(rows)
    if xp is np and rows.ndim == 1:
        every = rows.tolist() + cols.tolist()
        least, most = min(every), max(every)
        return least > 0 and not are_alike(least, most)
    every = xp.concat([rows, cols], axis=-1)
    least, most = xp.min(every, axis=-1), xp.max(every, axis=-1)
    return ((least > 0) & ~are_alike(least, most)).any()


def _inverse_root(x: Array) -> Array:
    xp = namespace(x)
    return 2 ** xp.round(-0.5 * xp.log2(xp.where(x > 0, x, xp.ones_like(x))))


class Checked(Verified):
    """A dense M with its factor and scales."""

    def __init__(
        self, m: Array, factor: Factor, scales: tuple[Array, Array] | None, last: bool = False
    ) -> None:
        super().__init__(NAME, m, factor, scales, last)
        self._product = frontend_of(m).product
        if factor.arrays:
            self.arrays = (m, *factor.arrays, *(scales or ()))
            self.core = (2, *factor.core, *((1, 1) if scales else ()))

    @property
    def remake(self) -> Callable[..., Factor]:
        return CheckedOf(self._factor.remake, len(self._factor.arrays))

    def _residual(self, b: Array, x: Array, op: str) -> Array:
        if op == "N":
            return b - self._product(self._m, x)
        if op == "T":
            return b - self._product(transpose(self._m), x)
        return b - conj(self._product(transpose(self._m), conj(x)))

    def _norm(self, transposed: bool) -> Array:
        if self._m.ndim == 2 and (m := host_values(self._m)) is not None:
            norm: float = _lange(m.dtype)("1" if not transposed else "I", m.T)
            return norm
        xp = namespace(self._m)
        return xp.max(xp.sum(xp.abs(self._m), axis=-2 if transposed else -1), axis=-1)[
            ..., None, None
        ]


@lru_cache(maxsize=8)
def _geequ(dtype: np.dtype[Any]) -> Callable[[Array], Any]:
    """LAPACK's scales of rows and columns."""
    return scipy.linalg.get_lapack_funcs("geequ", dtype=dtype)


@lru_cache(maxsize=8)
def _lange(dtype: np.dtype[Any]) -> Callable[[str, Array], float]:
    """LAPACK's matrix norms."""
    return scipy.linalg.get_lapack_funcs("lange", dtype=dtype)


@dataclass(frozen=True)
class CheckedOf:
    """Rebuilds a `Checked` from its arrays: the matrix, those of its factor, the scales if any."""

    factor: Callable[..., Factor]
    count: int

    def __call__(self, m: Array, *arrays: Array) -> Checked:
        own, scales = arrays[: self.count], arrays[self.count :]
        return Checked(m, self.factor(*own), (scales[0], scales[1]) if scales else None)


def lu(a: Array) -> LU:
    """The factors; raises if a pivot is zero."""
    factored = LU(*frontend_of(a).lu_factor(transpose(a)))
    pivots = factored.diagonal
    regular = (
        np.count_nonzero(pivots) == pivots.size
        if type(pivots) is np.ndarray
        else (pivots != 0).all()
    )
    check_or_raise(regular, lambda: SingularMatrixError(NAME, "a pivot that is exactly zero"))
    return factored


class LU(Factor):
    """P A^T = L U with partial pivoting: the rows of A are the columns that LAPACK reads."""

    core = (2, 1)

    def __init__(self, lu: Array, pivots: Array) -> None:
        self._linalg = frontend_of(lu)
        self.arrays = self._lu, self._pivots = lu, pivots
        self.nbytes = lu.nbytes + pivots.nbytes

    @property
    def diagonal(self) -> Array:
        """That of U."""
        lu = self._lu
        return (
            lu.diagonal()
            if type(lu) is np.ndarray and lu.ndim == 2
            else namespace(lu).linalg.diagonal(lu)
        )

    def solve(self, b: Array, op: str) -> Array:
        if op == "H":
            return conj(self.solve(conj(b), "T"))
        return self._linalg.lu_solve(self._lu, self._pivots, b, "T" if op == "N" else "N")

    def logabsdet(self) -> Array:
        xp = namespace(self._lu)
        return xp.sum(xp.log(xp.abs(self.diagonal)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        """(det A / |det A|, log |det A|), of shape (*batch,)."""
        xp = namespace(self._lu)
        turns = xp.prod(self.diagonal / xp.abs(self.diagonal), axis=-1)
        return turns * xp.astype(
            self._linalg.sign_of_rows(self._pivots), turns.dtype
        ), self.logabsdet()


def cholesky(a: Array) -> Cholesky:
    """The factor of a matrix that must be positive definite."""
    l, definite = frontend_of(a).cholesky(a)
    check_or_raise(
        definite, lambda: NotPositiveDefiniteError(NAME, "a leading minor that is not positive")
    )
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

    def inverse(self, a: Array) -> Array:
        inverse: Array = self._linalg.cholesky_inverse(self._l)
        return inverse

    def logabsdet(self) -> Array:
        xp = namespace(self._l)
        return 2 * xp.sum(xp.log(xp.real(xp.linalg.diagonal(self._l))), axis=-1)


class QR(Factor):
    """A = Q R with orthonormal Q."""

    def __init__(self, a: Array) -> None:
        xp = namespace(a)
        self._q, self._r = xp.linalg.qr(a)
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
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        frontend, r = frontend_of(b), self._r
        b = namespace(b).astype(b, r.dtype)
        if op == "H":
            return frontend.product(self._q, frontend.solve_triangular(conj(transpose(r)), b, True))
        return frontend.solve_triangular(r, frontend.product(conj(transpose(self._q)), b), False)

    def logabsdet(self) -> Array:
        xp = namespace(self._r)
        return xp.sum(xp.log(xp.abs(self._diagonal)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        xp = namespace(self._r)
        return xp.linalg.slogdet(self._q)[0] * xp.prod(
            self._diagonal / xp.abs(self._diagonal), axis=-1
        ), self.logabsdet()
