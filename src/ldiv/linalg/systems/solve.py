"""Linear systems: the public functions, which validate, choose the structure and call the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from ldiv.core.arrays.typing import ArrayT, Assumption, Trans
from ldiv.core.arrays.validate import as_block, require_flag, require_option, transposition
from ldiv.core.calls.call import planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.trees import leaves
from ldiv.errors import value_error
from ldiv.linalg.arguments.iteration import Iteration
from ldiv.linalg.arguments.preconditioner import PreconditionerLike
from ldiv.linalg.arguments.solve_problem import (
    FactorDtype,
    bound,
    dense_block,
    require_factor_dtype,
    square,
)
from ldiv.linalg.systems.null_space import (
    border,
    bordered,
    consistent,
    extended,
    in_units_of,
    require_alone,
)
from ldiv.linalg.systems.solve_info import SolveInfo, with_info
from ldiv.matrices.assumptions import assumption, definiteness, promised, triangle
from ldiv.matrices.matrix import Matrix, MatrixLike


@overload
def solve(
    A: MatrixLike,
    b: ArrayT,
    *,
    assume_a: Assumption | None = "gen",
    trans: Trans = "N",
    transposed: bool = False,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    method: str = "auto",
    factor_dtype: FactorDtype | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    restart: int | None = None,
    M: PreconditionerLike | None = None,
    x0: ArrayT | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    progress: bool = False,
    null_space: Any = None,
    info: Literal[False] = False,
) -> ArrayT: ...
@overload
def solve(
    A: MatrixLike,
    b: ArrayT,
    *,
    assume_a: Assumption | None = "gen",
    trans: Trans = "N",
    transposed: bool = False,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    method: str = "auto",
    factor_dtype: FactorDtype | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    restart: int | None = None,
    M: PreconditionerLike | None = None,
    x0: ArrayT | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    progress: bool = False,
    null_space: Any = None,
    info: Literal[True],
) -> tuple[ArrayT, SolveInfo]: ...
@public
@planned
def solve(
    A: MatrixLike,
    b: ArrayT,
    *,
    assume_a: Assumption | None = "gen",
    trans: Trans = "N",
    transposed: bool = False,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    method: str = "auto",
    factor_dtype: FactorDtype | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    restart: int | None = None,
    M: PreconditionerLike | None = None,
    x0: ArrayT | None = None,
    callback: Callable[[ArrayT], Any] | None = None,
    progress: bool = False,
    null_space: Any = None,
    info: bool = False,
) -> ArrayT | tuple[ArrayT, SolveInfo]:
    """Solve a linear system with a dense, sparse or otherwise structured matrix, differentiably.

        op(A) x = b,    op = N, T (transpose) or H (conjugate transpose)

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray, LinearOperator, or any other Matrix
        The matrix; the values of a SparseArray are (*batch, nnz).
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns. A sparse b becomes dense.
    assume_a : str, default "gen"
        "gen", "sym", "her", "pos" (Hermitian positive definite), "diagonal", "tridiagonal",
        "banded", "upper triangular" or "lower triangular", or a long name of SciPy (see Notes).
    trans : {"N", "T", "H"} or {0, 1, 2}, default "N"
        Solve with A, its transpose or its conjugate transpose, also called "C".
    transposed : bool, default False
        SciPy's name for trans="T".
    lower, overwrite_a, overwrite_b, check_finite : bool
        Accepted, as in SciPy: both triangles are read, and must agree; nothing is ever overwritten,
        and numbers are always checked.
    method : str, default "auto"
        "auto", "direct", "iterative", or the name of an engine; `ldiv.explain(A, b)` says which one
        "auto" takes and why.
    factor_dtype : "float32", optional
        Factor a sparse matrix in single precision, for half the memory, and refine x to double.
    rtol, atol : float, optional
        An iteration stops at |b - A x| <= max(rtol |b|, atol) in every column; by default rtol is
        eps^(2/3), 4e-11 in double precision, and atol is 0.
    maxiter, restart : int, optional
        The most steps, or cycles of `gmres`; the steps of such a cycle, 20 by default.
    M : str, Matrix or Factorized, optional
        A preconditioner, near A^-1: "jacobi", "block_jacobi", "ilu" (not for `cg` and `minres`),
        "amg", the result of `preconditioner`, or of `factorized` for a nearby matrix, or a Matrix.
    x0 : array, shaped like b, optional
        The initial guess of an iteration.
    callback : callable, optional
        callback(x) is called after each step, with the iterate.
    progress : bool, default False
        Print the progress of an iteration.
    null_space : array (n,) or (n, k), optional
        V, a basis of the k-dimensional null space of a singular A (see Notes).
    info : bool, default False
        Return a `SolveInfo`, too.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes of A and b broadcast.
    info : SolveInfo
        With info=True only: engine, residual, backward error, condition, iterations.

    Raises
    ------
    SingularMatrixError
        For a singular matrix, once the last engine agrees; `errstate` makes it a warning.
    NotPositiveDefiniteError, NotSymmetricError
        For a matrix that does not have the property that assume_a declares.
    ConvergenceError
        For an iteration that does not converge, of the solution or of a derivative.
    EngineError
        If no engine can solve it, or the named one gives up where another one would not.
    ValueError, TypeError
        For shapes, NaN and infinity; for dtypes, and mixed frameworks (see Notes).

    Notes
    -----
    Dtypes are float32, float64, complex64 and complex128; of two precisions the wider is used.
    With info=True a transformation (jit, vmap) raises a TypeError.

    assume_a: "general", "symmetric", "hermitian" and "positive definite" are SciPy's long names, and
    None is "gen". With "sym", "her" and "pos" both triangles must agree up to rounding: the matrix is
    read as its symmetric part. The other triangle of a triangular matrix is not read. All entries of
    a tridiagonal matrix outside its three diagonals must be zero; the engine finds the band of a
    banded matrix.

    method: `cg` for "pos", `minres` for "her", `gmres` and `bicgstab` iterate. An option of an
    iteration, from rtol to progress, makes "auto" choose among these. The default rtol is small,
    since SciPy's 1e-5 would be the accuracy of the gradient.

    Differentiable in A and b in every mode and order, under torch.func and torch.vmap. Not in M and
    x0, on which the solution does not depend. With lam = op(A)^-H x_bar the cotangents are b_bar =
    lam and A_bar = -lam x^H on the pattern of A; for a symmetric assumption A_bar is sym(-lam x^H).

    Cost: 1 factorization and 1 solve; the derivative reuses the factorization, one more solve for
    each direction. With factor_dtype="float32" each solve is some 3 to 12 by the factor in single
    precision. If the condition number is beyond about 1e5, or steps do not converge, the matrix is
    factored again, in double. An iteration is differentiated by one more iteration, with A^H and
    M^H; nothing of its steps is kept.

    null_space: a b outside the range of A raises a ValueError. For a Hermitian A, V holds the null
    vectors; otherwise null vectors of A or of A^H. Then no combination of them may be in the range
    of A, nor be orthogonal to a null vector. The solution x is orthogonal to V. Of the options only
    assume_a, trans and method may be given. The system [[A, V], [V^H, 0]] is solved, sparse for a
    sparse A. For a large sparse A the factor is that of A with k ones added on its diagonal, in units
    of the engine. It costs 2 k solves more, k for a Hermitian A.

    References
    ----------
    Giles (2008), section 2.3; Golub and Van Loan, chapters 3 and 4; Saad, Iterative Methods for
    Sparse Linear Systems.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> values, rows, columns = np.array([4.0, 4.0, 1.0, 1.0]), [0, 1, 0, 1], [0, 1, 1, 0]
    >>> A = ldiv.coo_array((values, (rows, columns)), shape=(2, 2))
    >>> ldiv.solve(A, np.array([1.0, 0.0]), assume_a="pos")
    array([ 0.26666667, -0.06666667])
    """
    if transposed is not False:
        trans = transposed_too(trans, transposed)
    require_factor_dtype(factor_dtype)
    b = dense_block(b)
    promise = assumption(assume_a)
    matrix = square(A, b, x0, M, null_space)
    structure, params = promised(matrix, promise)
    structure = structure.view(transposition(trans))
    definite = definiteness(structure, promise)
    iteration = Iteration(rtol, atol, maxiter, restart, M, x0, callback, progress)
    if null_space is not None:
        require_alone(bool(iteration.given) or factor_dtype is not None or info is not False)
        return _without_null_space(matrix, b, null_space, promise, trans, method)
    call: Any = bound(structure, params, b, definite, method, iteration, factor_dtype)
    if require_flag("info", info):
        call = with_info(call)
    # what "tridiagonal" says of the numbers is checked in every call
    return call.run() if promise == "tridiagonal" else call


@public
@planned
def solve_triangular(
    A: MatrixLike,
    b: ArrayT,
    *,
    lower: bool = False,
    trans: Trans = "N",
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> ArrayT:
    """Solve a triangular system, dense or sparse, differentiably.

        op(T) x = b,    T the upper (or lower) triangle of A

    Parameters
    ----------
    A : array (*batch, n, n) or SparseArray
        The matrix, of which the other triangle is not read.
    b : array (n,) or (*batch, n, k)
        A one-dimensional b is a vector, anything else a block of columns.
    lower : bool, default False
        Solve with the lower triangle.
    trans : {"N", "T", "H"} or {0, 1, 2}, default "N"
        As in `solve`.
    unit_diagonal : bool, default False
        The diagonal of T is ones, and that of A is not read.
    overwrite_b, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    x : array, shaped like b
        The solution; batch axes of A and b broadcast.

    Raises
    ------
    SingularMatrixError, EngineError, ValueError, TypeError
        As in `solve`.

    Notes
    -----
    Of two precisions the wider is used.
    Differentiable in A and b in every mode and order; A_bar is the triangle of -lam x^H, and 0
    where A is not read.
    Cost: 1 substitution each way, n^2 or nnz operations for a right-hand side; nothing is factored
    for a dense A.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.solve_triangular(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([2.0, 5.0]), lower=True)
    array([1., 1.])
    """
    b = dense_block(b)
    matrix = square(A, b)
    lower, unit = require_flag("lower", lower), require_flag("unit_diagonal", unit_diagonal)
    structure = triangle(matrix.structure, lower, "unit" if unit else "own")
    view = structure.view(transposition(trans))
    call: Any = bound(view, matrix.params, b, "gen", "auto")
    return call


def _without_null_space(
    A: Matrix, b: Any, null_space: Any, promise: str, trans: Any, method: str
) -> Any:
    """The solution that is orthogonal to the null space, by the bordered system."""
    whole = ("gen", "sym", "her", "pos")
    require_option("assume_a", promise, whole, "With null_space all of A is read.")
    op, n, like = transposition(trans), A.structure.shape[0], leaves(A.params)[0]
    V, (block, vector) = border(null_space, n, like), as_block("b", b, n, like)
    V = in_units_of(A, V)
    K = bordered(A._view(op), V)
    own: Any = {"sym": "sym", "her": "her", "pos": "her"}.get(promise, "gen")
    y: Any = solve(K, extended(block, V.shape[-1]), assume_a=own, method=method)
    x = consistent(y, V, block)
    return x[..., 0] if vector else x


def transposed_too(trans: Any, transposed: Any) -> Any:
    """The `trans` that SciPy's `transposed` means."""
    if not require_flag("transposed", transposed):
        return trans
    if transposition(trans) != "N":
        raise value_error(
            "transposed", "False where trans says it", f"True and trans={trans!r}", "Say it once."
        )
    return "T"
