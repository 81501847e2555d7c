"""Rectangular systems: the public function, which validates and calls the rule."""

from __future__ import annotations

from ldiv.core.arrays import adjoint, alike, batch_of
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.typing import AnyArray, ArrayT
from ldiv.core.validate import as_block, require_batches
from ldiv.linalg.dense_arguments import require_matrix_array
from ldiv.matrices.matrix import common_dtype
from ldiv.rules.least_squares import LeastSquares


@public
def lstsq(a: AnyArray, b: ArrayT) -> ArrayT:
    """Solve a rectangular linear system in the sense of least squares, differentiably.

        x = argmin |A x - b|                        for m >= n
        x = the shortest of all x with A x = b      for m < n

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix, of full rank.
    b : array (m,) or (*batch, m, k)
        A one-dimensional b is a vector, anything else a block of columns.

    Returns
    -------
    x : array (n,) or (*batch, n, k)
        The solution. No residues, rank or singular values, of which a matrix of full rank needs
        none.

    Raises
    ------
    SingularMatrixError
        For a matrix that is not of full rank, its columns scaled to 1 (of a wide matrix the rows).
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128, and for mixed frameworks.

    Notes
    -----
    Of two dtypes the wider is used.
    Differentiable in A and b in every mode and order, by the augmented system
    [[I, A], [A^H, 0]], which is its own adjoint.
    Cost: 1 QR factorization, which the derivative reuses; each direction of a derivative
    2 triangular solves and 4 products.

    References
    ----------
    Bjorck, Numerical Methods for Least Squares Problems (1996); Golub and Pereyra (1973).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.lstsq(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 3.0, 5.0])).round(12)
    array([1., 2.])
    """
    a = require_matrix_array("a", a, b)
    m, n = a.shape[-2:]
    block, vector = as_block("b", b, m, a)
    require_batches("b", batch_of(a, 2), batch_of(block, 2))
    a, block = common_dtype(a, block)
    zero = namespace(block).zeros((n, block.shape[-1]), **alike(block))
    x = (
        bind(LeastSquares(), a, block, zero)[1]
        if m >= n
        else bind(LeastSquares(), adjoint(a), zero, block)[0]
    )
    return x[..., 0] if vector else x
