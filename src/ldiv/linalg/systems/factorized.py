"""Factor once, solve many times: the public function, which validates."""

from __future__ import annotations

from typing import Any, Literal, overload

from ldiv.core.arrays.typing import AnyArray, Assumption
from ldiv.core.arrays.validate import require_number, require_square
from ldiv.core.calls.call import planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.trees import leaves
from ldiv.engines import registry
from ldiv.errors import value_error
from ldiv.linalg.arguments.alternatives import require_none
from ldiv.linalg.arguments.solve_problem import FactorDtype, require_factor_dtype, require_method
from ldiv.linalg.systems.factorization import Factorized, planned_factor
from ldiv.linalg.systems.factorized_lstsq import FactorizedLstsq
from ldiv.linalg.systems.least_squares_solvers import OF_DAMP, roots
from ldiv.matrices.assumptions import assumption, definiteness, promised
from ldiv.matrices.matrix import MatrixLike, as_matrix

SYMMETRIC = "Least squares are symmetric of themselves; systems have no weights."


@overload
def factorized(  # type: ignore[overload-overlap]  # any other string is the name of an engine
    A: MatrixLike, *, method: Literal["lstsq"], damp: float = 0.0, weights: AnyArray | None = None
) -> FactorizedLstsq: ...
@overload
def factorized(
    A: MatrixLike,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    factor_dtype: FactorDtype | None = None,
) -> Factorized: ...
@public
@planned
def factorized(
    A: MatrixLike,
    *,
    assume_a: Assumption = "gen",
    method: str = "auto",
    factor_dtype: FactorDtype | None = None,
    damp: float = 0.0,
    weights: AnyArray | None = None,
) -> Any:
    """Factor a matrix once, and solve with it many times, differentiably.

        F = factorized(A);    F.solve(b) = F(b) = A^-1 b,    F.logabsdet() = log |det A|

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray, or any other Matrix
        The matrix, (*batch, m, n) with method "lstsq". Its values are copied: writing to them later changes nothing.
    assume_a : str, default "gen"
        As in `solve`.
    method : str, default "auto"
        "auto", "direct", the name of an engine that factors, or "lstsq": what is solved is then
        argmin |W^(1/2) (A x - b)|^2 + damp^2 |x|^2, as by `lstsq`.
    factor_dtype : "float32", optional
        As in `solve`: half the memory. `F.logabsdet` factors in double precision, once more.

    damp, weights : optional
        As in `lstsq`, and with method "lstsq" only.

    Returns
    -------
    F : Factorized, or with method "lstsq" FactorizedLstsq
        The factorization, held as long as F lives. A FactorizedLstsq has `F.solve(b) = F(b)`, and
        `F.covariance()` with the entries of (A^H W A + damp^2 I)^-1 on the pattern of A^H A, of a
        dense A all, and `F.variances()`, its diagonal.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError, TypeError
        As in `solve`.
    ValueError
        For an engine that iterates; else as in `solve`.

    Notes
    -----
    `F.solve` is differentiable in A and b, like `solve`; `F.logabsdet` in A, with
    d log |det A| = Re tr(A^-1 dA). A matrix of NumPy or SciPy is a constant beside a b that is a
    tensor or an array of JAX; a sparse one is factored once for all of them.
    The covariance comes from the augmented matrix or from R, so that A^H A is never formed: its
    relative error is of the size of the condition of A times rounding, not of its square. It is
    differentiable in A and weights.

    Cost: 1 factorization now; each solve is a solve. The derivative of logabsdet takes, of a dense
    matrix, its inverse by the factors; of a sparse one the selected inverse, at most 1
    factorization more, and about as much again.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> F = ldiv.factorized(np.array([[2.0, 1.0], [1.0, 3.0]]), assume_a="pos")
    >>> F.solve(np.array([3.0, 4.0]))
    array([1., 1.])
    >>> round(float(F.logabsdet()), 6)
    1.609438
    """
    matrix = as_matrix("A", A, weights)
    damp = require_number("damp", damp, 0, advice=OF_DAMP)
    if isinstance(method, str) and method == "lstsq":
        own = None if isinstance(assume_a, str) and assume_a == "gen" else assume_a
        require_none("none with method='lstsq'", SYMMETRIC, assume_a=own, factor_dtype=factor_dtype)
        m, like = matrix.structure.shape[0], leaves(matrix.params)[0]
        root = None if weights is None else roots(weights, m, like)
        return FactorizedLstsq(matrix, damp, root)
    require_none("method='lstsq' for it", SYMMETRIC, damp=damp or None, weights=weights)
    promise = assumption(assume_a)
    require_square("A", matrix.structure.shape, "Engines can only factor square matrices")
    structure, params = promised(matrix, promise)
    require_factor_dtype(factor_dtype)
    _require_factors(method)
    call: Any = planned_factor(
        structure, params, definiteness(structure, promise), method, factor_dtype
    )
    # what "tridiagonal" says of the numbers is checked in every call
    return call.run() if promise == "tridiagonal" else call


def _require_factors(method: str) -> None:
    require_method(method)
    named = registry.engines().get(method)
    if method == "iterative" or (named is not None and registry.is_iterative(named)):
        advice = "An iteration has no factors to hold: use solve."
        raise value_error("method", "an engine that factors", repr(method), advice)
