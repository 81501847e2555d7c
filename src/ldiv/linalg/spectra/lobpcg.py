"""LOBPCG under SciPy's name and PyTorch's keywords: a function that validates and calls the rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ldiv.core.arrays.shapes import astype, beside, is_complex, numpy_dtype, real
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import as_block, require_flag, require_int
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure
from ldiv.errors import type_error, value_error
from ldiv.linalg.arguments import preconditioner
from ldiv.linalg.arguments.alternatives import only_one
from ldiv.linalg.arguments.eigen_problem import (
    EigenOptions,
    OnDegenerate,
    Which,
    build_problem,
    hermitian,
)
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.eigenpairs import Eigenpairs


@public
def lobpcg(
    A: MatrixLike,
    X: ArrayT | None = None,
    B: MatrixLike | None = None,
    M: preconditioner.PreconditionerLike | None = None,
    Y: ArrayT | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool | None = True,
    verbosityLevel: int = 0,
    restartControl: int = 20,
    *,
    k: int | None = None,
    iK: preconditioner.PreconditionerLike | None = None,
    niter: int | None = None,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT]:
    """Find the largest or smallest eigenpairs by products with blocks, differentiably.

        A x_i = lam_i B x_i,    X^H B X = I,    Y^H B X = 0

    Parameters
    ----------
    A : array (n, n), SparseArray or Matrix
        Hermitian.
    X : array (n, k), optional
        The block to start from; k pairs are found. A complex X makes complex matrices of A and B.
    B : array (n, n), SparseArray or Matrix, optional
        Hermitian positive definite; by default the identity.
    M : str, Matrix or factorization, optional
        A preconditioner, Hermitian positive definite, near A^-1 or the inverse of A - sigma B:
        "jacobi", "block_jacobi", "amg", the result of `factorized` for a nearby matrix, or of
        `preconditioner`, or any Matrix.
    Y : array (n, c), optional
        Constraints: X stays B-orthogonal to these vectors.
    tol : float, optional
        Stop if every |A x - lam B x| |x| is at most tol times the largest |lam| of the block; by
        default eps^(2/3).
    maxiter : int, optional
        The largest number of steps, by default 500 (SciPy's 20 would rarely be enough).
    largest : bool, default True
        The largest eigenvalues, or the smallest.
    verbosityLevel, restartControl : int
        Accepted, as in SciPy: nothing is printed, and restarts are ldiv's own.
    k, iK, niter : optional
        PyTorch's names: the number of pairs if there is no X, M, and maxiter.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        As in `eigsh`.

    Returns
    -------
    w : array (k,)
        The eigenvalues, the largest first, or with largest=False the smallest.
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
        For dtypes, mixed frameworks, and for a complex X or Y of real A and B.

    Notes
    -----
    Dtypes are float32, float64, complex64 and complex128. Without X the start is always the same.

    A residual below the rounding of A is not required once steps no longer help, so that an eigenvalue
    0 is found.

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
    name, M = "M" if iK is None else "iK", only_one("M", M, "iK", iK)
    if niter is not None:
        require_int("niter", niter, 1)
    maxiter = only_one("maxiter", maxiter, "niter", niter)
    A, B = as_matrix("A", of_function(A, X), X, B), of_function(B, X)
    B = None if B is None else as_matrix("B", B, A)
    structure, params = hermitian("A", A)
    n = structure.shape[0]
    start: Any = X
    if X is None:
        size = require_int("k", k, 1, n, advice="Without X it says how many pairs are found.")
        start = start_block(n, size, leaves(params)[0])
    block, vector = as_block("X", start, n, leaves(params)[0])
    if k is not None:
        columns = block.shape[-1]
        require_int("k", k, columns, columns, advice="X has as many columns.")
    if vector or block.ndim != 2:
        what, advice = f"a block ({n}, k)", "Batches are mapped over with vmap."
        raise value_error("X", what, tuple(block.shape[: block.ndim - vector]), advice)
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
    if is_complex(block) and task.A.on_host and task.B.on_host:
        pA, pB = (as_complex(p) for p in (pA, pB))
    task = replace(task, start=True)
    pM: Tree = ()
    if M is not None:
        structure, pM = preconditioner.given(of_function(M, block), task.A, pA, name)
        preconditioner.require_hermitian(structure, "lobpcg", name)
        task = replace(task, M=structure)
    constraints: Tree = ()
    if Y is not None:
        constraints, _ = as_block("Y", Y, n, leaves(params)[0])
        if constraints.shape[1] + task.k > n:
            raise value_error(
                "Y",
                f"at most {n - task.k} columns",
                constraints.shape[1],
                "Nothing would be left for X.",
            )
        task = replace(task, constraints=constraints.shape[1])
    for name, given in (("X", block), ("Y", constraints)):
        if any(map(is_complex, leaves(given))) and not any(map(is_complex, leaves((pA, pB)))):
            raise type_error(
                name,
                "real numbers, as those of A and B",
                "complex ones",
                "The eigenvectors are real.",
            )
    w, X, *_ = bind(Eigenpairs(task), pA, pB, (pM, block, constraints, ()))
    X = with_free_phase(w, X)
    return (namespace(w).flip(w, axis=-1), namespace(X).flip(X, axis=-1)) if largest else (w, X)


def of_function(f: Any, X: Any) -> Any:
    """A function of blocks of NumPy arrays as SciPy's LinearOperator; anything else as it is."""
    if (
        isinstance(f, Matrix | LinearOperator | Structure | type)
        or is_array(f)
        or hasattr(f, "shape")
        or not callable(f)
    ):
        return f
    if hasattr(f, "inverse") or not isinstance(X, np.ndarray) or X.ndim != 2:
        return f
    n = X.shape[0]
    return LinearOperator((n, n), matvec=f, matmat=f, rmatvec=f, rmatmat=f, dtype=X.dtype)


def start_block(n: int, k: int, like: Array) -> Array:
    """k columns of numbers that are always the same."""
    columns = np.random.default_rng(n).standard_normal((n, k))
    return namespace(like).asarray(columns.astype(numpy_dtype(real(like[..., :0]))), **beside(like))


def as_complex(p: Tree) -> Tree:
    """Parameters as complex numbers."""
    return rebuild(p, [astype(x, np.result_type(numpy_dtype(x), np.complex64)) for x in leaves(p)])
