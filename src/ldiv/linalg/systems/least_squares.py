"""Rectangular systems: the public function, which validates and calls the rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, astype, batch_of, dots, eps, numpy_dtype, real
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import (
    as_block,
    as_float,
    require_batches,
    require_int,
    require_number,
    require_option,
)
from ldiv.core.calls.call import plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.rule import Run, apply, bind
from ldiv.errors import OF_DEPENDENT_COLUMNS, SingularMatrixError, shown, value_error
from ldiv.linalg.arguments.alternatives import only_one, require_none
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.systems.least_squares_solvers import OF_DAMP, roots, scaled_rows, solver_of
from ldiv.linalg.systems.lsqr import lsmr, lsqr
from ldiv.matrices.matrix import (
    Matrix,
    MatrixLike,
    as_matrix,
    beside,
    common_dtype,
    converted,
    replaced,
)
from ldiv.rules.assertion import checked
from ldiv.rules.least_squares import LeastSquares
from ldiv.rules.pseudo_inverse import PseudoInverse
from ldiv.structures.composed import is_dense
from ldiv.structures.diagonal import Diagonal

NO_DECOMPOSITION = "There is no decomposition that tells singular values: say damp."
Driver: TypeAlias = Literal["gelsd", "gelsy", "gelss"]


class LstsqResult(NamedTuple):
    """SciPy's four results."""

    x: Any
    residues: Any
    rank: Any
    s: Any


@public
@planned
def lstsq(
    a: MatrixLike,
    b: ArrayT,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: Driver | None = None,
    *,
    rcond: float | None = None,
    damp: float = 0.0,
    weights: AnyArray | None = None,
    rank: int | None = None,
    method: Literal["auto", "lsqr", "lsmr"] = "auto",
) -> LstsqResult:
    """Solve a rectangular linear system in the sense of least squares, differentiably.

        x = argmin |A x - b|                        for m >= n
        x = the shortest of all x with A x = b      for m < n
        x = argmin |W^(1/2) (A x - b)|^2 + damp^2 |x|^2

    Parameters
    ----------
    a : array (*batch, m, n), SparseArray, or a sparse matrix of another library
        The matrix, of full rank unless damp > 0 or `rank` is given; also any Matrix made of parts
        with entries, and with "lsqr" and "lsmr" a LinearOperator.
    b : array (m,) or (*batch, m, k)
        A one-dimensional b is a vector, anything else a block of columns.
    cond : float, optional
        Refuse a matrix with a singular value of at most cond times the largest.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted, as in SciPy: nothing is ever overwritten, and numbers are always checked.
    lapack_driver : {"gelsd", "gelsy", "gelss"}, optional
        "gelsd" and "gelss" return the singular values, too, which cost more than the solution.
    rcond : float, optional
        The name of cond in NumPy, PyTorch and JAX.
    damp : float, default 0
        Damping, as in SciPy's `lsqr` (ridge regression, Tikhonov).
    weights : array (m,) or (*batch, m), optional
        Weights of the rows, none negative; a row of weight 0 does not count.
    rank : int, optional
        The rank of a dense A, if it is not full; x is then the shortest of all minimizers.
    method : {"auto", "lsqr", "lsmr"}, default "auto"
        Factors, or the iteration of this name with its default tolerance; the function of the same
        name takes tolerances, a preconditioner and a start.

    Returns
    -------
    x : array (n,) or (*batch, n, k)
        The solution.
    residues : array (*batch, k)
        |b - A x|^2 of each column, its rows weighted; of shape (0,) if m <= n or the rank is less
        than n, and with "gelsy".
    rank : int, or array of these (*batch,)
        min(m, n), or the given `rank`.
    s : array (*batch, min(m, n)) or None
        The singular values, descending; with "gelsd" and "gelss" only, and of a dense A.

    Raises
    ------
    SingularMatrixError
        For a matrix without full rank, its columns (or the rows of a wide one) scaled to 1.
    ValueError
        For shapes that do not fit, NaN and infinity, negative weights, another rank
        than the given one, rank with damp, and for cond, lapack_driver and rank with a sparse A.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Of two dtypes the wider is used. Parts with entries are, for example, banded matrices, Kronecker and
    other products, sums and blocks. Without lapack_driver, and with "gelsy", s is None; x is always
    the same.

    The message for a sparse matrix without full rank says its rank. Sparse matrices are also refused
    from a condition of about 1e11 on, columns scaled.

    With `rank` singular values of at most cond times the largest, by default max(m, n) eps, count as 0.
    A must have this rank wherever it is differentiated; the derivative is that at constant rank.

    Differentiable in A, b and weights in every mode and order, by the augmented system
    [[I, A], [A^H, 0]], which is its own adjoint. The cotangent of a sparse A is on its pattern.

    A wide A is solved by the dual problem, x = A^H y with (A A^H + damp^2 I) y = b, in which derivatives
    are right however small damp is.

    Cost: 1 QR factorization, which the derivative reuses; each direction of a derivative
    2 triangular solves and 4 products. Of a sparse A 1 factorization of the augmented matrix, of
    size m + n, and for each direction 2 solves with it; of a Kronecker product those of its factors.
    `factorized(a, method="lstsq")` keeps the factorization for other b. For a sparse A residuals have
    twice the digits, and x more correct ones than by QR. With rank 1 singular value decomposition,
    and products for the derivative.

    References
    ----------
    Bjorck, Numerical Methods for Least Squares Problems (1996); Golub and Pereyra (1973).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> a, b = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 3.0, 5.0])
    >>> x, residues, rank, s = ldiv.lstsq(a, b)
    >>> x.round(12)
    array([1., 2.])
    """
    name, cond = "cond" if rcond is None else "rcond", only_one("cond", cond, "rcond", rcond)
    damp = require_number("damp", damp, 0, advice=OF_DAMP)
    require_option("method", method, ("auto", "lsqr", "lsmr"))
    if method != "auto":
        given = {name: cond, "lapack_driver": lapack_driver, "rank": rank}
        require_none(f"none with method={method!r}", NO_DECOMPOSITION, **given)
        return _by_iteration(lsqr if method == "lsqr" else lsmr, a, b, damp, weights)
    matrix = a if isinstance(a, Matrix) else converted("a", a)
    if matrix is not None and not is_dense(matrix.structure):
        given = {name: cond, "lapack_driver": lapack_driver, "rank": rank}
        require_none("none with a sparse matrix", NO_DECOMPOSITION, **given)
    else:
        a = a if matrix is None else matrix.structure.todense(matrix.params)
        matrix = as_matrix("a", require_matrix_array("a", a, b))
    matrix = beside(matrix, b, weights)
    like, (m, n) = leaves(matrix.params)[0], matrix.structure.shape
    block, vector = as_block("b", b, m, like)
    require_batches("b", matrix.batch, batch_of(block, 2))
    params, block = common_dtype(matrix.params, block)
    matrix = replaced(matrix, params)
    by_qr = weights is None and rank is None and cond is None and not damp
    if by_qr and is_dense(matrix.structure) and lapack_driver in (None, "gelsy"):
        is_as_given = type(b) is type(block) and b.dtype == block.dtype
        side: Any = (b if is_as_given else block[..., 0]) if vector else block
        minimum = LeastSquares("b") if m >= n else LeastSquares("c", (False, True))
        shape = m, n, len(matrix.batch) > 0, vector
        return plan(minimum, [params, side], partial(_of_full_rank, *shape, lapack_driver), _by_qr)
    if weights is not None:
        root = roots(weights, m, block)
        matrix, block = scaled_rows(matrix, root), root[..., None] * block
    if rank is not None:
        if damp:
            advice = "No rank is lacking with damp > 0: leave it out."
            raise value_error("rank", "none with damp", shown(rank), advice)
        tolerance = eps(block) * max(m, n) if cond is None else require_number(name, cond, 0)
        rule = PseudoInverse(tolerance, promised=require_int("rank", rank, 0))
        x = bind(rule, matrix.params)[0] @ block
    else:
        if cond is not None and min(m, n):
            above = checked(_Above(require_number(name, cond, 0)), matrix.params)
            matrix = replaced(matrix, above)
        x = solver_of(matrix, damp).solve(block)
    a = matrix.params if is_dense(matrix.structure) else matrix
    residues, rank, s = _quality(a, block, x, lapack_driver, rank)
    if not vector:
        return LstsqResult(x, residues, rank, s)
    own = residues[..., 0] if residues.shape != (0,) else residues
    return LstsqResult(x[..., 0], own, rank, s)


def _by_qr(rule: Any, run: Run, flat: list[Any]) -> tuple[Any, ...]:
    """R and X: a use of the rule, as `plan` takes it, for A (m, n) and one vector or a block."""
    a, b = flat
    b = b[..., None] if b.ndim == 1 else b
    return apply(rule, run, [a if rule.given == "b" else adjoint(a), b])


def _of_full_rank(
    m: int, n: int, many: bool, vector: bool, driver: str | None, out: tuple[Any, ...]
) -> LstsqResult:
    """SciPy's results of R and X; of a wide A, X of the dual problem is of no interest."""
    r, x = out if m >= n else (None, out[0])
    rank = min(m, n)
    ranks = np.full(x.shape[:-2], rank) if many else rank
    if r is not None and m > n and driver != "gelsy":
        residues = real(dots(r, r))
        residues = residues[..., 0] if vector else residues
    else:
        residues = namespace(x).zeros((0,), **alike(real(x)))
    return LstsqResult(x[..., 0] if vector else x, residues, ranks, None)


def _by_iteration(
    solve: Callable[..., tuple[Any, int]], a: Any, b: Any, damp: float, weights: Any
) -> LstsqResult:
    A = as_matrix("a", a, b)
    m = A.structure.shape[0]
    block, vector = as_block(
        "b", b, m, leaves(A.params)[0] if leaves(A.params) else as_float("b", b)
    )
    if weights is not None:
        root = roots(weights, m, block)
        rows = Matrix(Diagonal(m), astype(root, numpy_dtype(block)))
        A, block = rows @ A, root[..., None] * block
    x, _ = solve(A, block, damp=damp)
    residues, rank, _ = _quality(A, block, x, None, None)
    if vector:
        x, residues = x[..., 0], residues[..., 0] if residues.shape != (0,) else residues
    return LstsqResult(x, residues, rank, None)


def _quality(
    a: Any, b: Array, x: Array, driver: str | None, promised: int | None
) -> tuple[Array, Any, Array | None]:
    """SciPy's residues, rank and singular values."""
    if driver is not None:
        require_option("lapack_driver", driver, get_args(Driver))
    (m, n), xp = a.shape[-2:], namespace(b)
    s = frontend_of(a).dense.svdvals(a) if driver in ("gelsd", "gelss") else None
    rank = min(m, n) if promised is None else promised
    residues = xp.zeros((0,), **alike(real(b)))
    if m > n == rank and driver != "gelsy":
        residues = xp.sum(xp.abs(b - a @ x) ** 2, axis=-2)
    return residues, np.full(a.shape[:-2], rank) if len(a.shape) > 2 else rank, s


@dataclass(frozen=True)
class _Above:
    """Raise unless the least singular value exceeds this fraction of the largest."""

    cond: float

    def __call__(self, a: Array) -> None:
        s = frontend_of(a).dense.svdvals(a)
        check_or_raise((s[..., -1] > self.cond * s[..., 0]).all(), self._deficient)

    def _deficient(self) -> SingularMatrixError:
        return SingularMatrixError(
            "lstsq",
            f"a singular value of at most cond={self.cond:.1e} times the largest",
            causes=OF_DEPENDENT_COLUMNS,
            verdict="has not full rank",
        )
