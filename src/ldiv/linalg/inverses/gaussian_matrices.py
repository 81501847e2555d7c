"""Normal distributions by their precisions or covariances: any matrices, sparse ones above all.

    log p(x) = (log det Q - (x - m)^H Q (x - m) - n log(2 pi)) / 2,    Q = Sigma^-1
    2 KL(N1 | N2) = tr(Q2 Sigma1) + d^H Q2 d - n + log det Q1 - log det Q2,    d = m2 - m1

No triangle is needed: of a sparse matrix the trace and the derivative of the determinant take the
entries of the inverse on its pattern.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, is_complex, real
from ldiv.core.arrays.validate import as_float, common_precision, require_batches, together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.finite import finite
from ldiv.core.rules.structure import matmul
from ldiv.errors import type_error, value_error
from ldiv.linalg.inverses.determinants import logdet
from ldiv.linalg.inverses.inverse_forms import quad_form, trace_solve
from ldiv.linalg.inverses.sparse_cholesky import SparseCholesky
from ldiv.matrices.assumptions import promised, promised_square
from ldiv.matrices.matrix import Matrix, MatrixLike
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.triangular import Triangular

NormalMatrix = MatrixLike | SparseCholesky


@dataclass(frozen=True)
class Law:
    """The matrix of one normal distribution, and whether it is the precision."""

    name: str
    matrix: Matrix
    is_precision: bool
    factor: SparseCholesky | None = None

    @property
    def n(self) -> int:
        return self.matrix.structure.shape[0]

    @property
    def is_complex(self) -> bool:
        return any(map(is_complex, leaves(self.matrix.params)))

    def log_det(self) -> Array:
        """log det of the precision."""
        if self.factor is not None:
            size = self.factor.logdet()
        else:
            size = logdet(self.matrix, assume_a="pos")
        return size if self.is_precision else -size

    def distance(self, d: Array) -> Array:
        """d^H Q d for d (*batch, n)."""
        if not self.is_precision:
            q = quad_form(self.matrix, d[..., None], assume_a="pos")[..., 0]
            return real(q)
        structure, p = promised(self.matrix, "pos")
        *flat, d = common_precision(*leaves(p), d)
        product = matmul(structure, rebuild(structure.core, flat), d[..., None])[..., 0]
        with np.errstate(all="ignore"):
            return finite("the distance", real(namespace(d).sum(conj(d) * product, axis=-1)))


def law(what: str, number: str, precision: Any, covariance: Any, factor: Any, *others: Any) -> Law:
    """The distribution that was given by its precision or by its covariance, and not by L."""
    given = sum(x is not None for x in (precision, covariance, factor))
    if given != 1 or factor is not None:
        raise type_error(
            what,
            f"one of precision{number} and covariance{number}",
            f"{given} matrices" if given != 1 else f"L{number}",
            "Each distribution is given by one matrix, all of them in the same way.",
        )
    is_precision = precision is not None
    name = ("precision" if is_precision else "covariance") + number
    one = precision if is_precision else covariance
    factor = one if isinstance(one, SparseCholesky) else None
    matrix = promised_square(_matrix(one), "gen", *map(_matrix, others))[0]
    if factor is not None and type(leaves(matrix.params)[0]) is not type(
        leaves(factor.matrix.params)[0]
    ):
        factor = None  # a constant, which was moved to the framework of the others
    if isinstance(matrix.structure.unview()[0], Diagonal | Triangular | SparseTriangular):
        raise type_error(
            name,
            "a sparse or dense matrix, or a factorization by cholesky",
            matrix.structure,
            "Make a diagonal with ldiv.diags_array; triangles are the arguments L.",
        )
    return Law(name, matrix, is_precision, factor)


def _matrix(x: Any) -> Any:
    return x.matrix if isinstance(x, SparseCholesky) else x


def logpdf(x: Any, mean: Any, given: Law) -> Any:
    """The logarithm of the density."""
    x = _point("x", x, given)
    moved = x if mean is None else x - _point("mean", mean, given)
    # in this order: the factor of a determinant solves as well
    log_det = given.log_det()
    twice = log_det - given.distance(moved)
    if given.is_complex:
        return twice - given.n * math.log(math.pi)
    return (twice - given.n * math.log(2 * math.pi)) / 2


def kl(one: Law, two: Law, mean1: Any, mean2: Any) -> Array:
    """The divergence of the first distribution from the second."""
    if one.is_precision != two.is_precision:
        raise type_error(
            "gaussian_kl",
            "two precisions, or two covariances",
            f"{one.name} and {two.name}",
            "The trace of a product of two inverses has no sparse formula.",
        )
    if one.n != two.n:
        raise value_error(two.name, f"{one.n} rows", two.n, "Both laws are over one space.")
    first, second = (one, two) if one.is_precision else (two, one)
    twice = real(trace_solve(first.matrix, second.matrix, assume_a="pos")) - one.n
    twice = twice + (one.log_det() - two.log_det())
    means = [
        _point(name, m, two, one)
        for name, m in (("mean1", mean1), ("mean2", mean2))
        if m is not None
    ]
    if means:
        twice = twice + two.distance(difference(means))
    return twice if one.is_complex or two.is_complex else twice / 2


def _point(name: str, x: Any, *laws: Law) -> Array:
    arrays = [leaf for given in laws for leaf in leaves(given.matrix.params)]
    return point(name, x, laws[0].n, arrays, [given.matrix.batch for given in laws])


def point(
    name: str, x: Any, n: int, arrays: Sequence[Array], batches: Sequence[tuple[int, ...]]
) -> Array:
    """A point or a mean (*batch, n), checked against the arrays of all distributions."""
    x = as_float(name, x, arrays[0])
    together(name, x, arrays[0])
    if is_complex(x) and not any(map(is_complex, arrays)):
        advice = "A complex L or matrix stands for a complex normal distribution."
        raise type_error(name, "real numbers, as the distribution has", "complex ones", advice)
    if x.ndim == 0 or x.shape[-1] != n:
        advice = "The last axis is that of the distribution."
        raise value_error(name, f"shape (..., {n})", tuple(x.shape), advice)
    for batch in batches:
        require_batches(name, batch, tuple(x.shape[:-1]))
    return x


def difference(means: Iterable[Array]) -> Array:
    """mean1 - mean2, which may be one of them where the other is zero: the sign is of no interest."""
    first, *second = means
    return first - second[0] if second else first
