"""The public functions, under SciPy's names and argument order: they validate, choose the structure, and call rules."""

from __future__ import annotations

import weakref
from typing import Any

from ldiv import memory
from ldiv import solver as solvers
from ldiv.errors import got
from ldiv.matrix import Matrix, as_matrix
from ldiv.rule import Array, Tree, alike, batch_of, bind, broadcast, is_complex, leaves, namespace, public, rebuild, recording
from ldiv.rules.logabsdet import LogAbsDet
from ldiv.rules.solve import solve as solve_rule
from ldiv.sparse import SparseArray
from ldiv.structure import VIEWS, Structure
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import Triangular
from ldiv.validate import PROMISES, as_block, common_precision, require_batches, require_option, require_square, transposition


@public
def solve(A: Any, b: Array, *, assume_a: str = "gen", trans: Any = "N", method: str = "auto") -> Array:
    """Solve a linear system with a dense, sparse or otherwise structured matrix, differentiably.

        op(A) x = b,    op = N, T (transpose) or H (conjugate transpose)

    A: an array (*batch, n, n), a SparseArray with values (*batch, nnz), or any `Matrix`; b: (n,) or (*batch, n, k); a
    one-dimensional b is a vector, anything else is a block of columns. Returns x, shaped like b, batch axes broadcast.
    dtypes: float32, float64, complex64, complex128; of two precisions the wider is used.
    assume_a: "gen", "sym", "her", "pos" (Hermitian positive definite), "diagonal", "upper triangular", "lower triangular". With a
    symmetric promise both triangles must be there and agree up to rounding; the matrix is read as its symmetric part, and so
    its cotangent is sym(-lam x^H) on the pattern. With a triangular one the other triangle is not read.
    method: "auto" or the name of an engine (`python -m ldiv info` lists them).
    Differentiable in A and b in every mode and order, under torch.func and torch.vmap: with lam = op(A)^-H x_bar,
    b_bar = lam, A_bar = -lam x^H on the pattern of A.
    Cost: 1 factorization and 1 solve; the derivative reuses the factorization, one more solve for each direction.
    Raises SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError; ValueError for shapes, NaN and infinity; TypeError
    for dtypes and mixed frameworks; EngineError when no engine can do it.
    Source: Giles (2008), section 2.3; Golub and Van Loan, chapters 3 and 4.

    >>> import ldiv, numpy as np
    >>> A = ldiv.coo_array((np.array([4.0, 4.0, 1.0, 1.0]), ([0, 1, 0, 1], [0, 1, 1, 0])), shape=(2, 2))
    >>> ldiv.solve(A, np.array([1.0, 0.0]), assume_a="pos")
    array([ 0.26666667, -0.06666667])
    """
    require_option("assume_a", assume_a, PROMISES)
    matrix = _square(A)
    structure, params = promised(matrix, assume_a)
    return _solve(structure.view(transposition(trans)), params, b, "pos" if assume_a == "pos" else "gen", method)


@public
def solve_triangular(A: Any, b: Array, *, lower: bool = False, trans: Any = "N", unit_diagonal: bool = False) -> Array:
    """Solve a triangular system, dense or sparse, differentiably.

        op(T) x = b,    T the upper (or lower) triangle of A, with ones on its diagonal if `unit_diagonal`

    A, b, dtypes, errors as in `solve`; the other triangle of A, and a unit diagonal, are not read, and their cotangents are 0.
    Differentiable in A and b in every mode and order; A_bar is the triangle of -lam x^H.
    Cost: 1 substitution each way, n^2 or nnz operations for a right-hand side; nothing is factored for a dense A.

    >>> import ldiv, numpy as np
    >>> ldiv.solve_triangular(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([2.0, 5.0]), lower=True)
    array([1., 1.])
    """
    matrix = _square(A)
    structure = _triangle(matrix.structure, bool(lower), "unit" if unit_diagonal else "own")
    return _solve(structure.view(transposition(trans)), matrix.params, b, "gen", "auto")


@public
def factorized(A: Any, *, assume_a: str = "gen", method: str = "auto") -> Factorized:
    """Factor a matrix once, and solve with it many times, differentiably.

        F = factorized(A);    F.solve(b) = F(b) = A^-1 b,    F.logabsdet() = log |det A|

    Arguments, dtypes, errors as in `solve`. The factorization is held as long as the result lives, whatever the cache limit.
    `F.solve` is differentiable in A and b like `solve`; `F.logabsdet()` in A, d log|det A| = Re tr(A^-1 dA).
    Cost: 1 factorization now; each solve is a solve. The derivative of logabsdet takes n solves, in blocks.

    >>> import ldiv, numpy as np
    >>> F = ldiv.factorized(np.array([[2.0, 1.0], [1.0, 3.0]]), assume_a="pos")
    >>> F.solve(np.array([3.0, 4.0]))
    array([1., 1.])
    >>> round(float(F.logabsdet()), 6)
    1.609438
    """
    require_option("assume_a", assume_a, PROMISES)
    structure, params = promised(_square(A), assume_a)
    return Factorized(structure, params, "pos" if assume_a == "pos" else "gen", method)


class Factorized:
    """One factorization, held; made by `factorized`."""

    def __init__(self, structure: Structure, params: Tree, assume_a: str, method: str) -> None:
        _require_engine(method)
        self._structure, self._params, self._assume_a, self._method = structure, params, assume_a, method
        first = leaves(params)[0]
        no_columns = namespace(first).zeros((structure.shape[0], 0), **alike(first))
        with recording(), memory.pinning() as factors:  # apart: whoever records sees the solves, not the factoring
            solve_rule(structure, params, no_columns, assume_a, method)
        weakref.finalize(self, memory.unpin, factors)

    @public
    def solve(self, b: Array, trans: Any = "N") -> Array:
        """op(A)^-1 b for b (n,) or (*batch, n, k); trans "N", "T" or "H"."""
        return _solve(self._structure.view(transposition(trans)), self._params, b, self._assume_a, self._method)

    __call__ = solve

    @public
    def logabsdet(self) -> Array:
        """log |det A|, of shape (*batch,)."""
        return bind(LogAbsDet(self._structure, self._assume_a, self._method), self._params)[0]


def _square(A: Any) -> Matrix:
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    return matrix


def _solve(structure: Structure, params: Tree, b: Any, assume_a: str, method: str) -> Array:
    _require_engine(method)
    flat = leaves(params)
    block, vector = as_block("b", b, structure.shape[0], flat[0])
    cores = leaves(structure.core)
    require_batches("b", broadcast(*(batch_of(x, c) for x, c in zip(flat, cores, strict=True))), batch_of(block, 2))
    *flat, block = common_precision(*flat, block)
    x = solve_rule(structure, rebuild(structure.core, flat), block, assume_a, method)
    return x[..., 0] if vector else x


def _require_engine(method: str) -> None:
    require_option("method", method, ("auto", *solvers.engines()))


def promised(matrix: Matrix, assume_a: str) -> tuple[Structure, Tree]:
    """The structure, and its parameters, that a promise makes of a dense or sparse matrix."""
    structure, n = matrix.structure, matrix.structure.shape[0]
    base, op = structure.unview()
    if assume_a == "gen":
        return structure, matrix.params
    if not isinstance(base, Dense | Sparse):
        raise ValueError(got("assume_a", "'gen' for a matrix whose structure says it all", repr(assume_a), f"Leave it out, {base} knows better."))
    if assume_a == "diagonal":
        if isinstance(matrix, SparseArray):
            return Diagonal(n), matrix.diagonal()
        return Diagonal(n).view("C" if VIEWS[op][1] else "N"), namespace(matrix.params).linalg.diagonal(matrix.params)
    if assume_a.endswith("triangular"):
        return _triangle(structure, assume_a == "lower triangular", "own"), matrix.params
    part = "T" if assume_a == "sym" and is_complex(matrix.params) else "H"
    return structure.memo(("part", part), lambda: Symmetric(structure, part)), matrix.params


def _triangle(structure: Structure, lower: bool, diagonal: Any) -> Structure:
    """The triangle of a dense or sparse matrix or of a view of one, on the same parameters."""
    base, op = structure.unview()
    in_base = lower != VIEWS[op][0]
    if isinstance(base, Dense):
        return Triangular(base.n, in_base, diagonal).view(op)
    if isinstance(base, Sparse):
        return base.memo(("triangle", in_base, diagonal), lambda: SparseTriangular(base, in_base, diagonal)).view(op)
    if base == Triangular(structure.shape[0], in_base, diagonal):
        return structure
    raise ValueError(got("solve_triangular", "a dense or sparse matrix", str(base), "Use solve, which knows the structure."))
