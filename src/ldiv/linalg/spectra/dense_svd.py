"""Singular values of dense matrices, and what they give: pseudoinverse and rank."""

from __future__ import annotations

from typing import Any, Literal, get_args, overload

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, eps, numpy_dtype
from ldiv.core.arrays.typing import ArrayT, to_caller
from ldiv.core.arrays.validate import require_flag, require_int, require_number, require_option
from ldiv.core.calls.call import plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace
from ldiv.core.rules.some_outputs import SomeOutputs, some_outputs
from ldiv.engines.factors.spectral_calls import SingularValueCalls
from ldiv.errors import value_error
from ldiv.linalg.arguments.alternatives import only_one
from ldiv.linalg.arguments.dense_arguments import LEAST_SQUARES, require_matrix_array
from ldiv.linalg.arguments.eigen_problem import OnDegenerate
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.rules.pseudo_inverse import PseudoInverse, rank
from ldiv.rules.svd import SVD

Driver = Literal["gesdd", "gesvd"]
VALUES = SingularValueCalls()
FOR_SOME = "ldiv.svds has some singular values and vectors of it, the largest or the smallest."
FOR_LEAST_SQUARES = f"Its pseudoinverse is dense. {LEAST_SQUARES}"


@overload
def svd(
    a: ArrayT,
    full_matrices: bool = False,
    compute_uv: Literal[True] = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: Driver = "gesdd",
    *,
    hermitian: bool = False,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT, ArrayT]: ...
@overload
def svd(
    a: ArrayT,
    full_matrices: bool = False,
    *,
    compute_uv: Literal[False],
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: Driver = "gesdd",
    hermitian: bool = False,
    on_degenerate: OnDegenerate = "raise",
) -> ArrayT: ...
@public
@planned
def svd(
    a: ArrayT,
    full_matrices: bool = False,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: Driver = "gesdd",
    *,
    hermitian: bool = False,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT, ArrayT] | ArrayT:
    """Find all singular values and vectors of a dense matrix, differentiably.

        A = U diag(s) V^H,    U^H U = V^H V = I

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix; k = min(m, n).
    full_matrices : bool, default False
        SciPy's default, True, is for square matrices only: the other columns of its U or V are
        arbitrary, and have no derivative.
    compute_uv : bool, default True
        With False, s alone is returned.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    lapack_driver : {"gesdd", "gesvd"}
        Accepted, as SciPy has it: there is one driver, divide and conquer.
    hermitian : bool
        Accepted, as NumPy has it: the whole matrix is read.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        Where a derivative is not defined, at a repeated singular value or at 0: raise
        NotDifferentiableError, warn and leave the undefined part out, or leave it out without a
        word.

    Returns
    -------
    U : array (*batch, m, k)
        The left singular vectors.
    s : array (*batch, k)
        The singular values, descending.
    Vh : array (*batch, k, n)
        The right singular vectors, conjugate and transposed.

    Raises
    ------
    NotDifferentiableError
        In the derivative, see `on_degenerate`; for a loss that depends on the phase of complex
        vectors, too.
    ValueError
        For shapes, NaN and infinity, and full_matrices=True of a matrix that is not square.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    svds : some of them, of sparse matrices and operators.

    Notes
    -----
    Differentiable in every mode and order. Inside a repeated singular value a loss must depend
    neither on the basis nor on single values; at 0 not on the value, which has a kink there.
    Cost: 1 decomposition, some 20 n^3 operations; a few products in each direction.

    References
    ----------
    Giles (2008), section 3.2; Golub and Van Loan, section 8.6.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> U, s, Vh = ldiv.svd(np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    >>> s
    array([4., 3.])
    """
    matrix = require_matrix_array("a", a, instead=FOR_SOME)
    m, n = matrix.shape[-2:]
    require_flag("hermitian", hermitian)
    require_option("lapack_driver", lapack_driver, get_args(Driver))
    require_option("on_degenerate", on_degenerate, get_args(OnDegenerate))
    with_vectors = require_flag("compute_uv", compute_uv)
    if require_flag("full_matrices", full_matrices) and with_vectors and m != n:
        advice = "The columns beyond min(m, n) are arbitrary: pass full_matrices=False."
        came = f"True for {m} x {n}"
        raise value_error("full_matrices", "False, or a square a", came, advice)
    rule = SVD(on_degenerate)
    return plan(rule, [matrix], _triplets) if with_vectors else _values(rule, matrix)


def _values(rule: SVD, a: Array) -> Any:
    return plan(SomeOutputs(rule, (1,), VALUES), [a], use=some_outputs)


def _triplets(out: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    u, s, vh, *_ = out
    if with_free_phase(s, u) is u:
        return u, s, vh
    both = to_caller(with_free_phase(s, namespace(u).concat([u, adjoint(vh)], axis=-2)))
    return both[..., : u.shape[-2], :], s, adjoint(both[..., u.shape[-2] :, :])


@public
@planned
def svdvals(a: ArrayT, overwrite_a: bool = False, check_finite: bool = True) -> ArrayT:
    """Find all singular values of a dense matrix, differentiably.

        s_i^2 = lam_i(A^H A)

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.

    Returns
    -------
    s : array (*batch, min(m, n))
        The singular values, descending.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `svd`.

    Notes
    -----
    Differentiable as those of `svd` are: s_bar becomes U diag(s_bar) V^H.
    Cost: that of `svd`, whose vectors the derivative needs; less than half without a derivative.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.svdvals(np.array([[3.0, 0.0], [0.0, 4.0]]))
    array([4., 3.])
    """
    return _values(SVD(), require_matrix_array("a", a, instead=FOR_SOME))


@overload
def pinv(
    a: ArrayT,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: Literal[False] = False,
    check_finite: bool = True,
    on_degenerate: OnDegenerate = "raise",
    rank: int | None = None,
) -> ArrayT: ...
@overload
def pinv(
    a: ArrayT,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: Literal[True],
    check_finite: bool = True,
    on_degenerate: OnDegenerate = "raise",
    rank: int | None = None,
) -> tuple[ArrayT, ArrayT]: ...
@public
@planned
def pinv(
    a: ArrayT,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
    on_degenerate: OnDegenerate = "raise",
    rank: int | None = None,
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute the pseudoinverse of a dense matrix, differentiably. `lstsq` needs none.

        A X A = A,    X A X = X,    A X and X A Hermitian

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix.
    rcond : float, optional
        NumPy's name of rtol.
    hermitian : bool
        Accepted, as NumPy, PyTorch and JAX have it: the whole matrix is read.
    atol, rtol : float, optional
        Singular values of at most max(atol, rtol s_1) are taken for 0. The defaults are 0 and
        max(m, n) eps, but rtol is 0 where atol alone is given.
    return_rank : bool, default False
        Return the rank, too.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        Where the rank is not full, and A^+ not continuous: raise NotDifferentiableError in the
        derivative, or take the rank for constant, with a warning or without.
    rank : int, optional
        The rank that A is promised to have, wherever it is differentiated: its derivative is that
        at constant rank. By the tolerances A must have it.

    Returns
    -------
    X : array (*batch, n, m)
        The pseudoinverse.
    rank : array (*batch,)
        How many singular values were not taken for 0; a constant.

    Raises
    ------
    NotDifferentiableError
        In the derivative, see `on_degenerate`.
    ValueError, TypeError
        As in `svd`; ValueError for another rank than the promised one.

    See Also
    --------
    lstsq

    Notes
    -----
    Differentiable in every mode and order where the rank is full, or stays what it is.
    Cost: 1 decomposition as in `svd`; a few products in each direction.

    References
    ----------
    Golub and Pereyra (1973).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.pinv(np.array([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    array([[0.5 , 0.  , 0.  ],
           [0.  , 0.25, 0.  ]])
    """
    matrix = require_matrix_array("a", a, instead=FOR_LEAST_SQUARES)
    require_option("on_degenerate", on_degenerate, get_args(OnDegenerate))
    require_flag("hermitian", hermitian)
    absolute, relative = _tolerances(matrix, atol, only_one("rtol", rtol, "rcond", rcond))
    constants = () if absolute is None else (absolute,)
    promised = None if rank is None else require_int("rank", rank, 0)
    rule = PseudoInverse(relative, on_degenerate, bool(constants), promised)
    if require_flag("return_rank", return_rank):
        return plan(rule, [matrix, *constants], _with_rank)
    return plan(rule, [matrix, *constants])


def _with_rank(out: tuple[Any, ...]) -> tuple[Any, Any]:
    x, rank = out
    return x, _whole(rank)


@public
def matrix_rank(
    A: ArrayT,
    tol: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> ArrayT:
    """Count the singular values of a dense matrix that are not taken for 0.

        rank = #{i : s_i > max(atol, rtol s_1)}

    Parameters
    ----------
    A : array (*batch, m, n)
        The matrix.
    tol : float, optional
        NumPy's name of atol.
    hermitian, atol, rtol : optional
        As in `pinv`.

    Returns
    -------
    rank : array of integers (*batch,)
        The rank.

    Raises
    ------
    ValueError, TypeError
        As in `svd`.

    Notes
    -----
    Not differentiable: a whole number.
    Cost: 1 decomposition as in `svd`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> int(ldiv.matrix_rank(np.ones((3, 3))))
    1
    """
    atol = only_one("tol", tol, "atol", atol)
    require_flag("hermitian", hermitian)
    matrix = require_matrix_array("A", A, instead=FOR_SOME)
    absolute, relative = _tolerances(matrix, atol, rtol)
    return _whole(rank(svdvals(constant(matrix)), relative, absolute))


def _tolerances(a: Array, atol: float | None, rtol: float | None) -> tuple[Array | None, float]:
    """Return the absolute tolerance, if it is not 0, in the units of A, and the relative one."""
    given = 0.0 if atol is None else require_number("atol", atol, 0)
    kind = np.finfo(numpy_dtype(a)).dtype
    absolute = namespace(a).asarray(given, **alike(a, kind)) if given else None
    if rtol is None:
        return absolute, 0.0 if atol is not None else eps(a) * max(*a.shape[-2:], 1)
    return absolute, require_number("rtol", rtol, 0)


def _whole(rank: Array) -> Any:
    xp = namespace(rank)
    return xp.astype(rank, xp.int64) if rank.dtype != xp.float32 else xp.astype(rank, xp.int32)
