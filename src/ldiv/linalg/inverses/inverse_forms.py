"""Traces tr(A^-1 B) and quadratic forms x^H A^-1 x, without an inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import batch_of, conj, numpy_dtype, unit_columns
from ldiv.core.arrays.typing import AnyArray, ArrayT, Assumption
from ldiv.core.arrays.validate import (
    as_block,
    common_precision,
    require_batches,
    require_flag,
    require_square,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.finite import finite
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import VIEWS, Structure, matmul, view_dense
from ldiv.engines import entries
from ldiv.engines.libraries.work import work
from ldiv.errors import value_error
from ldiv.linalg.arguments.solve_problem import require_method
from ldiv.linalg.inverses.stochastic import TRACES, EstimateInfo, require_exact, trace
from ldiv.matrices import sparse_indexing
from ldiv.matrices.assumptions import assumption, definiteness, promised, promised_square
from ldiv.matrices.inverse_entries import inverse_at, pattern_of, plain
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix, common_dtype
from ldiv.matrices.sparse_array import SparseArray, on_a_pattern
from ldiv.rules.frobenius_norm import quotient_squares
from ldiv.rules.quadratic_form import QuadraticForm
from ldiv.rules.solve import solve
from ldiv.structures.dense import Dense
from ldiv.structures.gram import Gram
from ldiv.structures.product import Product
from ldiv.structures.triangular import Triangular

BLOCK = 64  # columns of B in memory at a time, where B is not dense
FEW = 64  # columns with entries up to which a sparse B is solved for
FILLED = 8  # times the fill of A that entries in the places of a sparse B may bring


@overload
def trace_solve(
    A: Matrix,
    B: Matrix,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    solver: str | None = None,
    rng: Any = None,
    info: Literal[False] = False,
) -> Any: ...
@overload
def trace_solve(
    A: Matrix | ArrayT,
    B: Matrix | ArrayT,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    solver: str | None = None,
    rng: Any = None,
    info: Literal[False] = False,
) -> ArrayT: ...
@overload
def trace_solve(
    A: MatrixLike,
    B: MatrixLike,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    solver: str | None = None,
    rng: Any = None,
    info: Literal[True],
) -> tuple[Any, EstimateInfo]: ...
@public
def trace_solve(
    A: MatrixLike,
    B: MatrixLike,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    solver: str | None = None,
    rng: Any = None,
    info: bool = False,
) -> AnyArray | tuple[Any, EstimateInfo]:
    """Compute the trace of a quotient of two matrices, differentiably.

        t = tr(A^-1 B)

    Parameters
    ----------
    A, B : array (*batch, n, n), SparseArray or Matrix
        The matrices, of any structure: `Gram` matrices and products among them.
    assume_a : str, default "gen"
        As in `solve`, of A.
    method : str, default "auto"
        As in `solve`. "xtrace" and "hutch++" estimate the trace instead, from solves for random
        vectors: for a `LinearOperator`, or where n solves are too many.
    probes : int, optional
        With an estimate, the number of random vectors, 32; the error of "xtrace" falls as its
        inverse, and faster where few eigenvalues of A^-1 B are large.
    solver : str, optional
        With an estimate, the `method` of its solves, "auto" where it is absent.
    rng : int, numpy.random.Generator, torch.Generator or key of jax.random, optional
        With an estimate, which needs it, where the vectors come from. An integer, and a generator
        of NumPy, give the same ones in every framework.
    info : bool, default False
        With an estimate, return an `EstimateInfo`, too.

    Returns
    -------
    t : array (*batch,)
        The trace.
    info : EstimateInfo
        With info=True only: the standard error.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError
        As `solve`.
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For dtypes as in `solve`, and for mixed frameworks.

    Notes
    -----
    Differentiable in A and B in every mode and order.

    Cost: A = L2 L2^H and B = L1 L1^H, with lower triangles, may be given as `Gram` matrices or as
    products L @ L.H. Then the trace is |L2^-1 L1|_F^2, and the value and the gradient take 2
    triangular solves and 1 triangular product, n^3 multiplications in all. For sparse A and B the
    entries of A^-1 in the places of B are computed (see `selected_inverse`), unless too much fill
    comes of it. Otherwise the cost is 1 factorization, and solves with r columns where B is a
    product or a Gram matrix of rank r < n, with the n columns of B elsewhere. With k probes,
    "xtrace" solves for 2 k columns, "hutch++" for 3 k / 2. Derivatives of an estimate are unbiased,
    and take as many.

    References
    ----------
    Petersen and Pedersen, The Matrix Cookbook, section 2.5; Giles (2008); Meyer, Musco, Musco,
    Woodruff, Hutch++ (2021); Epperly, Tropp, Webber, XTrace, SIAM J. Matrix Anal. Appl. 45 (2024).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> L = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> float(ldiv.trace_solve(ldiv.Gram(L), ldiv.Gram(2 * L)))
    8.0
    >>> round(float(ldiv.trace_solve(L @ L.T, 4 * L @ L.T)), 12)
    8.0
    >>> A = ldiv.LinearOperator(lambda d, x: d[:, None] * x, np.arange(1.0, 9), shape=(8, 8))
    >>> t, info = ldiv.trace_solve(A, ldiv.eye_array(8), method="hutch++", rng=0, info=True)
    >>> bool(abs(t - (1 / np.arange(1.0, 9)).sum()) < 3 * info.standard_error + 1e-9)
    True
    """
    promise = assumption(assume_a)
    if isinstance(method, str) and method in TRACES:
        return _estimate(A, B, promise, method, probes, solver, rng, require_flag("info", info))
    require_method(method)
    require_exact(method, probes, rng, info, solver)
    a, b = _pair(as_matrix("A", A, B), as_matrix("B", B, A))
    left, right = _lower(a), _lower(b)  # tr((L2 L2^H)^-1 L1 L1^H) = |L2^-1 L1|_F^2
    if left is not None and right is not None:
        return quotient_squares(left, right)
    if method == "auto" and promise in ("gen", "sym", "her", "pos"):
        one, other = on_a_pattern(a), on_a_pattern(b)
        if one is not None and other is not None:
            one, other = plain(one), plain(other)
            if _selects(one, other, promise):
                return _of_entries(one, other, promise)
    structure, p = promised(a, promise)
    return _trace(structure, p, b, definiteness(structure, promise), method)


def _estimate(
    A: Any, B: Any, promise: str, method: str, probes: Any, solver: Any, rng: Any, info: bool
) -> Any:
    a, b = _pair(as_matrix("A", A, B), as_matrix("B", B, A))
    structure, p = promised(a, promise)
    assumption, solver = definiteness(structure, promise), "auto" if solver is None else solver
    require_method(solver, "solver")

    def apply(v: Array) -> Array:
        return solve(structure, p, matmul(b.structure, b.params, v), assumption, solver)

    if structure.shape[0] == 0:  # nothing is left to chance
        value = _trace(structure, p, b, assumption, "auto")
        return (value, EstimateInfo(method, 0, abs(value))) if info else value
    value, quality = trace(method, apply, structure.shape[0], leaves(p)[0], probes, rng)
    value = finite("trace_solve", value)
    return (value, quality) if info else value


def _selects(a: SparseArray, b: SparseArray, assume_a: str) -> bool:
    """Whether computing the entries of A^-1 on the pattern of B is cheaper than solving.

    It is not if few columns of B have entries, or if the pattern of A with that of B fills too much.
    """
    if not entries.is_compiled() or len(distinct(b.col)) <= FEW:
        return False
    structure, p = promised(a, assume_a)
    if not entries.supports(structure, p, definiteness(structure, assume_a)):
        return False
    pattern = pattern_of(a)
    both = a.structure.cached(
        ("with", b.structure),
        lambda: sparse_indexing.union((a.row, a.col), (b.row, b.col), pattern.shape)[0].pattern,
    )
    if both.nnz == pattern.nnz:
        return True
    own = a.structure.cached("fill", lambda: work(pattern).entries)
    wide: int = a.structure.cached(("fill with", b.structure), lambda: work(both).entries)
    return wide <= FILLED * own


def _of_entries(a: SparseArray, b: SparseArray, assume_a: str) -> Array:
    """The sum of (A^-1)_ji B_ij over the entries of B."""
    z = inverse_at(a, b.col, b.row, assume_a)
    with np.errstate(all="ignore"):
        return finite("trace_solve", namespace(z).sum(z * b.values, axis=-1))


def _pair(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Return both matrices in one precision, after checking size, framework and device."""
    for name, matrix in (("A", a), ("B", b)):
        require_square(name, matrix.structure.shape)
    if a.structure.shape != b.structure.shape:
        raise value_error(
            "B", f"shape {a.structure.shape}", b.structure.shape, "The trace is of A^-1 B."
        )
    first = leaves(a.params)[0]
    for leaf in leaves(b.params):
        together("B", leaf, first)
    require_batches("B", a.batch, b.batch)
    pa, pb = common_dtype(a.params, b.params) if _kinds(a) == _kinds(b) else (a.params, b.params)
    return Matrix(a.structure, pa), Matrix(b.structure, pb)


def _kinds(matrix: Matrix) -> set[str]:
    return {numpy_dtype(x).kind for x in leaves(matrix.params)}


def _lower(matrix: Matrix) -> Array | None:
    """The dense lower triangle L of a matrix whose structure is L L^H; None for any other."""
    structure, p = matrix.structure, matrix.params
    if isinstance(structure, Product):
        (left, pl), (right, pr) = structure.halves(p)
        if not (right == left.H and pl is pr):
            return None
        structure, p = Gram((left,)), (pl,)
    if not isinstance(structure, Gram):
        return None
    base, op = structure.base.unview()
    # An upper triangle that is transposed is a lower one.
    triangular = (
        isinstance(base, Triangular) and base.diagonal == "own" and base.lower != VIEWS[op][0]
    )
    return view_dense(p[0], op) if triangular else None


def _trace(structure: Structure, p: Tree, b: Matrix, assumption: str, method: str) -> Array:
    """tr(S(p)^-1 B), by solves with as few columns as the rank of B needs."""
    if b.structure.rank < structure.shape[0]:  # tr(A^-1 U V) = tr(V A^-1 U), U by its columns
        (u, pu), (v, pv) = b.structure.halves(b.params)
        return _sum(
            p,
            lambda e: (v.H.matmul(pv, e), solve(structure, p, u.matmul(pu, e), assumption, method)),
            u.shape[1],
            b,
        )
    if isinstance(b.structure, Dense):

        def trace(y: Array, *flat: Array) -> Array:
            x = solve(structure, rebuild(structure.core, flat), y, assumption, method)
            with np.errstate(all="ignore"):
                diagonal = namespace(x).linalg.diagonal(x)
                return finite("trace_solve", namespace(x).sum(diagonal, axis=-1))

        return as_one_node(trace, b.params, *leaves(p))
    return _sum(
        p,
        lambda e: (e, solve(structure, p, matmul(b.structure, b.params, e), assumption, method)),
        structure.shape[0],
        b,
    )


def _sum(p: Tree, columns: Callable[[Array], tuple[Array, Array]], n: int, b: Matrix) -> Array:
    """The sum over e of y^H x for (y, x) = columns(e), a block of unit vectors at a time."""
    like, total = leaves((p, b.params))[0], None
    for j in range(0, max(n, 1), BLOCK):  # of no columns one block, whose sum is 0
        y, x = columns(unit_columns(like, n, range(j, min(j + BLOCK, n))))
        with np.errstate(all="ignore"):
            part = namespace(x).sum(conj(y) * x, axis=(-2, -1))
            total = part if total is None else total + part
    assert total is not None
    return finite("trace_solve", total)


@public
def quad_form(
    A: MatrixLike, x: ArrayT, *, assume_a: Assumption = "gen", method: str = "auto"
) -> ArrayT:
    """Evaluate a quadratic form with the inverse of a matrix, differentiably.

        q = x^H A^-1 x

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        As in `solve`.
    x : array (n,) or (*batch, n, k)
        One vector, or a block with a form for each column.
    assume_a, method : optional
        As in `solve`.

    Returns
    -------
    q : array () or (*batch, k)
        The form; real where A is Hermitian by structure or assumption ("her", "pos", a `Gram`).

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError
        As `solve`.
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For dtypes as in `solve`, and for mixed frameworks.

    Notes
    -----
    Differentiable in A and x in every mode and order; for a Hermitian A

        A_bar = -q_bar y y^H,    x_bar = 2 q_bar y,    y = A^-1 x

    Cost: 1 factorization and 1 solve, for value and gradient together where A is Hermitian; one
    more solve elsewhere.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> float(ldiv.quad_form(np.diag([1.0, 4.0]), np.array([1.0, 2.0]), assume_a="pos"))
    2.0
    """
    require_method(method)
    matrix, structure, params, assumption = promised_square(A, assume_a, x)
    flat = leaves(params)
    block, vector = as_block("x", x, structure.shape[0], flat[0])
    require_batches("x", matrix.batch, batch_of(block, 2))
    *flat, block = common_precision(*flat, block)
    p = rebuild(structure.core, flat)
    if structure.H == structure:  # the rule keeps y, of which the gradient is made
        q = bind(QuadraticForm(structure, assumption, method), p, block)[0]
    else:

        def form(x: Array, *flat: Array) -> Array:
            y = solve(structure, rebuild(structure.core, flat), x, assumption, method)
            with np.errstate(all="ignore"):
                return finite("quad_form", namespace(x).sum(conj(x) * y, axis=-2))

        q = as_one_node(form, block, *flat)
    return q[..., 0] if vector else q
