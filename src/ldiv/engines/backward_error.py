"""Each solution x of op(M) x = b is checked by its backward error, and refined if that helps.

    error = |r| / (|M| |x| + |b|) in the max norm, column by column,   r = b - op(M) x
    x <- x + op(M)^-1 r   while error > 4 eps and it halves

M = R A C with R and C of powers of two, if the rows and columns of A differ much in size: otherwise
the norm of A would hide its small rows. Entries can grow under partial pivoting, which the pivots
do not show; the backward error does, for n^2 operations per column. A solution that stays
inaccurate raises.
Reference: Skeel, Math. Comp. 35 (1980); Higham, Accuracy and Stability of Numerical Algorithms,
chapters 9 and 12.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays import alike, numpy_dtype
from ldiv.core.dispatch import frontend_of, namespace, traced
from ldiv.core.errstate import check_or_warn
from ldiv.core.finite import total
from ldiv.core.trees import Array
from ldiv.engines.factor import Factor
from ldiv.engines.limits import ENOUGH, REFINED, limits
from ldiv.engines.singularity_check import direction
from ldiv.errors import SingularMatrixError


class Verified(Factor):
    """Solves with A by a factor of M = R A C.

    `scales` are the diagonals of R and C, None if M is A.
    """

    def __init__(
        self,
        engine: str,
        m: Array,
        factor: Factor,
        scales: tuple[Array, Array] | None,
        last: bool = False,
    ) -> None:
        self._engine, self._m, self._factor, self._scales = engine, m, factor, scales
        self._limits = limits(numpy_dtype(m))
        self._eps = self._limits.eps
        self._tolerance = (
            self._limits.accurate if last or traced(m) else self._limits.usually_accurate
        )
        self._norms: dict[bool, Array] = {}

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The bytes of the matrix, its factor and its scales."""
        return self._factor.nbytes + sum(x.nbytes for x in (self._m, *(self._scales or ())))

    @abstractmethod
    def _residual(self, b: Array, x: Array, op: str) -> Array:
        """b - op(M) x."""

    @abstractmethod
    def _norm(self, transposed: bool) -> Array:
        """The largest absolute row sum of M or of its transpose, (*batch, 1, 1).

        A float for one NumPy matrix.
        """

    def solve(self, b: Array, op: str) -> Array:
        return (
            self._checked(b, op)
            if self._scales is None
            else self._scaled_solve(self._checked, b, op)
        )

    def solve_unrefined(self, b: Array, op: str) -> Array:
        return self._scaled_solve(self._factor.solve, b, op)

    def inverse(self, a: Array) -> Array:
        """A^-1 = C M^-1 R where M^-1 is accurate in one random direction; else it is solved for
        column by column, with refinement.
        """
        if not traced(a):
            xp, x = namespace(a), self._factor.inverse(self._m)
            z = xp.asarray(direction(a.shape[-1]).copy(), **alike(a))
            y = xp.matmul(x, z)
            if bool((self._probe_error(z, y) <= ENOUGH * self._eps).all()):
                if self._scales is not None:
                    r, c = self._scales
                    x = c[..., :, None] * x * r[..., None, :]
                return x
        return super().inverse(a)

    def logabsdet(self) -> Array:
        """A determinant cannot be refined: the factors themselves must be accurate."""
        self._require_accurate()
        return self._unscaled(self._factor.logabsdet())

    def slogdet(self) -> tuple[Array, Array]:
        self._require_accurate()
        sign, size = self._factor.slogdet()
        return sign, self._unscaled(size)

    def _unscaled(self, size: Array) -> Array:
        """log |det A| from log |det M|; the scales are positive."""
        for s in self._scales or ():
            size = size - namespace(s).sum(namespace(s).log(s), axis=-1)
        return size

    def _scaled_solve(self, solve: Any, b: Array, op: str) -> Array:
        """op(A)^-1 b from a solve with op(M)."""
        if self._scales is None:
            return solve(b, op)
        before, after = self._scales if op == "N" else self._scales[::-1]
        with np.errstate(over="ignore"):  # the caller refuses an infinite solution
            return after[..., None] * solve(before[..., None] * b, op)

    def _checked(self, b: Array, op: str) -> Array:
        x = self._factor.solve(b, op)
        if b.dtype != x.dtype:
            b = namespace(b).astype(b, x.dtype)
        return (
            x
            if type(x) is np.ndarray and x.shape[1:] == (1,) and self._is_accurate(b, x, op)
            else self._refined(b, x, op)
        )

    def _is_accurate(self, b: Any, x: Any, op: str) -> bool:
        """A cheap sufficient test for one column on the host; if it fails, `_refined` decides.

        It uses |r|_inf <= |r|_2 and |x|_2 <= sqrt(n) |x|_inf.
        """
        size = float(total(x))
        if not self._limits.tiny < size < self._limits.max * self._eps:
            return False
        # squares would under- or overflow
        r = self._residual(b, x, op)
        bound = (REFINED * self._eps * float(self._size(op))) ** 2 * size
        return bound > self._limits.tiny and float(total(r)) * len(x) <= bound

    def _size(self, op: str) -> Array:
        """|op(M)|."""
        transposed = op != "N"
        if transposed not in self._norms:
            self._norms[transposed] = self._norm(transposed)
        return self._norms[transposed]

    def _refined(self, b: Array, x: Array, op: str) -> Array:
        """The best iterate of refinement, column by column."""
        with np.errstate(over="ignore", invalid="ignore"):
            xp, norm, target = namespace(x), self._size(op), REFINED * self._eps
            r = self._residual(b, x, op)
            # the usual case costs one residual
            if not traced(x) and bool((_largest(r) <= target * norm * _largest(x)).all()):
                return x
            # smaller numbers are subnormal, and have fewer digits
            about = _largest(b) + self._limits.tiny / self._eps

            def error_of(r: Array, x: Array) -> Array:
                """The backward error; 0 on overflow, as the caller refuses infinite solutions."""
                worst = _largest(r)
                return xp.where(
                    xp.isfinite(worst), worst / (norm * _largest(x) + about), xp.zeros_like(worst)
                )

            def going(state: tuple[Array, ...]) -> Array:
                _, _, error, before = state
                return ((error > target) & (error < before / 2)).any()

            def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
                x, r, error, _ = state
                y = x + self._factor.solve(r, op)
                s = self._residual(b, y, op)
                found = error_of(s, y)
                better = found < error
                return (
                    xp.where(better, y, x),
                    xp.where(better, s, r),
                    xp.where(better, found, error),
                    error,
                )

            error = error_of(r, x)
            x, _, error, _ = frontend_of(x).loop(
                going, step, (x, r, error, xp.full_like(error, np.inf))
            )
        self._require_small(
            error, "a backward error of {:.1e} that iterative refinement does not reduce"
        )
        return x

    def _require_accurate(self) -> None:
        n, xp = self._m.shape[-1], namespace(self._m)
        if type(self._m) is np.ndarray and self._m.ndim == 2:
            z = direction(n, self._m.dtype)
            if self._is_accurate(z, self._factor.solve(z, "N"), "N"):
                return
        z = xp.asarray(direction(n).copy(), **alike(self._m))
        error = self._probe_error(z, self._factor.solve(z, "N"))
        self._require_small(error, "factors with a backward error of {:.1e}")

    def _probe_error(self, z: Array, y: Array) -> Array:
        """The backward error of y as a solution of M y = z."""
        r = self._residual(z, y, "N")
        return _largest(r) / (self._size("N") * _largest(y) + _largest(z))

    def _require_small(self, error: Array, what: str) -> None:
        check_or_warn(
            (error <= self._tolerance).all(),
            partial(_inaccurate, self._engine, what),
            namespace(error).max(error),
        )


def _largest(x: Array) -> Array:
    """|x|_inf of every column."""
    if type(x) is np.ndarray:
        return np.abs(x).max(-2, keepdims=True)
    xp = namespace(x)
    return xp.max(xp.abs(x), axis=-2, keepdims=True)


def _inaccurate(engine: str, what: str, error: Any) -> SingularMatrixError:
    return SingularMatrixError(engine, what.format(float(error)))
