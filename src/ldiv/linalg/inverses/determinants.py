"""Determinants and their logarithms.

log det A by Cholesky where A is positive definite; sign and logarithm by LU elsewhere, and by the
formula that a structure has.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Literal, overload

import numpy as np

from ldiv.core.arrays.inputs import promoted
from ldiv.core.arrays.shapes import alike
from ldiv.core.arrays.typing import AnyArray, ArrayT, Assumption
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.call import Bound, plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import finite
from ldiv.core.rules.structure import Structure
from ldiv.linalg.arguments.solve_problem import require_method
from ldiv.linalg.inverses.stochastic import EstimateInfo, require_exact, slq
from ldiv.linalg.inverses.structured_determinants import broadcast_to_batch, has_formula, slogdet_of
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import Matrix, MatrixLike
from ldiv.rules.det import Det
from ldiv.rules.positive_sign import if_positive
from ldiv.rules.slogdet import SLogDet
from ldiv.structures.dense import Dense, dense
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


@overload
def logdet(
    A: Matrix,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    steps: int | None = None,
    rng: Any = None,
    info: Literal[False] = False,
) -> Any: ...
@overload
def logdet(
    A: ArrayT,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    steps: int | None = None,
    rng: Any = None,
    info: Literal[False] = False,
) -> ArrayT: ...
@overload
def logdet(
    A: MatrixLike,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    steps: int | None = None,
    rng: Any = None,
    info: Literal[True],
) -> tuple[Any, EstimateInfo]: ...
@public
@planned
def logdet(
    A: MatrixLike,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    probes: int | None = None,
    steps: int | None = None,
    rng: Any = None,
    info: bool = False,
) -> AnyArray | tuple[Any, EstimateInfo]:
    """Compute the logarithm of a positive determinant, differentiably.

        l = log det A

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Any square matrix whose determinant is positive.
    assume_a : str, default "gen"
        As in `solve`. With "pos" the determinant is that of the Cholesky factor.
    method : str, default "auto"
        As in `solve`; how a matrix is factored that is positive definite, by assumption or by its
        structure. The method "slq" estimates instead, from products with random vectors: for a
        positive definite `LinearOperator`, or a matrix too large to factor.
    probes, steps : int, optional
        With "slq" the number of random vectors, 32, and of the steps of Lanczos' method from each
        of them, 50.
    rng : int, numpy.random.Generator, torch.Generator or key of jax.random, optional
        With "slq", which needs it, where the vectors come from. An integer, and a generator of
        NumPy, give the same ones in every framework.
    info : bool, default False
        With "slq", return an `EstimateInfo`, too.

    Returns
    -------
    l : array (*batch,)
        The logarithm.
    info : EstimateInfo
        With info=True only: the standard error.

    Raises
    ------
    ValueError
        Where the determinant is not positive (see `slogdet`).
    ConvergenceError
        With "slq", for too few steps; of a derivative, as `solve`.
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError, TypeError
        As `solve`.

    See Also
    --------
    slogdet : the sign, too.
    selected_inverse : the gradient of a sparse matrix, on its own.

    Notes
    -----
    Differentiable in A in every mode and order: A_bar = l_bar A^-H on the structure of A.

    Cost: 1 factorization. The gradient of a dense matrix is its inverse, 2/3 n^3 operations by
    Cholesky and 2 n^3 by LU. The gradient of a sparse or banded matrix takes the entries of A^-1 on
    its pattern (the selected inverse), at about the cost of another factorization. A Hessian-vector
    product takes the tangent of these entries, at about the cost of four factorizations. Both are
    compiled for positive definite matrices. A diagonal, a triangle, a Kronecker product, a Gram
    matrix, a product, a multiple or a low-rank update has the determinant that its parts give it.
    Elsewhere the derivative takes n solves, a block at a time.
    NumPy's `ldiv.vjp` differentiates one rule: of matrices made of others that is the case with
    "pos" only.

    "slq", stochastic Lanczos quadrature: with random signs z_i

        l ~ 1/k sum_i z_i^H log(A) z_i,    l_bar / k sum_i A^-1 z_i z_i^H in place of A_bar

    Both are unbiased, up to the quadrature, and so is the second derivative; the latter is not the
    derivative of the former, which finite differences with the same z_i would see. Nothing is
    factored: the value takes `steps` products with k columns, reorthogonalized in full (memory for
    `steps` columns or more), the gradient one run of `cg` for k columns.

    References
    ----------
    Takahashi, Fagan, Chin (1973); Erisman and Tinney, Comm. ACM 18 (1975); Ubaru, Chen, Saad, SIAM
    J. Matrix Anal. Appl. 38 (2017).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> round(float(ldiv.logdet(np.diag([2.0, 3.0]))), 12)
    1.791759469228
    >>> A = ldiv.diags_array([np.full(9, 2.0), -np.ones(8), -np.ones(8)], offsets=[0, 1, -1])
    >>> l, info = ldiv.logdet(A, assume_a="pos", method="slq", rng=0, info=True)
    >>> bool(abs(l - ldiv.logdet(A)) < 3 * info.standard_error)
    True
    """
    if isinstance(method, str) and method == "slq":  # of an array == is an array
        matrix, structure, params, assumption = promised_square(A, assume_a)
        value, quality = slq(structure, params, assumption, probes, steps, rng)
        return (value, quality) if require_flag("info", info) else value
    require_method(method)
    require_exact(method, probes, rng, info, steps)
    matrix, structure, params, assumption = promised_square(A, assume_a)
    if assumption == "pos":  # 2 sum log diag(L), A = L L^H
        return _of_positive(structure, params, method)
    if _is_one_array(matrix, structure):
        # An LU factorization knows the sign: it is checked to be 1.
        return plan(_of_dense(structure, positive=True), [matrix.params], itemgetter(1))
    if isinstance(structure.unview()[0], Sparse):
        return plan(SLogDet(structure, positive=True), leaves(params), itemgetter(1))
    sign, size = broadcast_to_batch(structure, params, slogdet_of(structure, params))
    return if_positive(size, sign, structure.shape[0])


def _of_positive(structure: Structure, p: Tree, method: str) -> Any:
    """log det of a positive definite matrix: of one rule, or by the formula of its structure.

    Not by the formula for NumPy, whose derivatives are of one rule.
    """
    if method == "auto" and type(leaves(p)[0]) is not np.ndarray and has_formula(structure):
        return broadcast_to_batch(structure, p, slogdet_of(structure, p))[1]
    return plan(SLogDet(structure, "pos", method, sign=False), leaves(p))


def _of_dense(structure: Structure, positive: bool = False) -> SLogDet:
    """Return the rule that factors the array itself by LU, symmetric if that was promised."""
    return SLogDet(dense(*structure.shape), positive=positive, promise=_promise(structure))


def _promise(structure: Structure) -> str:
    return structure.op if isinstance(structure, Symmetric) else ""


def _is_one_array(matrix: Matrix, structure: Structure) -> bool:
    return isinstance(matrix.structure, Dense) and isinstance(structure, Dense | Symmetric)


@overload
def slogdet(A: Matrix, *, assume_a: Assumption = "gen") -> tuple[Any, Any]: ...
@overload
def slogdet(A: ArrayT, *, assume_a: Assumption = "gen") -> tuple[ArrayT, ArrayT]: ...
@public
@planned
def slogdet(A: MatrixLike, *, assume_a: Assumption = "gen") -> tuple[AnyArray, AnyArray]:
    """Compute the sign and the logarithm of the absolute value of a determinant, differentiably.

        det A = s exp(l),    |s| = 1

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Any square matrix.
    assume_a : str, default "gen"
        As in `solve`.

    Returns
    -------
    s : array (*batch,)
        The sign, a complex number of modulus 1 for a complex A; 0 for a singular dense array.
    l : array (*batch,)
        The logarithm, real; -inf for a singular dense array, as in NumPy.

    Raises
    ------
    SingularMatrixError
        For a singular matrix that is not a dense array, and from the derivative, which no singular
        matrix has.
    NotPositiveDefiniteError, NotSymmetricError
        For assumptions that do not hold.
    EngineError
        For a matrix whose entries are not stored, such as a `LinearOperator`.

    Notes
    -----
    Differentiable in A in every mode and order, where A is regular:

        dl = Re tr(A^-1 dA),    ds = i s Im tr(A^-1 dA), which is 0 for a real A

    Cost: 1 factorization; the gradient of a dense array is A^-H, 2 n^3 operations. Sparse
    matrices and structures: as `logdet`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> s, l = ldiv.slogdet(np.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> float(s), round(float(l), 6)
    (-1.0, 0.693147)
    """
    matrix, structure, params, assumption = promised_square(A, assume_a)
    if assumption == "pos":
        size = (
            found.run()
            if isinstance(found := _of_positive(structure, params, "auto"), Bound)
            else found
        )
        like = leaves(params)[0]
        return namespace(like).ones(tuple(size.shape), **alike(like)), size
    if _is_one_array(matrix, structure):
        return plan(_of_dense(structure), [matrix.params], tuple)
    return broadcast_to_batch(structure, params, slogdet_of(structure, params))


def _number(results: tuple[Any, ...]) -> Any:
    """The one result; a number, as in SciPy, where NumPy has an array without axes."""
    d = results[0]
    return d[()] if type(d) is np.ndarray else d


@overload
def det(
    A: Matrix, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Assumption = "gen"
) -> Any: ...
@overload
def det(
    A: ArrayT, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Assumption = "gen"
) -> ArrayT: ...
@public
@planned
def det(
    A: MatrixLike,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: Assumption = "gen",
) -> AnyArray:
    """Compute the determinant of a matrix, differentiably.

        d = det A

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Any square matrix.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    assume_a : str, default "gen"
        As in `solve`.

    Returns
    -------
    d : array (*batch,)
        The determinant; of NumPy arrays in double precision, as in SciPy.

    Raises
    ------
    LinAlgOverflowError
        For a determinant that its dtype cannot hold: `slogdet` has its logarithm.
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError
        As `slogdet`.

    Notes
    -----
    Differentiable in A in every mode and order, where A is regular; of a dense array, without
    "pos", also where it is singular: the derivative is the adjugate. For ranks below n - 3 the
    derivatives up to the third order are 0, and those of higher order raise NotDifferentiableError.
    Cost: as `slogdet`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> round(float(ldiv.det(np.array([[0.0, 2.0], [1.0, 0.0]]))), 12)
    -2.0
    """
    A = promoted(A)
    if isinstance(A, np.ndarray) and A.dtype in (np.float32, np.complex64):
        A = A.astype(np.result_type(A, np.float64))  # as SciPy does
    matrix, structure, params, assumption = promised_square(A, assume_a)
    if _is_one_array(matrix, structure) and assumption != "pos":
        return plan(Det(_promise(structure)), [params], _number)
    s, l = slogdet(A, assume_a=assume_a)
    with np.errstate(all="ignore"):  # an overflow is an error of ours, not a warning of NumPy's
        return finite("det", s * namespace(l).exp(l))
