"""The pseudoinverse of a Hermitian matrix."""

from __future__ import annotations

from ldiv.core.arrays.shapes import adjoint, hermitian
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node
from ldiv.linalg.arguments.dense_arguments import require_square_array
from ldiv.linalg.arguments.eigen_problem import OnDegenerate
from ldiv.linalg.spectra.dense_svd import FOR_LEAST_SQUARES, pinv
from ldiv.rules.assertion import checked
from ldiv.structures.asymmetry import refuse_asymmetry


@public
def pinvh(
    a: ArrayT,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
    *,
    on_degenerate: OnDegenerate = "raise",
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute the pseudoinverse of a Hermitian matrix, differentiably.

        A X A = A,    X A X = X,    A X = X A,    X = X^H

    Parameters
    ----------
    a : array (*batch, n, n)
        Hermitian: both triangles must be there, and agree up to rounding.
    atol, rtol : float, optional
        As in `pinv`.
    lower : bool
        Accepted, as SciPy has it: the matrix is read whole.
    return_rank : bool, default False
        Return the rank, too.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        As in `pinv`.

    Returns
    -------
    X : array (*batch, n, n)
        The pseudoinverse, Hermitian to the last bit.
    rank : array (*batch,)
        As in `pinv`.

    Raises
    ------
    NotSymmetricError
        For a matrix that is not Hermitian.
    NotDifferentiableError, ValueError, TypeError
        As in `pinv`.

    Notes
    -----
    Differentiable as `pinv` is; the cotangent of A is Hermitian.
    Cost: that of `pinv`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.pinvh(np.diag([2.0, 4.0, 0.0]))
    array([[0.5 , 0.  , 0.  ],
           [0.  , 0.25, 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    matrix = require_square_array("a", a, instead=FOR_LEAST_SQUARES)
    require_flag("lower", lower)

    def inverse(a: Array) -> tuple[Array, Array]:
        part = hermitian(checked(_require_hermitian, a))
        x, rank = pinv(part, atol=atol, rtol=rtol, return_rank=True, on_degenerate=on_degenerate)
        return hermitian(x), rank

    whole, rank = as_one_node(inverse, matrix)
    return (whole, rank) if require_flag("return_rank", return_rank) else whole


def _require_hermitian(a: Array) -> None:
    refuse_asymmetry(a, adjoint(a), "H")
