"""Dense matrices of a batch: R A C with row and column maxima near 1, as the verdict needs them.

The scaling of `equilibration`, for any array namespace, also in a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.arrays.shapes import alike, astype, conj, numpy_dtype, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, host_values, is_opaque, namespace, traced
from ldiv.core.frameworks.looks import decided, is_elsewhere
from ldiv.core.rules.units import balance
from ldiv.engines.accuracy.equilibration import are_alike
from ldiv.engines.accuracy.limits import BALANCED, MODERATE, SCALINGS, SETTLED, SUM_SCALINGS
from ldiv.engines.accuracy.verifiable import Normed, Scales, lange

FEW = 512  # rows up to which one call of LAPACK is faster than several of NumPy


class DenseMatrix(Normed):
    """M (*batch, n, n); `most` (*batch, 1, 1) is its largest entry, if that is known."""

    core = (2,)
    has_sizes = True

    def __init__(self, m: Array, most: Any = None) -> None:
        is_numpy = type(m) is np.ndarray
        super().__init__(m.shape[-1], m.dtype if is_numpy else numpy_dtype(m), m.nbytes)
        self.whole, self.arrays, self._most = m, (m,), most
        self.is_single, self.is_traced = is_numpy and m.ndim == 2, not is_numpy and is_opaque(m)
        self._times = frontend_of(m).dense.product
        self._norms: dict[str, Any] = {}

    def product(self, x: Array, op: str) -> Array:
        if op == "N":
            return self._times(self.whole, x)
        if op == "T":
            return self._times(transpose(self.whole), x)
        # M^H x = conj(M^T conj(x))
        return conj(self._times(transpose(self.whole), conj(x)))

    def sizes(self, x: Array, op: str) -> Array:
        xp, m = namespace(x), self.whole if op == "N" else transpose(self.whole)
        return self._times(xp.abs(m), xp.abs(x))

    def norm(self, op: str) -> Any:
        # LAPACK reads rows as columns
        which = "1" if op == "N" else "I"
        if which not in self._norms:
            self._norms[which] = self._norm(which)
        return self._norms[which]

    def _norm(self, which: str) -> Any:
        m = self.whole
        values = m if self.is_single else host_values(m) if m.ndim == 2 else None
        if values is not None:
            return lange(values.dtype)(which, values.T)
        xp = namespace(m)
        # row sums for which = "1", the norm of M^T that LAPACK reads
        sums = xp.sum(xp.abs(m), axis=-1 if which == "1" else -2)
        return xp.max(sums, axis=-1)[..., None, None]

    def bound(self) -> Any:
        # a column sum of |M| is at most n times the largest entry
        return self.norm("T") if self._most is None else self.n * self._most

    def direction(self, z: Any) -> Array:
        return (
            z
            if type(self.whole) is np.ndarray
            else namespace(self.whole).asarray(z.copy(), **alike(self.whole))
        )

    def arranged(self, b: Array, op: str) -> Array:
        if b.dtype == self.whole.dtype:
            return b
        return astype(b, np.result_type(numpy_dtype(b), self.dtype))


def equilibrated(a: Array, congruent: bool = False) -> tuple[DenseMatrix, Scales]:
    """Return (R A C, (r, c)), or (A, None) if A is balanced; a zero row stays zero.

    `congruent`: A is Hermitian, and must stay so: r = c.
    """
    if (largest := _largest_if_balanced(a)) is not None:
        return DenseMatrix(a, largest), None
    a, scales, rows = _equilibrated(a, congruent)
    most = namespace(rows).max(rows, axis=-1)
    return DenseMatrix(a, most if a.ndim == 2 else most[..., None, None]), scales


def equilibrated_by_sums(a: Array) -> tuple[DenseMatrix, Scales]:
    """Scale all matrices of a batch at once, as `ldiv.engines.accuracy.equilibration` does."""
    a, scales, _ = _equilibrated(a)
    u, v = sum_scales(a)
    r, c = scales or (1, 1)
    return DenseMatrix(scaled(a, u, v)), (r * u, c * v)


def sum_scales(a: Array, wanted: Any = True) -> tuple[Array, Array]:
    """Return scales of rows and columns that bring the sums of |a_ij| near 1; scales of 1 for
    matrices that need none.
    """
    xp = namespace(a)
    size = xp.abs(a)
    ones = xp.ones_like(size[..., 0])

    def inverse(size: Array, x: Array) -> Array:
        # 1 / (|A| x)_i, and 1 for a row of zeros
        sums = xp.matmul(size, x[..., None])[..., 0]
        return 1 / xp.where(sums > 0, sums, xp.ones_like(sums))

    def going(state: tuple[Array, ...]) -> Array:
        u, _, before, count = state
        # Sinkhorn's iteration ends where no scale changes by more than SETTLED of itself
        return wanted & (xp.abs(u - before) > SETTLED * u).any() & (count < SUM_SCALINGS)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        u, v, _, count = state
        # u_i = 1 / sum_j |a_ij| v_j, then v_j = 1 / sum_i |a_ij| u_i
        after = inverse(size, v)
        return after, inverse(transpose(size), after), u, count + 1

    start = ones, ones, 2 * ones, xp.sum(xp.zeros_like(ones))
    u, v, *_ = frontend_of(a).loop(going, step, start, SUM_SCALINGS)
    # powers of two, so that scaling does not round
    u, v = (2 ** xp.round(xp.log2(x)) for x in (u, v))
    return u, v


def scaled(a: Array, r: Array, c: Array) -> Array:
    """R A C."""
    return r[..., :, None] * a * c[..., None, :]


def _largest_if_balanced(a: Array) -> float | None:
    """max |a_ij| of a small NumPy matrix that one look by LAPACK shows to be balanced, else None.

    xGEEQU finds the column maxima, and the row maxima after columns are divided by theirs: each
    set within a ratio, and both within the product of the two.
    """
    if type(a) is not np.ndarray or a.ndim != 2 or not 0 < len(a) <= FEW:
        return None
    # the rows of A^T are the columns of A; `empty` numbers a column or row of zeros
    _, _, columns, rows, most, empty = _geequ(a.dtype)(a.T)
    balanced = not empty and rows * columns >= BALANCED and 1 / MODERATE <= most <= MODERATE
    return float(most) if balanced else None


def _equilibrated(
    a: Array, congruent: bool = False
) -> tuple[Array, tuple[Array, Array] | None, Array]:
    """(R A C, (r, c), row maxima) as in `ldiv.engines.accuracy.equilibration`, for a batch.

    (A, None, row maxima) if it is balanced. A zero row stays zero.
    """
    xp = namespace(a)

    def maxima(r: Array, c: Array) -> tuple[Array, Array]:
        # the maxima of |R A C|
        size = xp.abs(r[..., :, None] * a * c[..., None, :])
        return row_maxima(size), row_maxima(transpose(size))

    def going(state: tuple[Array, ...]) -> Array:
        return _differ(*state[2:4]) & (state[4] < SCALINGS)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        r, c, rows, cols, count = state
        # r_i <- r_i / sqrt(max_j |r_i a_ij c_j|), and c_j by the columns, both at once
        r, c = r * inverse_root(rows), c * inverse_root(cols)
        return r, c, *maxima(r, c), count + 1

    size = xp.abs(a)
    rows = row_maxima(size)
    # a batch only: for one matrix computing all column maxima is cheaper
    if a.ndim > 2 and not (traced(a) or is_elsewhere(a)) and _is_balanced_by_diagonal(size, rows):
        return a, None, rows
    cols = row_maxima(transpose(size))
    if is_elsewhere(a):
        return _equilibrated_elsewhere(a, _differ(rows, cols), size, rows, congruent)
    if not traced(a) and not decided(_differ(rows, cols)):
        return a, None, rows
    # near 1 first, by one power of two, so that no step depends on the units of A
    most, least = xp.max(rows, axis=-1, keepdims=True), xp.min(rows, axis=-1, keepdims=True)
    # the product of two roots: the root of the product might overflow
    t = balance(xp.sqrt(least) * xp.sqrt(most)) + xp.zeros_like(rows)
    rows, cols, zero = rows * t * t, cols * t * t, xp.sum(xp.zeros_like(t[..., :1]))
    r, c, rows, *_ = frontend_of(a).loop(going, step, (t, t, rows, cols, zero))
    return r[..., :, None] * a * c[..., None, :], (r, c), rows


def _equilibrated_elsewhere(
    a: Array, differ: Array, size: Array, rows: Array, congruent: bool
) -> tuple[Array, tuple[Array, Array], Array]:
    """Equilibrate without reading from a device, in one step; the scales of balanced matrices are
    1.

    Rows are divided by their maxima, then columns by theirs, which brings both near 1. A congruence
    divides both by the roots of the diagonal: no entry of a positive definite matrix exceeds the
    geometric mean of its diagonal entries.
    """
    xp = namespace(a)

    def scales(maxima: Array, inverse: Callable[[Array], Array]) -> Array:
        return inverse(xp.where(differ, maxima, xp.ones_like(maxima)))

    if congruent:
        # r_i = |a_ii|^(-1/2): |r_i a_ij r_j| <= 1 for a positive definite A
        r = c = scales(xp.linalg.diagonal(size), inverse_root)
    else:
        # r_i = 1 / max_j |a_ij|, then c_j = 1 / max_i |r_i a_ij|
        r = scales(rows, _inverse)
        c = scales(row_maxima(transpose(size * r[..., :, None])), _inverse)
    rows = row_maxima(size * r[..., :, None] * c[..., None, :])
    return r[..., :, None] * a * c[..., None, :], (r, c), rows


def _is_balanced_by_diagonal(size: Array, rows: Array) -> bool:
    """Whether min |a_ii| and max |a_ij| are alike; all row and column maxima lie between them."""
    xp = namespace(size)
    least, most = xp.min(xp.linalg.diagonal(size), axis=-1), xp.max(rows, axis=-1)
    return decided(are_alike(least, most).all())


def row_maxima(size: Array) -> Array:
    """The largest number of each row."""
    return (
        np.maximum.reduce(size, -1)
        if type(size) is np.ndarray
        else namespace(size).max(size, axis=-1)
    )


def _differ(rows: Array, cols: Array) -> Any:
    """Whether any matrix is unbalanced, not counting matrices with a zero row or column."""
    xp = namespace(rows)
    if isinstance(rows, np.ndarray) and isinstance(cols, np.ndarray) and rows.ndim == 1:
        sizes = rows.tolist() + cols.tolist()
        least, most = min(sizes), max(sizes)
        return least > 0 and not are_alike(least, most)
    every = xp.concat([rows, cols], axis=-1)
    least, most = xp.min(every, axis=-1), xp.max(every, axis=-1)
    return ((least > 0) & ~are_alike(least, most)).any()


def inverse_root(x: Array) -> Array:
    return _power(x, -0.5)


def _inverse(x: Array) -> Array:
    return _power(x, -1.0)


def _power(x: Array, exponent: float) -> Array:
    """x^exponent, rounded to a power of two; 1 of zero."""
    # of a row of zeros log2 would be -inf
    xp = namespace(x)
    return 2 ** xp.round(exponent * xp.log2(xp.where(x > 0, x, xp.ones_like(x))))


@cache
def _geequ(dtype: np.dtype[Any]) -> Callable[[Array], Any]:
    """LAPACK's scales of rows and columns."""
    return get_lapack_funcs("geequ", dtype=dtype)
