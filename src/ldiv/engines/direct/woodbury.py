"""Low-rank updates: (A + U V^H)^-1 b = y - W C^-1 V^H y,   y = A^-1 b,   W = A^-1 U.

C = I + V^H W is r x r, the capacitance matrix.
adjoint      (A^H + V U^H)^-1 b = y - Z C^-H U^H y,   y = A^-H b,   Z = A^-H V, made when needed
determinant  det (A + U V^H) = det A det C
The formula cancels if A is much closer to singular than the sum. So each solution is checked
against the sum, and refined. Its backward error is the largest of the rows,
    |b - S x|_i / (|A| |x| + |U V^H| |x| + |b|)_i,
as the norm of S would hide its small rows. In place of |A| |x| the largest |A s x| of a few vectors
s of signs is taken, which is not above |A| |x|.
Reference: Hager, SIAM Review 31 (1989); on stability Yip, SIAM J. Sci. Stat. Comput. 7 (1986).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, conj, result_dtype, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.limits import ADEQUATE
from ldiv.engines.accuracy.verifiable import Verifiable
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct import lapack
from ldiv.engines.direct.composed import logabsdet_part, solve_part
from ldiv.engines.factor import Factor
from ldiv.engines.registry import choose, is_iterative
from ldiv.errors import EngineError, SingularMatrixError
from ldiv.structures.sum import Sum

# after LAPACK: if all is dense, factoring the sum costs no more, and never cancels
RANK = 25
ON_HOST = False
REMEMBERED = True
NAME = "Woodbury"

T = TypeVar("T")

SIGNS = 4  # random ones at most, besides those of x itself

ADVICE = (
    "ldiv.block_array([[A, U], [V.H, -I]]) has the same |det|, and the same solution above r more "
    "unknowns; method='gmres' does not mind"
)


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
    if not isinstance(structure, Sum) or (at := structure.updated) is None:
        return None
    return structure.parts[at], structure.parts[1 - at], p[at], p[1 - at]


def factor(symbolic: None, structure: Any, p: Tree, assume_a: str) -> Factor:
    m, updated = SumMatrix(structure, p), Woodbury(structure, p)
    why = f"is the matrix that is updated closer to singular than the sum? {ADVICE}"
    return Verified(NAME, m, updated, last=True, proven=True, advice=why)


class Woodbury(Factor):
    """W, the factored capacitance matrix, and what is needed for Z."""

    def __init__(self, structure: Structure, p: Tree) -> None:
        self._a, update, self._pa, low = _split(structure, p)
        # the update U V^H: the halves are U and V^H
        (u, pu), (vh, pvh) = update.halves(low)
        # op N needs W = A^-1 U, op H needs Z = A^-H V
        self._sides = {"N": (u, pu), "H": (vh.H, pvh)}
        self._dtype = result_dtype(p)
        self._made: dict[str, Array] = {}
        w = self._columns("N")
        # C = I + V^H W, (*batch, r, r)
        c = vh.matmul(pvh, w)
        c = c + unit_columns(c, c.shape[-1], range(c.shape[-1]))
        empty = 0 in c.shape  # an update by nothing
        self._c = _unless_singular(
            lambda: lapack.lu(c) if empty else lapack.factorize(c, lapack.lu),
            "a singular I + V^H A^-1 U",
        )
        self.nbytes = 2 * w.nbytes + self._c.nbytes

    def _cast(self, x: Array) -> Array:
        return astype(x, self._dtype)

    def _columns(self, op: str) -> Array:
        """W = A^-1 U or Z = A^-H V."""
        if op not in self._made:
            u, p = self._sides[op]
            # U, or V, as an array: its product with the identity
            identity = unit_columns(leaves(p)[0], u.shape[1], range(u.shape[1]))
            self._made[op] = self._solve_a(u.matmul(p, self._cast(identity)), op)
        return self._made[op]

    def _solve_a(self, b: Array, op: str) -> Array:
        return _unless_singular(
            lambda: solve_part(self._a.view(op), self._pa, b), "a singular matrix that is updated"
        )

    def solve(self, b: Array, op: str) -> Array:
        """The formula in line 1, or its adjoint."""
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        y = self._solve_a(self._cast(b), op)
        # x = y - W C^-1 V^H y for op N, y - Z C^-H U^H y for op H
        side, p = self._sides["H" if op == "N" else "N"]
        return y - namespace(y).matmul(self._columns(op), self._c.solve(side.H.matmul(p, y), op))

    def logabsdet(self) -> Array:
        return logabsdet_part(self._a, self._pa) + self._c.logabsdet()


def _unless_singular(make: Callable[[], T], what: str) -> T:
    try:
        return make()
    except SingularMatrixError as error:
        evidence = f"{what}, even if the sum is regular ({ADVICE})"
        raise SingularMatrixError("Woodbury", evidence) from error


class SumMatrix(Verifiable):
    """A + U V^H, by products of its parts."""

    def __init__(self, structure: Structure, p: Tree) -> None:
        flat, dtype = leaves(p), result_dtype(p)
        super().__init__(structure.shape[0], dtype, sum(leaf.nbytes for leaf in flat))
        self._sum, self._p, self._like = structure, p, flat[0]
        self.is_single, self.is_traced = False, any(map(traced, flat))
        # rounding of sums of n terms grows about like n^(1/2)
        self.enough = self.limits.eps * max(ADEQUATE, self.n**0.5)

    def product(self, x: Array, op: str) -> Array:
        first, second = self._products(x, op)
        return first + second

    def _products(self, x: Array, op: str) -> list[Array]:
        view: Any = self._sum.view(op)
        return [part.matmul(q, x) for part, q in zip(view.parts, self._p, strict=True)]

    def direction(self, z: Any) -> Array:
        return astype(namespace(self._like).asarray(z.copy(), **alike(self._like)), self.dtype)

    def arranged(self, b: Array, op: str) -> Array:
        return astype(b, self.dtype)

    def is_small(self, r: Array, x: Array, b: Array, op: str) -> bool:
        return not traced(x) and bool((self.errors(r, x, b, op) <= self.enough).all())

    def errors(self, r: Array, x: Array, b: Array, op: str) -> Array:
        """Upper bounds of the backward errors, as tight as the verdict needs them."""
        xp, size = namespace(x), namespace(x).abs
        view: Any = self._sum.view(op)
        _, update, _, low = _split(view, self._p)
        # the products of the parts add up to b - r: that of low rank, which costs less, tells both
        second = update.matmul(low, x)
        # A x = b - r - U V^H x
        largest = size(b - r - second) + size(second)

        def errors() -> Array:
            # max_i |r|_i / (|A x| + |U V^H x| + |b|)_i, not below the error with |A| |x| for |A x|
            whole = largest + self.rounded_sizes(b)
            return xp.max(size(r) / whole, axis=-2, keepdims=True)

        found = errors()
        for signs in _signs(self.n):
            if not traced(found) and bool((found <= self.enough).all()):
                break
            # |A s x| <= |A| |x| for signs s, so the largest of several comes nearer to |A| |x|
            first, second = self._products(xp.asarray(signs, **alike(x)) * x, op)
            largest = xp.maximum(largest, size(first) + size(second))
            found = errors()
        return found


@bounded_cache(16)
def _signs(n: int) -> np.ndarray[Any, Any]:
    """Columns of fixed random signs, (SIGNS, n, 1)."""
    return np.random.default_rng(n).choice([-1.0, 1.0], (SIGNS, n, 1))
