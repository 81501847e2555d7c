"""Eigenpairs of any dense square matrix or pencil, under SciPy's names."""

from __future__ import annotations

from inspect import unwrap
from operator import itemgetter
from typing import Any, get_args

from ldiv.core.arrays.shapes import adjoint, astype, numpy_dtype, unit_columns
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import common_precision, require_flag, require_option
from ldiv.core.calls.call import plan, planned_pair
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.rule import bind
from ldiv.core.rules.some_outputs import SomeOutputs, some_outputs
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.factors.spectral_calls import GeneralValueCalls
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_partner, require_square_array
from ldiv.linalg.arguments.eigen_problem import OnDegenerate
from ldiv.rules.eig import Eig
from ldiv.rules.solve import solve
from ldiv.rules.summed import summed
from ldiv.structures.dense import dense

FOR_SOME = "ldiv.eigs has some eigenpairs of a sparse matrix, ldiv.eigsh of a Hermitian one."


VALUES = GeneralValueCalls()


@public
@planned_pair
def eig(
    a: ArrayT,
    b: AnyArray | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
    *,
    on_degenerate: OnDegenerate = "raise",
) -> Any:
    """Find all eigenpairs of a dense square matrix or pencil, differentiably.

        A v_j = lam_j B v_j,    u_j^H A = lam_j u_j^H B,    |v_j| = |u_j| = 1

    Parameters
    ----------
    a : array (*batch, n, n)
        A.
    b : array (*batch, n, n), optional
        B, not singular; the identity where it is absent.
    left, right : bool, default False, True
        Which vectors to return.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted, as SciPy has them: nothing is ever overwritten, and numbers are always checked.
    homogeneous_eigvals : bool
        False: pairs of numbers have no derivative of their own.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        Where a derivative is not defined, at a repeated eigenvalue: raise NotDifferentiableError,
        warn and leave the undefined part out, or leave it out silently.

    Returns
    -------
    w : array (*batch, n)
        The eigenvalues, complex, in no promised order; of a real a conjugate ones are neighbours.
    vl : array (*batch, n, n)
        The left vectors, as columns, whose phases are arbitrary; only if `left`.
    vr : array (*batch, n, n)
        The right vectors, as columns, complex; only if `right`. With neither, w alone is returned.

    Raises
    ------
    NotDifferentiableError
        In the derivative, see `on_degenerate`; for a loss that depends on the phase of a vector,
        which is arbitrary; for a defective matrix, and one so close to it that no digit is known.
    SingularMatrixError
        For a singular b, and for left vectors of a defective matrix.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    eigvals, eigh

    Notes
    -----
    Differentiable in a and b, in every mode and order. The tangent of a vector is orthogonal to it.
    LAPACK finds the pairs on the host. Cost: 1 Schur form, some 25 n^3 operations; a solve with the
    vectors and a few products for each direction of a derivative.

    References
    ----------
    Giles (2008), section 3.1; Stewart and Sun, Matrix Perturbation Theory, chapter IV.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> w, v = ldiv.eig(np.array([[0.0, 1.0], [-4.0, 0.0]]))
    >>> w.imag
    array([ 2., -2.])
    """
    matrices = _pencil(a, b)
    with_left, with_right = require_flag("left", left), require_flag("right", right)
    require_option("on_degenerate", on_degenerate, get_args(OnDegenerate))
    if require_flag("homogeneous_eigvals", homogeneous_eigvals):
        advice = "A pair (alpha, beta) has a scale that is arbitrary: their quotients are w."
        raise value_error("homogeneous_eigvals", "False", "True", advice)
    rule = Eig(b is not None, on_degenerate)
    if with_left:
        w, v, size, _ = bind(rule, *matrices)
        return w, _left(summed(v, size), *matrices[1:]), *([v] * with_right)
    if with_right:
        return plan(rule, matrices, itemgetter(0, 1))
    if rule.pencil:
        return plan(rule, matrices)
    return plan(SomeOutputs(rule, (0,), VALUES), matrices, use=some_outputs)


@public
@planned_pair
def eigvals(
    a: ArrayT,
    b: AnyArray | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> ArrayT:
    """Find all eigenvalues of a dense square matrix or pencil, differentiably.

        det(A - lam_j B) = 0

    Parameters
    ----------
    a : array (*batch, n, n)
        A.
    b : array (*batch, n, n), optional
        B, not singular; the identity where it is absent.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    homogeneous_eigvals : bool
        False, as in `eig`.

    Returns
    -------
    w : array (*batch, n)
        The eigenvalues, complex, in no promised order; those of large matrices may have another one
        where a derivative is taken, which needs vectors.

    Raises
    ------
    NotDifferentiableError, SingularMatrixError, ValueError, TypeError
        As in `eig`.

    See Also
    --------
    eig, eigvalsh

    Notes
    -----
    Differentiable in every mode and order. At a repeated eigenvalue a loss must depend on all of
    its copies alike.
    Cost: that of `eig`, whose vectors the derivative needs; half of it without a derivative.

    References
    ----------
    Giles (2008), section 3.1.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigvals(np.array([[2.0, 1.0], [0.0, 3.0]]))
    array([2.+0.j, 3.+0.j])
    """
    # the planner alone: this call is remembered under its own name
    return unwrap(eig)(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals)


def _pencil(a: Any, b: Any) -> list[Array]:
    if b is None:
        return [require_square_array("a", a, instead=FOR_SOME)]
    one = require_square_array("a", a, b, instead=FOR_SOME)
    two = require_partner("b", b, one, tuple(one.shape[-2:]), "It goes with a.", instead=FOR_SOME)
    return common_precision(one, two)


def _left(v: Array, b: Array | None = None) -> Array:
    """The adjoint of (B V)^-1, its columns normed."""
    n = v.shape[-1]
    columns = v if b is None else astype(b, numpy_dtype(v)) @ v
    u = adjoint(solve(dense(n, n), columns, unit_columns(v, n, range(n))))
    if 0 in u.shape:
        return u
    return u / astype(norm(namespace(u).abs(u), axis=-2), numpy_dtype(u))[..., None, :]
