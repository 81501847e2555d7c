"""Eigenpairs under SciPy's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Unpack, overload

from ldiv.core.arrays import is_complex, real
from ldiv.core.dispatch import is_array, namespace, traced
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array, Tree, leaves
from ldiv.core.typing import AnyArray, ArrayT, ResultT
from ldiv.core.validate import as_block, as_float, require_flag, require_int, require_square
from ldiv.errors import expected_got, shown
from ldiv.linalg import preconditioner
from ldiv.linalg.eigen_info import AdjointResiduals, EigenInfo, eigen_info
from ldiv.linalg.eigen_problem import (
    EigenKeywords,
    EigenOptions,
    OnDegenerate,
    Which,
    build_problem,
    hermitian,
)
from ldiv.linalg.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.structures.dense import Dense


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
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: OnDegenerate = "raise",
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
    **options: Unpack[EigenKeywords],
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
    **options: Unpack[EigenKeywords],
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
    **options: Unpack[EigenKeywords],
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
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: OnDegenerate = "raise",
    info: bool = False,
) -> ResultT | tuple[ResultT | EigenInfo, ...]:
    """Find k eigenvalues and eigenvectors of a Hermitian matrix or pencil, differentiably.

        A x_i = lam_i M x_i,    X^H M X = I

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Hermitian. Both triangles are read, and must agree up to rounding.
    k : int, default 6
        The number of pairs.
    M : array (*batch, n, n), SparseArray or Matrix, optional
        Hermitian positive definite, read as A is; by default the identity.
    sigma : float, optional
        Find the k eigenvalues nearest to sigma, by the factor of A - sigma M.
    which : {"LM", "SM", "LA", "SA", "BE"}, default "LM"
        Which end of the spectrum: of lam, or with a sigma of 1 / (lam - sigma), as in SciPy.
    v0 : array (n,), optional
        The starting vector, as in SciPy; the default is always the same one.
    ncv, maxiter, tol : optional
        As in SciPy.
    return_eigenvectors : bool, default True
        With False, X is left out.
    method : str, default "auto"
        "auto", "lapack" (small or dense), "arpack" or "lobpcg".
    guard : int, default 2
        The number of pairs computed beyond the k, at least one, which serve the derivative.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        Where a derivative is not defined, at a repeated eigenvalue: raise NotDifferentiableError,
        warn and leave the undefined part out, or leave it out without a word.
    info : bool, default False
        With True, an `EigenInfo` is returned too, last.

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
        For pairs that do not converge, or deflated systems of the derivative.
    NotSymmetricError, NotPositiveDefiniteError
        For an A or M that is not Hermitian, and an M that is not positive definite.
    SingularMatrixError
        For a sigma that is an eigenvalue.
    EngineError
        Where no engine finds these pairs, or not the one that is named.
    NotDifferentiableError
        See `on_degenerate`.
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128, and for mixed frameworks.

    See Also
    --------
    eigenspace, spectral_function, spectral_sum : smooth where eigenvalues meet.

    Notes
    -----
    Differentiable in A and M in every mode and order, though not twice by forward mode inside a
    cluster. Inside a repeated eigenvalue a loss must depend neither on the basis nor on single
    eigenvalues. Cotangents are on the patterns of A and M.
    Cost: 1 factorization forward (with sigma, or for M), none after it. In reverse eigenvalues
    alone take no solve, eigenvectors one deflated solve each, in one block, by the factor of the
    forward where there is one.

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
    task, args = build_problem(
        A,
        M,
        EigenOptions(
            k, sigma, which, v0, ncv, maxiter, tol, method, guard, on_degenerate, observers
        ),
    )
    w, X, guard_values, _, error_bound = bind(Eigenpairs(task), *args)
    found = (w, with_free_phase(w, X)) if return_eigenvectors else (w,)
    if residuals is not None:
        if traced(w):  # the quality is numbers, which a trace does not have
            raise TypeError(
                expected_got(
                    "info=True",
                    "values that are known now",
                    "a trace (jit, vmap)",
                    "Ask for info outside of the transformation.",
                )
            )
        found = (*found, eigen_info(w, guard_values, error_bound, residuals))
    return found if len(found) > 1 else w


@public
def eigh(
    A: ArrayT,
    B: ArrayT | None = None,
    subset_by_index: tuple[int, int] | list[int] | None = None,
    *,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT]:
    """Find the eigenvalues and eigenvectors of a dense Hermitian matrix or pencil, differentiably.

        A x_i = lam_i B x_i,    X^H B X = I

    Parameters
    ----------
    A : array (*batch, n, n)
        Hermitian. Both triangles are read, and must agree up to rounding.
    B : array (*batch, n, n), optional
        Hermitian positive definite, read as A is; by default the identity.
    subset_by_index : pair of int (first, last), optional
        Which pairs, both ends included, in ascending order of eigenvalues from 0 on; by default
        all n.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        As in `eigsh`.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.
    X : array (*batch, n, k)
        The eigenvectors, B-orthonormal.

    Raises
    ------
    NotSymmetricError, NotPositiveDefiniteError
        For an A or B that is not Hermitian, and a B that is not positive definite.
    NotDifferentiableError
        See `on_degenerate`.
    ValueError
        For shapes that do not fit, indices out of range, NaN and infinity.
    TypeError
        For a matrix that is not dense, for dtypes as in `eigsh`, and for mixed frameworks.

    Notes
    -----
    Differentiable as `eigsh`, in A and B.
    Cost: the full decomposition, 9 n^3 operations; a derivative takes a few products of that size,
    and solves nothing.

    References
    ----------
    Golub and Van Loan, chapter 8.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> w, X = ldiv.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w
    array([1., 3.])
    """
    if B is None and subset_by_index is None and is_array(A) and 0 in as_float("A", A).shape:
        return _of_nothing(A)
    n = hermitian("A", A, B)[0].shape[0]
    if n == 0:
        raise ValueError(
            expected_got(
                "A", "a matrix with at least one row", "0 x 0", "It has no pairs to choose from."
            )
        )
    subset = (0, n - 1) if subset_by_index is None else subset_by_index
    what, advice = f"(first, last) with 0 <= first <= last < {n}", "Both ends are included."
    if not isinstance(subset, tuple | list) or len(subset) != 2:
        raise ValueError(expected_got("subset_by_index", what, shown(subset_by_index), advice))
    first, last = (
        require_int("subset_by_index", i, 0, n - 1, what=what, advice=advice) for i in subset
    )
    if first > last:
        raise ValueError(expected_got("subset_by_index", what, str(subset_by_index), advice))
    for name, a in (("A", A), ("B", B)):
        if a is not None and not isinstance(as_matrix(name, a).structure.unview()[0], Dense):
            raise TypeError(
                expected_got(
                    name,
                    "a dense array",
                    type(a).__name__,
                    "Use ldiv.eigsh, which knows the structure.",
                )
            )
    task, args = build_problem(
        A, B, EigenOptions(last - first + 1, method="lapack", on_degenerate=on_degenerate), "B"
    )
    w, X, *_ = bind(Eigenpairs(replace(task, which="index", first=first)), *args)
    return w, with_free_phase(w, X)


@public
def lobpcg(
    A: MatrixLike,
    X: ArrayT,
    B: MatrixLike | None = None,
    M: preconditioner.PreconditionerLike | None = None,
    Y: ArrayT | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    *,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT]:
    """Find the largest or smallest eigenpairs by products with blocks, differentiably.

        A x_i = lam_i B x_i,    X^H B X = I,    Y^H B X = 0

    Parameters
    ----------
    A : array (n, n), SparseArray or Matrix
        Hermitian.
    X : array (n, k)
        The block to start from; k pairs are found.
    B : array (n, n), SparseArray or Matrix, optional
        Hermitian positive definite; by default the identity.
    M : str, Matrix or factorization, optional
        A preconditioner, Hermitian positive definite, near A^-1 or the inverse of A - sigma B:
        "jacobi", "amg", what `factorized` returns for a nearby matrix, `preconditioner(...)`, or
        any Matrix.
    Y : array (n, c), optional
        Constraints: vectors to which X stays B-orthogonal.
    tol : float, optional
        Stop where every |A x - lam B x| |x| is at most tol times the largest |lam| of the block;
        by default eps^(2/3).
    maxiter : int, optional
        The largest number of steps, by default 500 (SciPy's 20 would rarely be enough).
    largest : bool, default True
        The largest eigenvalues, or the smallest.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        As in `eigsh`.

    Returns
    -------
    w : array (k,)
        The eigenvalues, ascending.
    X : array (n, k)
        The eigenvectors, B-orthonormal.

    Raises
    ------
    ConvergenceError
        For pairs that do not converge, or deflated systems of the derivative.
    NotSymmetricError, NotPositiveDefiniteError, EngineError, NotDifferentiableError
        As `eigsh`.
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128, for mixed frameworks,
        and for a complex X or Y where A and B are real.

    Notes
    -----
    Differentiable in A and B as `eigsh`; M, X and Y are constants. With Y not differentiable in B,
    and in A as the problem in the complement of Y.
    Cost: no factorization; each step 1 product with A, B and M for k columns. The adjoint is one
    block of deflated MINRES, with M.

    References
    ----------
    Knyazev, SIAM J. Sci. Comput. 23 (2001).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.arange(1.0, 301.0)], offsets=[0])
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> w, X = ldiv.lobpcg(A, X, M="jacobi", largest=False)
    >>> w.round(6)
    array([1., 2.])
    """
    structure, params = hermitian("A", A, X, B)
    n = structure.shape[0]
    block, vector = as_block("X", X, n, leaves(params)[0])
    if vector or block.ndim != 2:
        raise ValueError(
            expected_got(
                "X", f"a block ({n}, k)", str(tuple(X.shape)), "Batches are mapped over with vmap."
            )
        )
    end: Which = "LA" if require_flag("largest", largest) else "SA"
    options = EigenOptions(
        block.shape[1],
        which=end,
        maxiter=maxiter,
        tol=0 if tol is None else tol,
        method="lobpcg",
        on_degenerate=on_degenerate,
    )
    task, (pA, pB, _) = build_problem(A, B, options, "B")
    task = replace(task, start=True)
    pM: Tree = ()
    if M is not None:
        structure, pM = preconditioner.given(M, task.A, pA)
        task = replace(task, M=structure)
    constraints: Tree = ()
    if Y is not None:
        constraints, _ = as_block("Y", Y, n, leaves(params)[0])
        if constraints.shape[1] + task.k > n:
            raise ValueError(
                expected_got(
                    "Y",
                    f"at most {n - task.k} columns",
                    str(constraints.shape[1]),
                    "Nothing would be left for X.",
                )
            )
        task = replace(task, constraints=constraints.shape[1])
    for name, given in (("X", block), ("Y", constraints)):
        if any(map(is_complex, leaves(given))) and not any(map(is_complex, leaves((pA, pB)))):
            raise TypeError(
                expected_got(
                    name,
                    "real numbers, as those of A and B",
                    "complex ones",
                    "The eigenvectors are real.",
                )
            )
    w, X, *_ = bind(Eigenpairs(task), pA, pB, (pM, block, constraints))
    return w, with_free_phase(w, X)


def _of_nothing(A: Array) -> tuple[Array, Array]:
    """The pairs of a matrix without rows, or of a batch without matrices: none."""
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    return real(namespace(A).sum(A, axis=-1)), A + 0
