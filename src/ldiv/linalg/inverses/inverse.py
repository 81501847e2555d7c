"""A^-1 of a dense matrix, under SciPy's name."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import beside, numpy_dtype
from ldiv.core.arrays.typing import ArrayT, Assumption
from ldiv.core.arrays.validate import require_square
from ldiv.core.calls.call import plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import leaves
from ldiv.errors import type_error
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.assumptions import assumption, promised_square
from ldiv.matrices.matrix import as_matrix
from ldiv.rules.inverse import Inverse
from ldiv.structures.dense import Dense

WHOLE = frozenset({"gen", "sym", "her", "pos"})  # assumptions of which all entries are read


@public
@planned
def inv(
    A: ArrayT,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: Assumption | None = "gen",
    lower: bool = False,
) -> ArrayT:
    """Invert a dense matrix, differentiably. To solve with it, `solve` costs a third, and errs less.

        X = A^-1

    Parameters
    ----------
    A : array (*batch, n, n)
        The matrix, dense.
    overwrite_a, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    assume_a : str, default "gen"
        As in `solve`.
    lower : bool
        Accepted, as SciPy has it: both triangles are read, and must agree.

    Returns
    -------
    X : array (*batch, n, n)
        The inverse.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, ValueError
        As in `solve`.
    TypeError
        For a matrix that is not dense, whose inverse is: see `factorized` and its `inverse`; and
        for dtypes as in `solve`.

    See Also
    --------
    solve, factorized

    Notes
    -----
    Differentiable in A in every mode and order: dX = -X dA X.
    Cost: 1 factorization and n solves; a gradient 2 products, X^H X_bar X^H, a tangent n solves
    by the same factorization.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    structure, p = matrix.structure, matrix.params
    if not isinstance(structure, Dense) or isinstance(p, tuple):
        advice = "Its inverse is dense: use solve, or factorized(A).inverse, which multiplies."
        raise type_error("A", "a dense array", type(A).__name__, advice)
    if assume_a is not None and assumption(assume_a) in WHOLE:
        _, whole, params, definite = promised_square(matrix, assume_a)
        return plan(Inverse(whole, definite), leaves(params))
    xp = namespace(p)
    one: Any = xp.eye(structure.shape[0], dtype=getattr(xp, numpy_dtype(p).name), **beside(p))
    return solve(matrix, one, assume_a=assume_a)
