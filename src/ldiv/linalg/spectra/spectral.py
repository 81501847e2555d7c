"""An invariant subspace, and functions of the matrix on it: smooth where eigenpairs are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack, overload

from ldiv.core.arrays.shapes import real
from ldiv.core.arrays.typing import AnyArray, ArrayT, ResultT
from ldiv.core.arrays.validate import require_callable
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, is_array, namespace
from ldiv.core.rules.rule import bind
from ldiv.engines.eigen.lapack import hermitian
from ldiv.errors import NotSymmetricError, type_error
from ldiv.linalg.arguments.eigen_problem import EigenKeywords, EigenOptions, Which, build_problem
from ldiv.linalg.spectra.eigenvector_phase import regauged_space
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.assertion import checked
from ldiv.rules.matrix_function import matrix_function
from ldiv.rules.subspace import Subspace
from ldiv.structures.composed import is_dense
from ldiv.structures.dense import Dense
from ldiv.structures.product import Product
from ldiv.structures.symmetric import Symmetric


@public
def eigenspace(
    A: Matrix | ResultT,
    k: int,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    **options: Unpack[EigenKeywords],
) -> tuple[ResultT, ResultT]:
    """Find an invariant subspace of a Hermitian matrix or pencil, differentiably.

        A X = M X H,    X^H M X = I,    H = X^H A X

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        As in `eigsh`.
    k : int
        The dimension of the subspace.
    M, sigma, which : optional
        As in `eigsh`.
    **options :
        v0, ncv, maxiter, tol, method, guard and on_degenerate, as in `eigsh`.

    Returns
    -------
    X : array (*batch, n, k)
        An M-orthonormal basis, which is arbitrary.
    H : array (*batch, k, k)
        A in this basis, Hermitian.

    Raises
    ------
    NotDifferentiableError
        From the derivative, for a loss that depends on the basis, and for a subspace that cuts
        through a repeated eigenvalue; forward mode checks the cut alone.
    ConvergenceError, NotSymmetricError, NotPositiveDefiniteError, SingularMatrixError, EngineError
        As `eigsh`.
    ValueError, TypeError
        As `eigsh`.

    Notes
    -----
    Losses of X X^H, of X f(H) X^H and of the spectrum of H are differentiable in A and M in every
    mode and order. This holds also where eigenvalues inside the subspace meet, as long as those
    outside keep a distance.
    Cost: as `eigsh`.

    References
    ----------
    Stewart and Sun, Matrix Perturbation Theory, chapter V.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> X, H = ldiv.eigenspace(np.diag([1.0, 1.0, 2.0, 5.0]), 2, which="SA")
    >>> (X @ X.T).round(12)
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.],
           [0., 0., 0., 0.]])
    """
    task, args = build_problem(A, M, EigenOptions(k, sigma, which, **_known(options)))
    X, H, *_ = bind(Subspace(task), *args)
    return regauged_space(X, H)


@public
def spectral_function(
    f: Callable[[Any], Any],
    A: MatrixLike,
    k: int | None = None,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    **options: Unpack[EigenKeywords],
) -> Matrix:
    """Build the matrix of a function of k eigenvalues, to multiply with, differentiably.

        F = X f(Lam) X^H

    Parameters
    ----------
    f : callable
        Real to real, applied elementwise to an array (..., k) of eigenvalues of your framework;
        smooth between them. What it closes over must be constant: what is differentiated there
        raises.
    A : array (*batch, n, n), SparseArray or Matrix
        As in `eigenspace`.
    k : int, optional
        The number of eigenvalues; by default all of them.
    M, sigma, which : optional
        As in `eigenspace`.
    **options :
        v0, ncv, maxiter, tol, method, guard and on_degenerate, as in `eigsh`.

    Returns
    -------
    F : Matrix (n, n)
        A product of two factors, n x k and k x n; one dense matrix for all eigenvalues of a dense
        A without M. With f = 1 this is the density matrix.
        `F.toarray()` is the dense array, and `F[i, j]` an entry.

    Raises
    ------
    ValueError
        For an f whose values do not fit or are not finite, and as `eigenspace`.
    TypeError
        For an f that cannot be called, and as `eigenspace`.
    NotDifferentiableError, ConvergenceError, NotSymmetricError, NotPositiveDefiniteError
        As `eigenspace`.
    SingularMatrixError, EngineError
        As `eigenspace`.

    Notes
    -----
    Differentiable in A and M, to second order, by divided differences: exact where eigenvalues
    meet.
    Cost: as `eigenspace`; F @ Y takes 2 n k multiplications for each column of Y. All eigenvalues of
    a dense A take one `eigh`, and one more for the gradient.

    References
    ----------
    Daleckii and Krein (1965); Higham, Functions of Matrices, chapter 3.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> F = ldiv.spectral_function(np.exp, np.diag([0.0, 0.0, 3.0]), 2, which="SA")
    >>> (F @ np.ones(3)).round(12)
    array([1., 1., 0.])
    """
    X, fH = _function(f, A, k, M, sigma, which, options)
    if X is None:
        return as_matrix("F", fH)
    n, k = X.shape[-2:]
    # the product of X f(H) and X^H, never the n x n array
    return Matrix(Product((Dense(n, k), Dense(n, k).H)), (X @ fH, X))


@overload
def spectral_sum(
    f: Callable[[Any], Any],
    A: Matrix,
    k: int | None = None,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    **options: Unpack[EigenKeywords],
) -> Any: ...
@overload
def spectral_sum(
    f: Callable[[Any], Any],
    A: ArrayT,
    k: int | None = None,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    **options: Unpack[EigenKeywords],
) -> ArrayT: ...
@public
def spectral_sum(
    f: Callable[[Any], Any],
    A: MatrixLike,
    k: int | None = None,
    M: MatrixLike | None = None,
    sigma: float | None = None,
    which: Which = "LM",
    **options: Unpack[EigenKeywords],
) -> AnyArray:
    """Sum a function over k eigenvalues, differentiably.

        tr f = sum_i f(lam_i)

    Parameters
    ----------
    f : callable
        As in `spectral_function`.
    A : array (*batch, n, n), SparseArray or Matrix
        As in `eigenspace`.
    k : int, optional
        The number of eigenvalues; by default all of them.
    M, sigma, which : optional
        As in `eigenspace`.
    **options :
        v0, ncv, maxiter, tol, method, guard and on_degenerate, as in `eigsh`.

    Returns
    -------
    s : array (*batch,)
        The sum.

    Raises
    ------
    ValueError, TypeError, NotDifferentiableError, ConvergenceError, NotSymmetricError
        As `spectral_function`.
    NotPositiveDefiniteError, SingularMatrixError, EngineError
        As `spectral_function`.

    Notes
    -----
    Differentiable as `spectral_function`, also where eigenvalues meet.
    Cost: as `eigenspace`; reverse mode takes no deflated solve.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.diag([1.0, 2.0, 2.0, 9.0])
    >>> float(ldiv.spectral_sum(lambda lam: lam**2, A))
    90.0
    >>> float(ldiv.spectral_sum(lambda lam: lam**2, A, 3, which="SA"))
    9.0
    """

    def trace(A: Any, M: Any = M) -> Any:
        _, fH = _function(f, A, k, M, sigma, which, options)
        return real(namespace(fH).sum(namespace(fH).linalg.diagonal(fH), axis=-1))

    given: list[Any] = [A, M] if type(M) is type(A) else [A]
    return as_one_node(trace, *given) if is_array(A) else trace(A)


def _function(
    f: Callable[[Any], Any],
    A: MatrixLike,
    k: int | None,
    M: MatrixLike | None,
    sigma: float | None,
    which: Which,
    options: EigenKeywords,
) -> tuple[Any, Any]:
    """X and f(H); None for an X that is the identity."""
    require_callable(
        "f",
        f,
        "a function of an array of eigenvalues",
        "For the density matrix: numpy.ones_like and its kin.",
    )
    count = as_matrix("A", A, M).structure.shape[0] if k is None else k
    task, args = build_problem(A, M, EigenOptions(count, sigma, which, **_known(options)))
    if task.standard and task.k == task.n and is_dense(task.A):
        # all eigenvectors span the whole space: X = I, H = A
        given = task.A.base if isinstance(task.A, Symmetric) else task.A
        return None, matrix_function(f, checked(_require_hermitian, given.todense(args[0])))
    X, H = eigenspace(A, count, M, sigma, which, **options)
    return X, matrix_function(f, H)


def _require_hermitian(a: Array) -> None:
    try:
        hermitian("A", Dense(*a.shape[-2:]), a, a, True)
    except NotSymmetricError as error:
        error.args = (error.plain,)
        raise


def _known(options: EigenKeywords) -> EigenKeywords:
    """The options, none of them misspelled."""
    names = EigenKeywords.__annotations__
    for name in options:
        if name not in names:
            raise type_error(
                "options", "some of " + ", ".join(names), repr(name), "See ldiv.eigsh."
            )
    return options
