"""Singular triplets of A: the positive eigenpairs of [[0, A], [A^H, 0]]."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal, TypeAlias, Unpack, get_args, overload

from ldiv.core.arrays.shapes import conj, transpose
from ldiv.core.arrays.typing import AnyArray, ResultT
from ldiv.core.arrays.validate import as_float, require_flag, require_int, require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.rule import bind
from ldiv.engines.eigen.lapack import INSIDE
from ldiv.errors import EngineError, NotNumbersError, expected_got, shown, value_error
from ldiv.linalg.arguments.eigen_problem import (
    EigenKeywords,
    EigenOptions,
    OnDegenerate,
    build_problem,
)
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.structures.block import Block
from ldiv.structures.composed import is_dense
from ldiv.structures.self_adjoint import SelfAdjoint

Solver: TypeAlias = Literal["arpack", "lobpcg", "propack"]


class SvdsKeywords(EigenKeywords, total=False):
    """The keywords that only `svds` has."""

    solver: Solver
    rng: object
    options: dict[str, Any] | None


@overload
def svds(
    A: Matrix | ResultT,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: Literal["LM", "SM"] = "LM",
    v0: AnyArray | None = None,
    maxiter: int | None = None,
    return_singular_vectors: Literal[True] = True,
    solver: Solver = "arpack",
    rng: object = None,
    options: dict[str, Any] | None = None,
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ResultT, ResultT, ResultT]: ...
@overload
def svds(
    A: Matrix | ResultT,
    k: int = 6,
    *,
    which: Literal["LM", "SM"] = "LM",
    return_singular_vectors: Literal[False],
    **options: Unpack[SvdsKeywords],
) -> ResultT: ...
@overload
def svds(
    A: Matrix | ResultT,
    k: int = 6,
    *,
    which: Literal["LM", "SM"] = "LM",
    return_singular_vectors: Literal["u", "vh"],
    **options: Unpack[SvdsKeywords],
) -> tuple[ResultT | None, ResultT, ResultT | None]: ...
@public
def svds(
    A: Matrix | ResultT,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: Literal["LM", "SM"] = "LM",
    v0: AnyArray | None = None,
    maxiter: int | None = None,
    return_singular_vectors: bool | Literal["u", "vh"] = True,
    solver: Solver = "arpack",
    rng: object = None,
    options: dict[str, Any] | None = None,
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: OnDegenerate = "raise",
) -> ResultT | tuple[ResultT | None, ResultT, ResultT | None]:
    """Find the k largest or smallest singular values and vectors of a matrix, differentiably.

        A v_i = s_i u_i,    A^H u_i = s_i v_i,    U^H U = V^H V = I

    Parameters
    ----------
    A : array (*batch, m, n), SparseArray or Matrix
        The matrix, of rank k at least.
    k : int, default 6
        The number of singular values.
    ncv, tol : optional
        As in `eigsh`.
    which : {"LM", "SM"}, default "LM"
        The largest singular values, or the smallest (see Notes).
    v0 : array (min(m, n),), optional
        A start for the vectors of the shorter side, of one matrix; the default is always the same.
    maxiter : int, optional
        As in `eigsh`.
    return_singular_vectors : bool or {"u", "vh"}, default True
        With False, s alone is returned; with "u" or "vh" the other vectors are None.
    solver, rng, options : optional
        Accepted, as in SciPy: `method` decides, and the start is always the same.
    method, guard, on_degenerate : optional
        As in `eigsh`.

    Returns
    -------
    u : array (*batch, m, k)
        The left singular vectors.
    s : array (*batch, k)
        The singular values, ascending.
    vh : array (*batch, k, n)
        The right singular vectors, conjugate and transposed.

    Raises
    ------
    ValueError
        For a singular value that vanishes, whose vectors are not determined; for shapes, NaN and
        infinity.
    SingularMatrixError
        For a singular matrix that is factored, with which="SM".
    ConvergenceError, EngineError, NotDifferentiableError, TypeError
        As `eigsh`.

    Notes
    -----
    which="SM" computes all singular values of a matrix that is dense, or has m + n <= 1000. A larger
    sparse matrix must be square and regular: it is factored. Of a rectangular one
    `eigsh(A.H @ A, k, sigma=0)` finds s^2. The solvers "arpack", "lobpcg" and
    "propack" of SciPy name the same triplets. With solver="propack" v0 is a start for the left
    vectors, (m,), as in SciPy. As in SciPy, "lobpcg" for a block too wide for it gives a warning: a
    dense matrix takes its place.

    The triplets are the pairs of [[0, A], [A^H, 0]], whose eigenvalues are +-s: small s keep their
    digits. The engine "arpack" iterates with the smaller of A^H A and A A^H, and checks the
    residuals A v - s u and A^H u - s v. If rounding of s^2 makes them larger than 64 eps s_1, it
    starts again with [[0, A], [A^H, 0]]. In float64 that may happen for s below about 1e-5 s_1.

    Differentiable as the eigenpairs of `eigsh` are, in A.

    Cost: products with A and A^H; each direction of a derivative k deflated solves by MINRES, with
    products.

    References
    ----------
    Golub and Van Loan, section 8.6.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> u, s, vh = ldiv.svds(np.diag([3.0, 2.0, 1.0])[:, :2], 1)
    >>> s
    array([3.])
    """
    matrix = as_matrix("A", A)
    m, n = matrix.structure.shape
    vectors = _which_vectors(return_singular_vectors)
    require_option("which", which, ("LM", "SM"), "`which` must be in {'LM', 'SM'}.")
    if min(m, n) == 0:
        what = "a matrix with at least one row and one column"
        raise value_error(
            "A", what, f"{m} x {n}", "`A` must not be empty: it has no singular values."
        )
    k = require_int(
        "k",
        k,
        1,
        min(m, n),
        what=f"a number of singular values from 1 to {min(m, n)}",
        advice="`k` must be an integer satisfying `0 < k <= min(A.shape)`.",
    )
    solvers, advice = get_args(Solver), "solver must be one of these."
    if require_option("solver", solver, solvers, advice) == "lobpcg":
        _warn_of_width(min(m, n), k)
    # a few of a large square sparse matrix are found by its factor: they are nearest above 0, unless it
    # is singular, which the factor tells. LAPACK, which would not, finds all of the others.
    few = k + require_int("guard", guard, 0) < (m + n) // 4 and method != "lapack"
    is_large = m == n and m + n > INSIDE and matrix.structure.pattern is not None
    by_factor = which == "SM" and few and is_large
    if which == "SM" and method == "auto" and is_dense(matrix.structure):
        method = "lapack"  # at any size: no other engine finds them
    if which == "SM" and method == "auto" and few and not by_factor and m + n > INSIDE:
        raise _not_at_hand(m, n)
    # [[0, A], [A^H, 0]] has the eigenpairs +-s, (u, +-v) / sqrt(2): the largest are wanted.
    block = Block((matrix.structure, matrix.structure.H), ((0, 1), (1, 0)), (m, n), (m, n))
    whole = Matrix(block if by_factor else SelfAdjoint(block), (matrix.params, matrix.params))
    start = None if v0 is None else _start(matrix, v0, left=solver == "propack")
    sigma = 0.0 if by_factor else None
    task, args = build_problem(
        whole,
        None,
        EigenOptions(k, sigma, "LA", start, ncv, maxiter, tol, method, guard, on_degenerate),
    )
    if which == "SM" and not by_factor:
        # ascending there are min(m, n) negative ones, zeros, and the positive ones
        task = replace(task, which="index", first=max(m, n))
    s, x, *_ = bind(Eigenpairs(replace(task, positive=True)), *args)
    x = with_free_phase(s, x)
    u, vh = 2**0.5 * x[..., :m, :], 2**0.5 * conj(transpose(x[..., m:, :]))
    if not vectors:
        return s
    return u if "u" in vectors else None, s, vh if "vh" in vectors else None


def _not_at_hand(m: int, n: int) -> EngineError:
    what = f"a dense A, one of m + n <= {INSIDE}, or k much less than n of a square sparse one"
    gram = "A.H @ A" if m >= n else "A @ A.H"
    advice = (
        f"Of a sparse A ldiv.eigsh({gram}, k, sigma=0) finds s**2, with digits for s above 1e-8 of "
        "the largest; ldiv.svds(A.toarray(), k, which='SM') finds all digits of s."
    )
    return EngineError(expected_got("which", f"'LM', or 'SM' with {what}", f"{m} x {n}", advice))


def _which_vectors(wanted: Any) -> tuple[str, ...]:
    """Return the names, "u" and "vh", of the vectors to return."""
    if isinstance(wanted, str) and wanted in ("u", "vh"):
        return (wanted,)
    try:
        return ("u", "vh") if require_flag("return_singular_vectors", wanted) else ()
    except TypeError:
        what = "True, False, 'u' or 'vh'"
        advice = f"`return_singular_vectors` must be in {{{what}}}."
        problem = expected_got("return_singular_vectors", what, shown(wanted), advice)
    raise NotNumbersError(problem)


def _warn_of_width(n: int, k: int) -> None:
    """SciPy's warning, where it would take a dense matrix in place of LOBPCG."""
    if n < 5 * k:
        warnings.warn(
            f"The problem size {n} is too small for a block of {k} vectors, "
            "and LOBPCG would not converge: another method finds the singular triplets.",
            stacklevel=2,
        )


def _start(matrix: Matrix, v0: Any, left: bool) -> Array:
    """(v0, A^H v0) or (A v0, v0): a start for both sides from one for the left or for the shorter."""
    m, n = matrix.structure.shape
    left = left or m < n
    size = m if left else n
    if isinstance(v0, str | int | float | complex):
        advice = "`v0` must be of floating or complex floating data type."
        raise NotNumbersError(expected_got("v0", f"an array ({size},)", shown(v0), advice))
    v0 = as_float("v0", v0, *leaves(matrix.params))
    if tuple(v0.shape) != (size,):
        came = str(tuple(v0.shape))
        side = "left side with solver='propack'" if m > n and left else "shorter side"
        advice = f"`v0` must have shape ({size},): it belongs to the {side}."
        raise value_error("v0", f"shape ({size},)", came, advice)
    if matrix.batch:
        raise value_error(
            "v0", "one matrix", "a batch", "Leave it out: the start of each is the same one."
        )
    return namespace(v0).concat([v0, matrix.H @ v0] if left else [matrix @ v0, v0])
