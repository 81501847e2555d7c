"""Least squares by products with A and A^H, under SciPy's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ldiv.core.arrays.shapes import (
    alike,
    astype,
    batch_of,
    common_batch,
    is_complex,
    numpy_dtype,
    real,
)
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import (
    as_block,
    as_float,
    require_batches,
    require_flag,
    require_int,
    require_number,
    require_option,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, is_array, namespace, scatter
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import VIEWS
from ldiv.core.rules.units import unit_along
from ldiv.engines.iterative.bidiagonalization import Bidiagonalization
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.alternatives import require_none
from ldiv.linalg.arguments.preconditioner import PreconditionerLike
from ldiv.matrices.compose import block_array
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.rules.iterated_least_squares import IteratedLeastSquares
from ldiv.structures.composed import is_dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse

FROM_ZERO = "The iteration is for y with x = A^H y: it starts from 0."


@public
def lsqr(
    A: MatrixLike,
    b: ArrayT,
    damp: float | AnyArray = 0.0,
    atol: float | None = None,
    btol: float | None = None,
    conlim: float = 0.0,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: AnyArray | None = None,
    M: PreconditionerLike | None = None,
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
    conlim : float, default 0
        Raise where the estimate of the condition of A, or of A M, exceeds this number; 0 is no
        limit. SciPy returns the x of this step, at 1e8 by default.
    iter_lim : int, optional
        Steps at most, by default ten for each row or column, whichever are more.
    show : bool, default False
        Print how far the iterations have come, those of derivatives, too.
    calc_var : bool
        Only False: SciPy's variances are estimates, less than `inverse_diagonal(A.T @ A)`.
    x0 : array (n,) or (*batch, n, k), optional
        Where the iteration starts: x does not depend on it. None with a wide A.
    M : "jacobi", Matrix (n, n), or what `factorized` returns, optional
        A preconditioner from the right: the iteration is on A M, and x = M y. "jacobi" scales the
        columns of A, which must be a SparseArray or an array, to norm 1. M may also be, for
        example, `factorized` of the triangle R of an incomplete QR factorization. The solution x
        does not depend on M. With a wide A the iteration is on A^H M, and M (m, m).

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
        For shapes, dtypes, NaN and infinity, and for x0 with a wide A.
    EngineError
        For an operator in a trace: SciPy calls it with numbers.

    Notes
    -----
    Differentiable in A, b and damp, in every mode and order; no derivative is taken through a step.
    Of SciPy's ten results here are two; numbers of the others are properties of A and x.

    Cost: one iteration for x, of a wide A two, and up to two for each tangent or cotangent; a step is
    one product with A and one with A^H. A wide A goes by the dual problem, x = A^H y with
    (A A^H + damp^2 I) y = b, whose derivatives are right however small `damp` is.
    Errors grow with the condition of A, those of a derivative with its square where |A x - b| is
    large.

    Reference: Paige and Saunders, ACM Trans. Math. Softw. 8 (1982).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> x, info = ldiv.lsqr(A, np.array([1.0, 3.0, 5.0]))
    >>> x.round(6), info
    (array([1., 2.]), 0)
    """
    if require_flag("calc_var", calc_var):
        advice = "SciPy's are estimates, less than ldiv.inverse_diagonal(A.T @ A)."
        raise value_error("calc_var", "False", "True", advice)
    stops = Bidiagonalization("lsqr", atol, btol, iter_lim, conlim, show)
    return _solved(stops, A, b, damp, "iter_lim", x0, M)


@public
def lsmr(
    A: MatrixLike,
    b: ArrayT,
    damp: float | AnyArray = 0.0,
    atol: float | None = None,
    btol: float | None = None,
    conlim: float = 0.0,
    maxiter: int | None = None,
    show: bool = False,
    x0: AnyArray | None = None,
    M: PreconditionerLike | None = None,
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
    atol, btol, conlim, maxiter, show, x0, M : optional
        As `atol`, `btol`, `conlim`, `iter_lim`, `show`, `x0` and `M` of `lsqr`.

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
    stops = Bidiagonalization("lsmr", atol, btol, maxiter, conlim, show)
    return _solved(stops, A, b, damp, "maxiter", x0, M)


def _solved(
    stops: Bidiagonalization, A: Any, b: Any, damp: Any, limit: str, x0: Any, M: Any
) -> Any:
    matrix = as_matrix("A", A, b, damp, x0, M)
    (m, n), p = matrix.structure.shape, matrix.params
    like = leaves(p)[0] if leaves(p) else as_float("b", b)
    block, vector = as_block("b", b, m, like)
    require_batches("b", common_batch(matrix.structure.core, p), batch_of(block, 2))
    for option in ("atol", "btol", "conlim"):
        if (value := getattr(stops, option)) is not None or option == "conlim":
            require_number(option, value, 0.0)
    if stops.maxiter is not None:
        require_int(limit, stops.maxiter, 1)
    require_flag("show", stops.show)
    d = _damp(damp, block)
    xp, (*batch, _, k) = namespace(block), block.shape
    T = matrix if m >= n else matrix.H
    right = None if M is None else _right(M, x0, T)
    below = xp.zeros((*batch, T.structure.shape[1], k), **alike(block))
    if d is not None:
        weights = astype(d, numpy_dtype(block)) * xp.ones(below.shape[-2:-1], **alike(block))
        T = block_array([[T], [Matrix(Diagonal(below.shape[-2]), weights)]])
    A = T if right is None else T @ right
    rule = IteratedLeastSquares(A.structure, stops)
    if m >= n:  # T x = [b; 0]
        side = block if d is None else xp.concat([block, below], axis=-2)
        start = below if x0 is None else _start(x0, n, below)
        x = bind(rule, A.params, side, below, start)[1]
        x = x if right is None else right @ x
    else:  # the shortest [x; s] with T^H [x; s] = b
        require_none("none with a wide A", FROM_ZERO, x0=x0)
        side = block if right is None else right.H @ block
        none = xp.zeros((*batch, T.structure.shape[0], k), **alike(block))
        # of (A^H y, y) alone the first is wanted
        dual = replace(rule, auxiliary=(False, True))
        x = bind(dual, A.params, none, side, below)[0][..., :n, :]
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
        raise value_error("damp", "a real number", came, "It weighs all of x.")
    return d


def _start(x0: Any, n: int, rest: Array) -> Array:
    """x0 as a constant block."""
    start, _ = as_block("x0", x0, n, rest)
    require_batches("x0", batch_of(rest, 2), batch_of(start, 2))
    return constant(start + 0 * rest)


def _right(M: Any, x0: Any, A: Matrix) -> Matrix:
    """The preconditioner of a tall A as a constant matrix (n, n)."""
    if x0 is not None:
        advice = "Its start would be M^-1 x0: leave one of them out."
        raise value_error("x0", "none with M", shown(x0), advice)
    n, like = A.structure.shape[1], leaves(A.params)
    if isinstance(M, str):
        require_option("M", M, ("jacobi",))
        return Matrix(Diagonal(n), _of_columns(A))
    matrix = M if isinstance(M, Matrix) else getattr(M, "inverse", None)
    matrix = as_matrix("M", M if matrix is None else matrix, *like)
    if matrix.structure.shape != (n, n):
        came = str(matrix.structure.shape)
        advice = "It acts from the right on A, or on A^H of a wide A."
        raise value_error("M", f"shape {(n, n)}", came, advice)
    fixed = [constant(leaf) for leaf in leaves(matrix.params)]
    return Matrix(matrix.structure, rebuild(matrix.structure.core, fixed))


def _of_columns(A: Matrix) -> Array:
    """1 / |a_j|, and 1 / max |A| or so for a column of zeros."""
    S, p = A.structure, A.params
    base, op = S.unview()
    if isinstance(base, Sparse):
        entries, t = base.entries, unit_along(p, (-1,))
        cols = entries.rows if VIEWS[op][0] else entries.cols
        squares = scatter(_squares(p, t)[..., None], cols, S.shape[1])[..., 0]
    elif is_dense(S):
        p = S.todense(p)
        t = unit_along(p, (-2, -1))
        squares, t = namespace(p).sum(_squares(p, t), axis=-2), t[..., 0]
    else:
        advice = "Its columns are not at hand: give a Matrix."
        raise value_error("M", "a Matrix for this A", "'jacobi'", advice)
    xp = namespace(p)
    # (t^2 |a_j|) / t^2
    return astype(t / xp.sqrt(xp.where(squares > 0, squares, 1.0)) * t, numpy_dtype(p))


def _squares(x: Array, t: Array) -> Array:
    """|t^2 x|^2."""
    squares: Array = namespace(x).abs(constant(x) * t * t) ** 2
    return squares
