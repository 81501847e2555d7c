"""Least squares by products with A and A^H, under SciPy's names."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays import alike, astype, batch_of, common_batch, is_complex, numpy_dtype, real
from ldiv.core.dispatch import is_array, namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import leaves
from ldiv.core.typing import AnyArray, ArrayT
from ldiv.core.validate import (
    as_block,
    as_float,
    require_batches,
    require_int,
    require_number,
    together,
)
from ldiv.engines.iterative.bidiagonalization import Bidiagonalization
from ldiv.errors import expected_got
from ldiv.matrices.compose import block_array
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.iterated_least_squares import IteratedLeastSquares
from ldiv.structures.diagonal import Diagonal


@public
def lsqr(
    A: MatrixLike,
    b: ArrayT,
    damp: float | AnyArray = 0.0,
    atol: float | None = None,
    btol: float | None = None,
    iter_lim: int | None = None,
) -> tuple[ArrayT, int]:
    """Solve a least-squares problem by LSQR, differentiably.

        min |A x - b|^2 + damp^2 |x|^2

    Parameters
    ----------
    A : array (m, n), SparseArray, LinearOperator, or any other Matrix
        The matrix, of full rank. If it has more columns than rows, and there is no `damp`, x is the
        shortest one with A x = b.
    b : array (m,) or (*batch, m, k)
        A one-dimensional b is a vector, anything else a block of columns.
    damp : float or array ()
        The weight of |x|.
    atol, btol : float, optional
        Stop when |r| <= btol |b| + atol |A| |x| or |A^H r| <= atol |A| |r|; by default eps^(2/3),
        4e-11 in double precision, since derivatives are no better than what they are derived from.
    iter_lim : int, optional
        Steps at most, by default ten for each row or column, whichever are more.

    Returns
    -------
    x : array (n,) or (*batch, n, k)
        The solution.
    info : int
        0: an iteration that does not converge raises.

    Raises
    ------
    ConvergenceError
        If the iteration does not converge, in a derivative, too.
    SingularMatrixError
        In the derivative, if the columns of A, or the rows of a wide one, are seen to be dependent.
    ValueError, TypeError
        For shapes, dtypes, NaN and infinity.
    EngineError
        For an operator in a trace: SciPy calls it with numbers.

    Notes
    -----
    Differentiable in A, b and damp, in every mode and order; no derivative is taken through a step.
    Of SciPy's ten results here are two; numbers of the others are properties of A and x.
    Cost: one iteration for x, and up to two for each tangent or cotangent; a step is one product with
    A and one with A^H. Errors grow with the condition of A, those of a derivative with its square
    where |A x - b| is large.
    Reference: Paige and Saunders, ACM Trans. Math. Softw. 8 (1982).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> x, info = ldiv.lsqr(A, np.array([1.0, 3.0, 5.0]))
    >>> x.round(6), info
    (array([1., 2.]), 0)
    """
    return _solved("lsqr", A, b, damp, atol, btol, "iter_lim", iter_lim)


@public
def lsmr(
    A: MatrixLike,
    b: ArrayT,
    damp: float | AnyArray = 0.0,
    atol: float | None = None,
    btol: float | None = None,
    maxiter: int | None = None,
) -> tuple[ArrayT, int]:
    """Solve a least-squares problem by LSMR, differentiably.

        min |A x - b|^2 + damp^2 |x|^2

    Parameters
    ----------
    A : array (m, n), SparseArray, LinearOperator, or any other Matrix
        The matrix, of full rank. If it has more columns than rows, and there is no `damp`, x is the
        shortest one with A x = b.
    b : array (m,) or (*batch, m, k)
        A one-dimensional b is a vector, anything else a block of columns.
    damp : float or array ()
        The weight of |x|.
    atol, btol, maxiter : optional
        As `atol`, `btol` and `iter_lim` of `lsqr`.

    Returns
    -------
    x : array (n,) or (*batch, n, k)
        The solution.
    info : int
        0: an iteration that does not converge raises.

    Raises
    ------
    ConvergenceError, SingularMatrixError, ValueError, TypeError, EngineError
        As in `lsqr`.

    Notes
    -----
    Differentiable as `lsqr`. |A^H r| becomes smaller in each step, so that it stops earlier.
    Cost: as that of `lsqr`.
    Reference: Fong and Saunders, SIAM J. Sci. Comput. 33 (2011).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> x, info = ldiv.lsmr(A, np.array([1.0, 3.0, 5.0]))
    >>> x.round(6), info
    (array([1., 2.]), 0)
    """
    return _solved("lsmr", A, b, damp, atol, btol, "maxiter", maxiter)


def _solved(
    name: str, A: Any, b: Any, damp: Any, atol: Any, btol: Any, limit: str, most: Any
) -> Any:
    matrix = as_matrix("A", A, b)
    (m, n), p = matrix.structure.shape, matrix.params
    like = leaves(p)[0] if leaves(p) else as_float("b", b)
    block, vector = as_block("b", b, m, like)
    require_batches("b", common_batch(matrix.structure.core, p), batch_of(block, 2))
    for option, value in (("atol", atol), ("btol", btol)):
        if value is not None:
            require_number(option, value, 0.0)
    if most is not None:
        require_int(limit, most, 1)
    d = _damp(damp, block)
    xp, (*batch, _, k) = namespace(block), block.shape
    if d is not None:  # [A; d I] x = [b; 0]
        weights = astype(d, numpy_dtype(block)) * xp.ones((n,), **alike(block))
        matrix = block_array([[matrix], [Matrix(Diagonal(n), weights)]])
        block = xp.concat([block, xp.zeros((*batch, n, k), **alike(block))], axis=-2)
    rest = xp.zeros((*batch, n, k), **alike(block))
    iteration = Bidiagonalization(name, atol, btol, most)
    if d is None and m < n:
        rule = IteratedLeastSquares(matrix.structure.H, iteration)
        x = bind(rule, matrix.params, rest, block)[0]
    else:
        rule = IteratedLeastSquares(matrix.structure, iteration)
        x = bind(rule, matrix.params, block, rest)[1]
    return (x[..., 0] if vector else x), 0


def _damp(damp: Any, block: Any) -> Any:
    """An array (), or None for no damping."""
    if not is_array(damp):
        value = require_number("damp", damp, 0.0)
        return namespace(block).asarray(value, **alike(real(block))) if value else None
    d = as_float("damp", damp, block)
    together("damp", d, block)
    if d.ndim or is_complex(d):
        came = f"shape {tuple(d.shape)}, {d.dtype}"
        raise ValueError(expected_got("damp", "a real number", came, "It weighs all of x."))
    return d
