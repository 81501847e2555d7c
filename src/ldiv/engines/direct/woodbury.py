"""Low-rank updates: (A + U V^H)^-1 b = y - W C^-1 V^H y,   y = A^-1 b,   W = A^-1 U.

C = I + V^H W is r x r, the capacitance matrix.
adjoint      (A^H + V U^H)^-1 b = y - Z C^-H U^H y,   y = A^-H b,   Z = A^-H V, made when needed
determinant  det (A + U V^H) = det A det C
The formula cancels if A is much closer to singular than the sum. So each solution is checked
against the sum, and refined while its backward error exceeds rounding and halves; one that stays
inaccurate raises. That error is the largest of the rows,
    |b - S x|_i / (|A| |x| + |U V^H| |x| + |b|)_i,
as the norm of S would hide its small rows; of |A| |x| the largest |A s x| of a few vectors s of
signs is known, which is not above it.
Reference: Hager, SIAM Review 31 (1989); on stability Yip, SIAM J. Sci. Stat. Comput. 7 (1986).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ldiv.core.arrays import alike, astype, conj, numpy_dtype, real, result_dtype, unit_columns
from ldiv.core.dispatch import check_or_raise, frontend_of, namespace, traced
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves
from ldiv.engines.direct import lapack
from ldiv.engines.direct.composed import logabsdet_part, solve_part
from ldiv.engines.factor import Factor
from ldiv.engines.limits import limits
from ldiv.engines.registry import choose, is_iterative
from ldiv.errors import EngineError, SingularMatrixError
from ldiv.structures.sum import Sum

# after LAPACK: if all is dense, factoring the sum costs no more, and never cancels
RANK = 25
ON_HOST = False
REMEMBERED = True

REFINED = 16  # a backward error below this many eps, or sqrt(n), needs no refinement
SIGNS = 4  # random ones at most, besides those of x itself

ADVICE = "method='gmres' does not mind"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if (parts := _split(structure)) is None:
        return "solves with the sum of two matrices, one of them a product of low rank"
    try:
        engine = choose(parts[0], dtype, device)
    except EngineError as error:
        return f"needs an engine for the matrix that is updated: {error}"
    return (
        "updates factorizations, and this one is solved by iterations"
        if is_iterative(engine)
        else None
    )


def _split(structure: Structure, p: Tree = (None, None)) -> Any:
    """(A, its low-rank update, the parameters of each), or None if there is no such update."""
    n = structure.shape[0]
    if not isinstance(structure, Sum) or len(structure.parts) != 2:
        return None
    (first, second), (p_first, p_second) = structure.parts, p
    if 0 < second.rank < n:
        return first, second, p_first, p_second
    return (second, first, p_second, p_first) if 0 < first.rank < n else None


def factor(symbolic: None, structure: Any, p: Tree, assume_a: str) -> Factor:
    return Woodbury(structure, p)


class Woodbury(Factor):
    """W, the factored capacitance matrix, and what is needed for Z and for backward errors."""

    def __init__(self, structure: Structure, p: Tree) -> None:
        self._sum, self._p = structure, p
        self._a, update, self._pa, low = _split(structure, p)
        (u, pu), (vh, pvh) = update.halves(low)
        self._sides = {"N": (u, pu), "H": (vh.H, pvh)}
        self._dtype = result_dtype(p)
        self._made: dict[str, Array] = {}
        w = self._columns("N")
        c = vh.matmul(pvh, w)
        c = c + unit_columns(c, c.shape[-1], range(c.shape[-1]))
        self._c = lapack.nonsingular(c, lapack.lu(c), lapack.row_maxima(namespace(c).abs(c)))
        self.nbytes = 2 * w.nbytes + self._c.nbytes + sum(leaf.nbytes for leaf in leaves(p))

    def _cast(self, x: Array) -> Array:
        return astype(x, self._dtype)

    def _columns(self, op: str) -> Array:
        """W = A^-1 U or Z = A^-H V."""
        if op not in self._made:
            u, p = self._sides[op]
            identity = unit_columns(leaves(p)[0], u.shape[1], range(u.shape[1]))
            self._made[op] = self._solve_a(u.matmul(p, self._cast(identity)), op)
        return self._made[op]

    def _solve_a(self, b: Array, op: str) -> Array:
        try:
            return solve_part(self._a.view(op), self._pa, b)
        except SingularMatrixError as error:
            raise SingularMatrixError(
                "Woodbury", f"a singular matrix that is updated, even if the sum is not ({ADVICE})"
            ) from error

    def solve(self, b: Array, op: str) -> Array:
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        b, view = self._cast(b), self._sum.view(op)
        enough = limits(numpy_dtype(b)).eps * max(REFINED, self._sum.shape[0] ** 0.5)

        def checked(x: Array, before: Array) -> tuple[Array, ...]:
            return x, *_residual(view, self._p, x, b, enough), before

        def going(state: tuple[Array, ...]) -> Array:
            _, _, error, before = state
            return (error > enough) & (error < before / 2)

        def refined(state: tuple[Array, ...]) -> tuple[Array, ...]:
            x, r, error, _ = state
            return checked(x + self._updated(r, op), error)

        first = self._updated(b, op)
        state = checked(first, namespace(b).asarray(np.inf, **alike(real(first))))
        x, _, error, _ = frontend_of(b).loop(going, refined, state)
        check_or_raise(error <= limits(numpy_dtype(b)).accurate, _cancelled, error)
        return x

    def _updated(self, b: Array, op: str) -> Array:
        # one application of the formula in line 1, or of its adjoint
        y = self._solve_a(b, op)
        side, p = self._sides["H" if op == "N" else "N"]
        return y - namespace(y).matmul(self._columns(op), self._c.solve(side.H.matmul(p, y), op))

    def logabsdet(self) -> Array:
        return logabsdet_part(self._a, self._pa) + self._c.logabsdet()


def _residual(s: Any, p: Tree, x: Array, b: Array, enough: float) -> tuple[Array, Array]:
    """(b - S x, its backward error in the worst row and column: as bounded as it must be)."""
    xp, size = namespace(x), namespace(x).abs

    def products(x: Array) -> list[Array]:
        return [part.matmul(q, x) for part, q in zip(s.parts, p, strict=True)]

    first, second = products(x)
    r = b - (first + second)
    if 0 in r.shape:
        return r, xp.sum(size(r))
    known = size(first) + size(second)

    def worst() -> Array:
        return xp.max(size(r) / (known + size(b) + limits(numpy_dtype(b)).tiny))

    error = worst()
    for signs in _signs(x.shape[-2]):
        if not traced(error) and bool(error <= enough):
            break
        first, second = products(xp.asarray(signs, **alike(x)) * x)
        known = xp.maximum(known, size(first) + size(second))
        error = worst()
    return r, error


@lru_cache(maxsize=16)
def _signs(n: int) -> np.ndarray[Any, Any]:
    """Columns of fixed random signs, (SIGNS, n, 1)."""
    return np.random.default_rng(n).choice([-1.0, 1.0], (SIGNS, n, 1))


def _cancelled(error: Any) -> SingularMatrixError:
    why = f"is the matrix that is updated closer to singular than the sum? {ADVICE}"
    return SingularMatrixError(
        "Woodbury", f"a backward error of {error:.1e} that refinement does not reduce ({why})"
    )
