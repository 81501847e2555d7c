"""Least squares of sparse matrices: one symmetric indefinite system.

    [s I    A    ] [r / s]   [b]          [s I   A^H  ] [ x ]   [0]
    [A^H  -mu / s] [  x  ] = [0],  m < n: [A   -mu / s] [ y ] = [b],    mu = damp^2

The smaller s, the smaller a singular value of A may be; refinement does the rest:
s = eps^(3/4) max |A|, a power of two, so that no digit depends on it. All derivatives are those of
`solve`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import (
    alike,
    astype,
    batch_of,
    broadcast,
    conj,
    eps,
    join,
    numpy_dtype,
    real,
    spread,
    take,
)
from ldiv.core.dispatch import check_or_raise, constant, namespace
from ldiv.core.pattern import Pattern
from ldiv.core.trees import Array
from ldiv.errors import OF_DEPENDENT_COLUMNS, SingularMatrixError
from ldiv.linalg.systems.factorized import factorized
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.assertion import checked
from ldiv.structures.sparse import Sparse


def least_squares(A: SparseArray, b: Array, damp: float) -> Array:
    """argmin |A x - b|^2 + damp^2 |x|^2, of least norm for m < n, for blocks (*batch, m, k)."""
    m, n = A.shape[-2:]
    zeros = namespace(b).zeros((*batch_of(b, 2), n, b.shape[-1]), **alike(b))
    K, side = _augmented(A, damp), join(b, zeros, 2) if m >= n else join(zeros, b, 2)
    own = slice(m, None) if m >= n else slice(n)
    try:
        fixed = K.with_data(constant(K.data))
        F = factorized(fixed, assume_a="her")
        seen = F.solve(_probe(fixed, max(m, n)))
        z, dz = _refined(F.solve(constant(side)), K, side)
    except SingularMatrixError as error:
        raise _deficient(f"a singular augmented matrix ({error.evidence})") from error
    z = z + 0 * seen[..., :1, :]  # a compiled program leaves out what nobody asks for
    return z[..., own, :] + _small(dz[..., own, :], z[..., own, :], A, b)


def _refined(z: Array, K: SparseArray, side: Array) -> tuple[Array, Array]:
    """(z, dz) with z + dz = K^-1 side, refined twice from a constant z: it is the solution for any z.

    The parts of a solution differ in size by 1 / s, and a residual that is small beside the larger one
    may be large beside the other: without refinement graded rows cost all digits. The derivatives of
    two steps are refined once, those of one are not.
    """
    r = side - K @ z
    first = solve(K, r, assume_a="her")
    return z + first, solve(K, r - K @ first, assume_a="her")


def _probe(K: SparseArray, m: int) -> Array:
    """(0, c), c by the columns of A: no A of lower rank has a solution for it.

    Rounding makes K regular where A has not full rank, and its solution for a b in the range of A looks
    like any other.
    """
    xp, values = namespace(K.data), K.data
    ones = xp.ones((*batch_of(values, 1), K.shape[-1], 1), **alike(values))
    sizes = K.with_data(astype(xp.abs(values), numpy_dtype(values))) @ ones
    c = np.random.default_rng(0).uniform(0.5, 1.5, (K.shape[-1], 1))  # beside any subspace
    c[:m] = 0
    return sizes * xp.asarray(c, **alike(values))


def _small(dx: Array, x: Array, A: SparseArray, b: Array) -> Array:
    """The last correction, which tells how far the solution is known."""
    xp, size = namespace(dx), constant(_largest(A.data, -1))
    scale = constant(_largest(b, -2)) / xp.where(size > 0, size, 1.0)[..., None]
    moved, here = constant(_largest(dx, -2)), constant(_largest(x, -2)) + scale
    ratio = moved / xp.where(here > 0, here, 1.0)
    return dx + 0 * checked(_known, astype(ratio, numpy_dtype(real(dx)))[..., None, :])


def _known(ratio: Array) -> None:
    limit = eps(ratio) ** 0.5
    check_or_raise(
        (ratio <= limit).all(),
        lambda: _deficient(
            f"a solution of which no more than {-np.log10(limit):.0f} digits are known"
        ),
    )


def _deficient(evidence: str) -> SingularMatrixError:
    causes = OF_DEPENDENT_COLUMNS.replace("ldiv.pinv(a) @ b", "damp > 0")
    return SingularMatrixError("lstsq", evidence, causes=causes, verdict="has not full rank")


def _largest(x: Array, axis: int) -> Array:
    xp = namespace(x)
    return (xp.max if x.shape[axis] else xp.sum)(xp.abs(x), axis=axis)  # of no numbers 0


def _augmented(A: SparseArray, damp: float) -> SparseArray:
    structure, values = A.structure, A.data
    xp, (m, n), batch = namespace(values), structure.shape, batch_of(values, 1)
    size = _largest(constant(values), -1)[..., None]
    s = _power_of_two(xp.where(size > 0, size, 1.0)) * _power_of_two(eps(values) ** 0.75)
    ones = xp.ones((*batch, max(m, n)), **alike(values))
    sides = (values, conj(values)) if m >= n else (conj(values), values)
    parts = [astype(s, numpy_dtype(values)) * ones, *sides]
    if damp:
        ones = xp.ones((*batch, min(m, n)), **alike(values))
        parts.append(-(damp**2) * ones / astype(s, numpy_dtype(values)))
    pattern = structure.cached(("augmented", bool(damp)), lambda: _pattern(A, bool(damp)))
    return SparseArray(pattern, xp.concat(parts, axis=-1))


def _pattern(A: SparseArray, damped: bool) -> Sparse:
    (m, n), row, col = A.structure.shape, A.row, A.col
    if m < n:
        row, col, m, n = col, row, n, m
    own, rest = np.arange(m), np.arange(m, m + n if damped else m)
    rows = np.concatenate([own, row, m + col, rest])
    cols = np.concatenate([own, m + col, row, rest])
    return Sparse(Pattern(rows, cols, (m + n, m + n)))


def _power_of_two(x: Any) -> Any:
    if isinstance(x, float):
        return 2.0 ** round(np.log2(x))
    xp = namespace(x)
    return 2.0 ** xp.round(xp.log2(x))


def weighted(A: SparseArray, root: Array) -> SparseArray:
    """The rows of A times these numbers (*batch, m)."""
    values = A.data
    batch = broadcast(batch_of(values, 1), batch_of(root, 1))
    return A.with_data(spread(values, batch, 1) * take(root, np.array(A.row)))
