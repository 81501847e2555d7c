"""A few eigenpairs of any matrix or pencil, under SciPy's name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Unpack, get_args, overload

from ldiv.core.arrays.shapes import alike, transpose
from ldiv.core.arrays.typing import AnyArray, ResultT
from ldiv.core.arrays.validate import require_flag, require_option, require_square
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace, traced
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.rule import bind
from ldiv.engines.accuracy.scaling import norm
from ldiv.errors import value_error
from ldiv.linalg.arguments.alternatives import not_in_a_trace
from ldiv.linalg.arguments.eigen_problem import (
    OTHER_END,
    EigenOptions,
    EigshKeywords,
    Mode,
    OnDegenerate,
    Which,
    build_problem,
    cayley,
    required_shift,
)
from ldiv.linalg.spectra.eigen_info import AdjointResiduals, EigenInfo, eigen_info
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.rules.lu import rows
from ldiv.structures.diagonal import Diagonal


@overload
def eigsh(
    A: Matrix | ResultT,
    k: int = 6,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    v0: AnyArray | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: Literal[True] = True,
    Minv: object = None,
    OPinv: object = None,
    mode: Mode = "normal",
    *,
    rng: object = None,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: OnDegenerate = "raise",
    check: bool = False,
    info: Literal[False] = False,
) -> tuple[ResultT, ResultT]: ...
@overload
def eigsh(
    A: Matrix | ResultT,
    k: int = 6,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    *,
    return_eigenvectors: Literal[False],
    info: Literal[False] = False,
    **options: Unpack[EigshKeywords],
) -> ResultT: ...
@overload
def eigsh(
    A: Matrix | ResultT,
    k: int = 6,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    *,
    return_eigenvectors: Literal[True] = True,
    info: Literal[True],
    **options: Unpack[EigshKeywords],
) -> tuple[ResultT, ResultT, EigenInfo]: ...
@overload
def eigsh(
    A: Matrix | ResultT,
    k: int = 6,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    *,
    return_eigenvectors: Literal[False],
    info: Literal[True],
    **options: Unpack[EigshKeywords],
) -> tuple[ResultT, EigenInfo]: ...
@public
def eigsh(
    A: Matrix | ResultT,
    k: int = 6,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    v0: AnyArray | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    Minv: object = None,
    OPinv: object = None,
    mode: Mode = "normal",
    *,
    rng: object = None,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: OnDegenerate = "raise",
    check: bool = False,
    info: bool = False,
) -> ResultT | tuple[ResultT | EigenInfo, ...]:
    """Find k eigenvalues and eigenvectors of a Hermitian matrix or pencil, differentiably.

        A x_i = lam_i M x_i,    X^H M X = I

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Hermitian: both triangles are read, and must agree up to rounding.
    k : int, default 6
        The number of pairs.
    M : array (*batch, n, n), SparseArray or Matrix, optional
        Hermitian positive definite; by default the identity. With a sigma it may be semidefinite, of
        rank k + guard + 2 or more, outside of method="lapack" and where `jit` traces it.
    sigma : float, optional
        Find the k eigenvalues nearest to sigma, by the factor of A - sigma M.
    which : {"LM", "SM", "LA", "SA", "BE"}, default "LM"
        The end of the spectrum: of lam, or with a sigma of 1 / (lam - sigma), as in SciPy.
    v0, ncv, maxiter, tol : optional
        As in SciPy; the default start is always the same.
    return_eigenvectors : bool, default True
        With False, X is left out.
    Minv, OPinv : optional
        Accepted, as in SciPy: the inverses are ldiv's own.
    mode : {"normal", "buckling", "cayley"}, default "normal"
        The spectral transformation for `which`, with sigma (see Notes).
    rng : optional
        Accepted, as in SciPy, without effect.
    method : {"auto", "lapack", "arpack", "lobpcg"}, default "auto"
        The engine; "lapack" is for small or dense matrices.
    guard : int, default 2
        The number of further pairs, at least one, that serve the derivative.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        At a repeated eigenvalue, where a derivative is not defined: raise NotDifferentiableError,
        warn and leave the undefined part out, or leave it out without a warning.
    check, info : bool, default False
        With sigma, count eigenvalues, to be certain that none nearer to sigma was skipped; return
        an `EigenInfo`, too, last.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.
    X : array (*batch, n, k)
        The eigenvectors, M-orthonormal.
    info : EigenInfo
        The quality of the pairs, and of a derivative through them.

    Raises
    ------
    ConvergenceError
        For pairs, or systems of the derivative, that do not converge, and for a skipped eigenvalue.
    NotSymmetricError, NotPositiveDefiniteError
        For an A or M that is not Hermitian, and an M that is not positive definite.
    SingularMatrixError
        For a sigma that is an eigenvalue; with `check`, for counts that are not certain.
    EngineError
        If no engine finds these pairs, or the named one does not.
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    eigenspace, spectral_function, spectral_sum : smooth where eigenvalues meet.

    Notes
    -----
    Differentiable in A and M in every mode and order, though not twice by forward mode inside a
    cluster. Inside a repeated eigenvalue a loss must depend neither on the basis nor on single
    eigenvalues. Cotangents are on the patterns of A and M.

    With sigma, `mode` says what `which` orders: 1 / (lam - sigma), lam / (lam - sigma) for
    "buckling", or (lam + sigma) / (lam - sigma) for "cayley". With "buckling" A is positive definite,
    M need not be, and X^H A X = I.

    A Lanczos method may skip an eigenvalue, most of all one that is repeated; "lapack" skips none.
    With sigma, `check=True` counts eigenvalues by the inertia of A - s M at both ends of an interval
    from sigma to a gap beyond the k-th. If one is missing, it searches once more, and then raises. If
    the k-th cannot be distinguished from the next one, the nearer ones are counted. Counts that a
    factor gives at no cost are in `info`, and are compared without `check`, too.

    Cost: 1 factorization forward (with sigma, or for M), none after it; `check` takes 2 more. In
    reverse eigenvalues alone take no solve, eigenvectors one deflated solve each, in one block, by
    the factor of the forward pass if there is one.

    References
    ----------
    Magnus (1985); Nelson (1976); Lehoucq, Sorensen and Yang (1998).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([-np.ones(9), 2 * np.ones(10), -np.ones(9)], offsets=[-1, 0, 1])
    >>> w, X = ldiv.eigsh(A, 2, sigma=0)
    >>> w.round(6)
    array([0.081014, 0.317493])
    >>> bool(np.allclose(A @ X, X * w))
    True
    """
    return_eigenvectors = require_flag("return_eigenvectors", return_eigenvectors)
    residuals = AdjointResiduals() if require_flag("info", info) else None
    observers = () if residuals is None else (residuals,)
    options = EigenOptions(
        k,
        sigma,
        which,
        v0,
        ncv,
        maxiter,
        tol,
        method,
        guard,
        on_degenerate,
        observers,
        check=require_flag("check", check),
        on_count=None if residuals is None else residuals.count,
    )
    if require_option("mode", mode, get_args(Mode)) == "buckling":
        if options.check:
            raise value_error("check", "False with mode='buckling'", "True", "Use mode='normal'.")
        if info:
            what, advice = "False with mode='buckling'", "It is of the pencil (M, A)."
            raise value_error("info", what, "True", advice)
        w, X = buckling(A, M, options)
        return (w, X) if return_eigenvectors else w
    task, args = build_problem(A, M, cayley(options) if mode == "cayley" else options)
    w, X, guard_values, _, error_bound, _ = bind(Eigenpairs(task), *args)
    found = (w, with_free_phase(w, X)) if return_eigenvectors else (w,)
    if residuals is not None:
        if traced(w):
            raise not_in_a_trace()
        sizes = task.space.norms(norm(X, axis=-2))
        found = (*found, eigen_info(w, guard_values, error_bound, sizes**2, residuals))
    return found if len(found) > 1 else w


def buckling(A: MatrixLike, M: MatrixLike | None, options: EigenOptions) -> tuple[Any, Any]:
    """The pairs of A x = lam M x by those of M x = mu A x, mu = 1 / lam, near 1 / sigma.

    1 / (mu - 1 / sigma) = -sigma lam / (lam - sigma): what is largest here is so there.
    """
    matrix = as_matrix("A", A, M)
    require_square("A", matrix.structure.shape)
    if M is None:
        n, like = matrix.structure.shape[0], leaves(matrix.params)[0]
        M = Matrix(Diagonal(n), namespace(like).ones(n, **alike(like)))
    shift = required_shift(options, "buckling")
    end = options.which if shift < 0 else OTHER_END.get(options.which, options.which)
    task, args = build_problem(M, matrix, replace(options, sigma=1 / shift, which=end))
    mu, X, *_ = bind(Eigenpairs(task), *args)
    lam, X, xp = 1 / mu, with_free_phase(mu, X), namespace(mu)
    up = xp.argsort(lam, axis=-1, stable=True)
    return rows(lam[..., None], up)[..., 0], transpose(rows(transpose(X), up))
