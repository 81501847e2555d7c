"""Eigenpairs under SciPy's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ldiv.core.arrays import is_complex, real
from ldiv.core.dispatch import is_array, namespace, traced
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array, Tree, leaves
from ldiv.core.validate import as_block, require_flag, require_float, require_int, require_square
from ldiv.errors import expected_got, shown
from ldiv.linalg import preconditioner
from ldiv.linalg.eigen_info import AdjointResiduals, eigen_info
from ldiv.linalg.eigen_problem import EigenOptions, build_problem, hermitian
from ldiv.linalg.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.structures.dense import Dense


@public
def eigsh(
    A: Any,
    k: int = 6,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: Array | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: str = "raise",
    info: bool = False,
) -> Any:
    """Find k eigenvalues and eigenvectors of a Hermitian matrix or pencil, differentiably.

        A x_i = lam_i M x_i,    X^H M X = I

    A: Hermitian, M: Hermitian positive definite; arrays (*batch, n, n), SparseArrays, or operators;
    both triangles are read, and must agree up to rounding. Returns w (*batch, k), ascending, and X
    (*batch, n, k), M-orthonormal; with return_eigenvectors=False w alone; with info=True also an
    `EigenInfo`.
    sigma: the k eigenvalues nearest to sigma, by the factor of A - sigma M; which: "LM", "SM",
    "LA", "SA" or "BE", of the eigenvalues, or with a sigma of 1 / (lam - sigma), as in SciPy. v0,
    ncv, maxiter, tol as in SciPy; the start is always the same one. method: "auto", "lapack" (small
    or dense), "arpack" or "lobpcg". guard: pairs computed beyond the k, one at least, which serve
    the derivative.
    dtypes: float32, float64, complex64, complex128.
    Differentiable in A and M in every mode and order. Inside a repeated eigenvalue a loss must not
    depend on the basis, nor on single
    eigenvalues: on_degenerate="raise" refuses it with NotDifferentiableError, "warn" warns, and as
    "drop" leaves the undefined part out.
    Cost: 1 factorization forward (with sigma, or for M), none after it. Reverse: eigenvalues alone
    take no solve; eigenvectors one deflated solve each, in one block, by the factor of the forward
    where there is one. Cotangents are on the patterns of A and M.
    Raises ConvergenceError, NotSymmetricError, NotPositiveDefiniteError, SingularMatrixError (sigma
    is an eigenvalue), EngineError, NotDifferentiableError; ValueError for shapes, NaN and infinity.
    Not twice differentiable by forward mode inside a cluster.
    Source: Magnus (1985); Nelson (1976); Lehoucq, Sorensen and Yang (1998).

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
        if traced(w):
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
    A: Any,
    B: Any = None,
    subset_by_index: tuple[int, int] | None = None,
    *,
    on_degenerate: str = "raise",
) -> tuple[Array, Array]:
    """Find the eigenvalues and eigenvectors of a dense Hermitian matrix or pencil, differentiably.

        A x_i = lam_i B x_i,    X^H B X = I

    A, B: arrays (*batch, n, n), B positive definite; both triangles are read, and must agree up to
    rounding. Returns w (*batch, k), ascending, and X (*batch, n, k): all pairs, or those from
    subset_by_index[0] to subset_by_index[1], both included.
    dtypes, derivatives, on_degenerate, errors as in `eigsh`. Cost: the full decomposition, 9 n^3
    operations; a derivative takes a few products of that size, and solves nothing.
    Source: Golub and Van Loan, chapter 8.

    >>> import ldiv, numpy as np
    >>> w, X = ldiv.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w
    array([1., 3.])
    """
    if B is None and subset_by_index is None and is_array(A) and 0 in require_float("A", A).shape:
        return _of_nothing(A)
    n = hermitian("A", A)[0].shape[0]
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
    A: Any,
    X: Array,
    B: Any = None,
    M: Any = None,
    Y: Array | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    *,
    on_degenerate: str = "raise",
) -> tuple[Array, Array]:
    """Find the k largest or smallest eigenpairs without a factorization, from products with blocks,
    differentiably.

        A x_i = lam_i B x_i,    X^H B X = I,    Y^H B X = 0

    A: Hermitian, B: Hermitian positive definite; arrays, SparseArrays, LinearOperators. X (n, k):
    where to start. M: a matrix near A^-1 (or near the inverse of A - sigma B) to precondition with,
    Hermitian positive definite: "jacobi", "amg", a factorization of a nearby matrix,
    `preconditioner(...)`, or any Matrix. Y (n, c): vectors that X stays B-orthogonal to. Returns w
    (k,), ascending, and X. Stops where every |A x - lam B x| |x| is at most tol times the largest
    |lam| of the block (eps^(2/3) by default); maxiter steps at most (SciPy's 20 would rarely do:
    500).
    dtypes, derivatives, on_degenerate as in `eigsh`, M, X and Y are constants; the adjoint is one
    block of deflated MINRES, with M. With Y, not differentiable in B, and in A as the problem in
    the complement of Y.
    Cost: per step one product with A, B and M for k columns. Raises ConvergenceError, forward and
    adjoint.
    Source: Knyazev, SIAM J. Sci. Comput. 23 (2001).

    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.arange(1.0, 301.0)], offsets=[0])
    >>> w, X = ldiv.lobpcg(A, np.random.default_rng(0).standard_normal((300, 2)), largest=False, M="jacobi")
    >>> w.round(6)
    array([1., 2.])
    """
    structure, params = hermitian("A", A)
    n = structure.shape[0]
    block, vector = as_block("X", X, n, leaves(params)[0])
    if vector or block.ndim != 2:
        raise ValueError(
            expected_got(
                "X", f"a block ({n}, k)", str(tuple(X.shape)), "Batches are mapped over with vmap."
            )
        )
    end, tol = "LA" if require_flag("largest", largest) else "SA", 0 if tol is None else tol
    options = EigenOptions(
        block.shape[1],
        which=end,
        maxiter=maxiter,
        tol=tol,
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
    """The pairs of a matrix without rows, or of no matrix."""
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    return real(namespace(A).sum(A, axis=-1)), A + 0
