"""A few eigenpairs of any matrix or pencil, sparse or matrix-free, under SciPy's name."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import (
    as_block,
    common_precision,
    require_flag,
    require_number,
    require_option,
    require_square,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure
from ldiv.engines.eigen.arnoldi import KEYS, GeneralTask
from ldiv.errors import value_error
from ldiv.linalg.arguments.alternatives import not_in_a_trace
from ldiv.linalg.arguments.eigen_problem import (
    measure,
    require_count,
    require_limits,
    require_tolerance,
    unit_of,
)
from ldiv.linalg.spectra.eigen_info import general_info
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import MatrixLike, as_matrix
from ldiv.rules.bordered import Systems
from ldiv.rules.general_eigenpairs import GeneralEigenpairs


@public
def eigs(
    A: MatrixLike,
    k: int = 6,
    M: MatrixLike | None = None,
    sigma: complex | None = None,
    which: Literal["LM", "SM", "LR", "SR", "LI", "SI"] = "LM",
    v0: AnyArray | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    Minv: object = None,
    OPinv: object = None,
    OPpart: object = None,
    rng: object = None,
    *,
    method: Literal["auto", "lapack", "arpack"] = "auto",
    info: bool = False,
) -> Any:
    """Find k eigenvalues and eigenvectors of any matrix or pencil, differentiably.

        A x_i = lam_i M x_i,    |x_i| = 1

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        A.
    k : int, default 6
        The number of pairs.
    M : array (*batch, n, n), SparseArray or Matrix, optional
        M, by default the identity. It need not be definite; only with a sigma may it be singular.
    sigma : float or complex, optional
        Find the k eigenvalues nearest to sigma, by the factor of A - sigma M.
    which : {"LM", "SM", "LR", "SR", "LI", "SI"}, default "LM"
        The largest or smallest magnitude, real or imaginary part: of lam, or with a sigma of
        1 / (lam - sigma), as in SciPy. If A, M and sigma are real, |imaginary part| counts.
    v0, ncv, maxiter, tol : optional
        As in SciPy; the default start is always the same.
    return_eigenvectors : bool, default True
        With False, X is left out.
    Minv, OPinv, OPpart, rng : optional
        Accepted, as in SciPy: the inverses are ldiv's own, complex if sigma is, and the start is
        always the same.
    method : {"auto", "lapack", "arpack"}, default "auto"
        "lapack" finds all pairs, and is the default up to n = 200 and for more than n / 4 pairs.
    info : bool, default False
        With True, an `EigenInfo` is returned too, last, for the factorizations of a derivative.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, complex, in the order of `which`; of a conjugate pair that with the positive
        imaginary part is first.
    X : array (*batch, n, k)
        The eigenvectors, complex, whose phases are arbitrary.
    info : EigenInfo
        The quality of the pairs, with the conditions of the eigenvalues.

    Raises
    ------
    ConvergenceError
        For pairs that do not converge, and for operators, systems of the derivative.
    SingularMatrixError
        For a sigma that is an eigenvalue, and without sigma for a singular M.
    NotDifferentiableError
        In the derivative, for a loss or an eigenvalue that has none (see Notes).
    EngineError
        For an operator if its inverse is needed, and under jit or vmap with n > 200.
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    eigsh : for Hermitian matrices, where more can be known and more is differentiable.
    eig : all pairs; losses that depend on all copies of a repeated eigenvalue alike.

    Notes
    -----
    Differentiable in A and M in every mode and order, by one bordered system for each pair,
    [[A - lam M, M X], [X^H, 0]]. X holds x and the vectors of copies of lam. A loss must depend on
    the copies alike, as their sum does, and not on the phase of a vector. Otherwise the derivative
    raises NotDifferentiableError. So it does for a defective eigenvalue, for a copy of an eigenvalue
    that is not among the k, and for one so close to it that no digit is known. Cotangents are on the
    patterns of A and M. The tangent of a vector is orthogonal to it.

    The eigenvalues of a matrix that is far from normal may have large conditions, and rounding
    alone moves them by eps |A| times as much. The engine "lapack" warns of eigenvalues that have
    lost two thirds of their digits. Arnoldi's method, which has no left vectors, returns the
    conditions with `info`.

    Arnoldi's method may skip an eigenvalue, most of all one that is repeated; "lapack" does not.

    Cost: 1 factorization forward with sigma, or for M. A derivative factors the bordered matrix of
    each pair that it asks for once, in complex numbers, for all directions; of operators it is
    iterated by GMRES.

    References
    ----------
    Lehoucq, Sorensen and Yang (1998); Andrew, Chu and Lancaster (1993).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([-np.ones(9), 2 * np.ones(10), -3 * np.ones(9)], offsets=[-1, 0, 1])
    >>> w, X = ldiv.eigs(A, 2, sigma=0.5)
    >>> bool(np.allclose(A @ X, X * w))
    True
    """
    with_vectors = require_flag("return_eigenvectors", return_eigenvectors)
    task, args = _problem(A, M, sigma, v0, k, which, method, ncv, maxiter, tol)
    w, X, _ = bind(GeneralEigenpairs(task), *args)
    found = (w, with_free_phase(w, X)) if with_vectors else (w,)
    if require_flag("info", info):
        if traced(w):
            raise not_in_a_trace()
        found = (*found, general_info(Systems(task.A, task.B, (args[0], args[1]), w, X)))
    return found if len(found) > 1 else w


def _problem(
    A: MatrixLike,
    M: MatrixLike | None,
    sigma: Any,
    v0: Any,
    k: Any,
    which: Any,
    method: Any,
    ncv: Any,
    maxiter: Any,
    tol: Any,
) -> tuple[GeneralTask, tuple[Tree, ...]]:
    """The task and the arguments of its rule, validated."""
    matrix = as_matrix("A", A, M)
    structure, pA = matrix.structure, matrix.params
    require_square("A", structure.shape)
    n = structure.shape[0]
    metric, pB = measure("M", M, structure, pA, _as_it_is)
    if metric.space is not structure.space:
        raise value_error("A", "a matrix of one process", "one of several", "Take ldiv.eigsh.")
    pA, pB = rebuild((structure.core, metric.core), common_precision(*leaves((pA, pB))))
    like = leaves((pA, pB))
    if not like or n == 0:
        advice = "It has no eigenvalues." if like else "It is known: all of them are 1."
        raise value_error("A", "a matrix with numbers", structure, advice)
    start: Tree = ()
    if v0 is not None:
        start, _ = as_block("v0", v0, n, like[0])
        if tuple(start.shape) != (n, 1):
            raise value_error("v0", f"shape ({n},)", tuple(start.shape), "It is one vector.")
    if sigma is not None:
        parts = (
            (sigma.real, sigma.imag)
            if isinstance(sigma, complex | np.complexfloating)
            else (sigma, 0)
        )
        real_part, imaginary = (require_number("sigma", part) for part in parts)
        sigma = complex(real_part, imaginary) if imaginary else real_part
    require_limits(ncv, 2, maxiter)
    task = GeneralTask(
        structure,
        metric,
        require_count(k, n),
        require_option("which", which, tuple(KEYS)),
        sigma,
        require_option("method", method, ("auto", "lapack", "arpack")),
        require_tolerance(tol),
        maxiter,
        ncv,
        v0 is not None,
    )
    return task, (pA, pB, (start, unit_of(sigma, like[0])))


def _as_it_is(name: str, M: MatrixLike, *others: Any) -> tuple[Structure, Tree]:
    matrix = as_matrix(name, M, *others)
    return matrix.structure, matrix.params
