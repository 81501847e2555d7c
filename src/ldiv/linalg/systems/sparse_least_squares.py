"""Least squares by one factorization of the augmented matrix: of sparse A, and of what has entries.

All derivatives are those of `solve`, with the matrix of `augmented`. A wide A goes as A^H: what is
(r / s, x) there is (x, y) here, A y = 0 but for the damping, of least norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, batch_of, eps, join, numpy_dtype
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, constant, namespace, traced
from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.engines.eigen.rank import rank
from ldiv.engines.factors.factorize import batch_axes, each_matrix
from ldiv.errors import OF_DEPENDENT_COLUMNS, SingularMatrixError
from ldiv.linalg.systems.augmented import augmented, column_sizes, fixed, scale_of
from ldiv.linalg.systems.factorization import Factorized
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.assumptions import promised
from ldiv.matrices.inverse_entries import inverse_at, plain
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.assertion import checked
from ldiv.rules.constant import Constant
from ldiv.rules.residual import Residual


@dataclass(frozen=True)
class Augmented:
    """argmin |A x - b|^2 + damp^2 |x|^2, of least norm for m < n, by one factorization."""

    A: Matrix
    damp: float

    @cached_property
    def is_tall(self) -> bool:
        m, n = self.A.structure.shape
        return m >= n

    @cached_property
    def sizes(self) -> Array:
        """The column norms of A or A^H, whichever is tall."""
        return column_sizes(self.A if self.is_tall else self.A.H)

    @cached_property
    def matrix(self) -> Matrix | None:
        """None where the entries of A are not at hand."""
        return augmented(self.A if self.is_tall else self.A.H, self.damp, self.sizes)

    @cached_property
    def K(self) -> Matrix:
        assert self.matrix is not None
        return self.matrix

    @cached_property
    def factor(self) -> tuple[Factorized, Array]:
        """The factor of the constant K, and the solution of a probe that shows full rank."""
        with _refusing(self):
            F = Factorized(*promised(fixed(self.K), "her"), "gen", "auto")
            return F, F.solve(self._probe())

    def solve(self, b: Array) -> Array:
        """x for blocks b (*batch, m, k)."""
        rows, n = self.K.structure.shape[0], self.A.structure.shape[1]
        zeros = namespace(b).zeros((*batch_of(b, 2), rows - b.shape[-2], b.shape[-1]), **alike(b))
        side = join(b, zeros, 2) if self.is_tall else join(zeros, b, 2)
        F, seen = self.factor
        with _refusing(self):
            z, dz = _refined(F.solve(bind(Constant(), side)[0]), self.K, side)
        z = z + 0 * seen[..., :1, :]  # or a compiled program would leave the probe out
        own = slice(rows - n, None) if self.is_tall else slice(n)
        return z[..., own, :] + self._known(dz[..., own, :], z[..., own, :], b)

    def inverse_entries(self, rows: Index, cols: Index) -> Array:
        """Entries of C = (A^H A + damp^2 I)^-1 of a sparse A: the last block of K^-1 is -s C, and of a
        wide A the first one is mu / s C.
        """
        assert isinstance(self.K, SparseArray)
        n, s = self.A.structure.shape[1], scale_of(self.K)
        own = self.K.structure.shape[0] - n if self.is_tall else 0
        _, seen = self.factor
        z = inverse_at(plain(self.K), own + rows, own + cols, "her") + 0 * seen[..., :1, 0]
        return -z / s if self.is_tall else z * (s / self.damp / self.damp)

    def _probe(self) -> Array:
        """(0, c), c by the columns of A: no A of lower rank has a solution for it.

        Rounding makes K regular where A has not full rank, and its solution for a b in the range of A
        looks like any other.
        """
        n, like = self.sizes.shape[-1], leaves(self.K.params)[0]
        c = np.random.default_rng(0).uniform(0.5, 1.5, n)  # beside any subspace
        c = astype(self.sizes * namespace(like).asarray(c, **alike(self.sizes)), numpy_dtype(like))
        rows = self.K.structure.shape[0] - n
        zeros = namespace(like).zeros((*batch_of(c, 1), rows), **alike(like))
        return join(zeros[..., None], c[..., None], 2)

    def _known(self, dx: Array, x: Array, b: Array) -> Array:
        """The last correction, which tells how far the solution is known."""
        # a program keeps its checks, which must not refer to what was traced
        of = None if any(map(traced, leaves(self.A.params))) else self
        return checked(partial(_require_known, self.damp, of), dx, x, b, self.sizes[..., None])


def _refined(z: Array, K: Matrix, side: Array) -> tuple[Array, Array]:
    """(z, dz) with z + dz = K^-1 side, refined twice from a constant z: it is the solution for any z.

    The parts of a solution differ in size by 1 / s, and a residual that is small beside the larger one
    may be large beside the other: without refinement graded rows cost all digits. The residuals have
    twice the digits, so that the error is rounding as long as factors have any digit. The derivatives
    of two steps are refined once, those of one are not.
    """
    residual = Residual(K.structure)
    z = z + solve(K, bind(residual, K.params, z, side)[0], assume_a="her")
    return z, solve(K, bind(residual, K.params, z, side)[0], assume_a="her")


class _refusing:
    """A singular augmented matrix says that A has not full rank."""

    def __init__(self, of: Augmented) -> None:
        self.of = of

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SingularMatrixError):
            evidence = f"a singular augmented matrix ({error.evidence})"
            raise _deficient(self.of.damp, self.of, evidence) from error


def _require_known(
    damp: float, of: Augmented | None, dx: Array, x: Array, b: Array, sizes: Array
) -> None:
    """Raise unless |dx| is small beside |x| + |b| / |A|, which is as large as x may be."""
    xp, size = namespace(dx), _largest(sizes, -2)
    known = _largest(x, -2) + _largest(b, -2) / xp.where(size > 0, size, 1.0)
    ratio, limit = _largest(dx, -2) / xp.where(known > 0, known, 1.0), eps(dx) ** 0.5
    evidence = f"a solution of which no more than {-np.log10(limit):.0f} digits are known"
    check_or_raise((ratio <= limit).all(), lambda: _deficient(damp, of, evidence))


def _deficient(damp: float, of: Augmented | None, evidence: str) -> SingularMatrixError:
    causes = OF_DEPENDENT_COLUMNS.replace("ldiv.pinv(a) @ b", f"damp > {damp:g}")
    rank = "" if of is None else _rank(of)
    return SingularMatrixError("lstsq", evidence + rank, causes=causes, verdict="has not full rank")


def _rank(of: Augmented) -> str:
    """Describe the rank of the first rank-deficient batch member; "" inside of a trace."""
    structure, flat = of.A.structure, [constant(x) for x in leaves(of.A.params)]
    if of.damp or any(map(traced, flat)):
        return ""
    values = [asnumpy(x) for x in flat]
    batch = batch_axes(structure, rebuild(structure.core, values))
    full = min(structure.shape)
    for member in each_matrix(structure, values, batch):
        if (found := rank(structure, member)) is not None and found[0] < full:
            return (
                f"; its rank is {found[0]} of {full} (scaled, singular values above {found[1]:.0e})"
            )
    return ""


def _largest(x: Array, axis: int) -> Array:
    xp = namespace(x)
    return (xp.max if x.shape[axis] else xp.sum)(xp.abs(x), axis=axis)  # of no numbers 0
