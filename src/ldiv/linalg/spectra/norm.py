"""Norms of dense and sparse matrices and of vectors, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator
from scipy.sparse.linalg import onenormest as scipys_onenormest

from ldiv.core.arrays.shapes import beside, conj, real, result_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import as_float, require_flag, require_int, require_square
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, asnumpy, constant, namespace, traced
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.finite import finite, require_known_finite, unwarned
from ldiv.core.rules.record import is_recording
from ldiv.core.rules.rule import bind
from ldiv.errors import LinAlgOverflowError, shown, value_error
from ldiv.linalg.arguments.alternatives import not_in_a_trace
from ldiv.linalg.spectra.dense_svd import svdvals
from ldiv.linalg.spectra.svd import svds
from ldiv.matrices.construct import sparse_of
from ldiv.matrices.matrix import MatrixLike, as_matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.norm import Norm

Order: TypeAlias = float | Literal["fro", "nuc"] | None
OF_MATRICES = ("'fro', 'nuc', 1, -1, 2, -2, inf or -inf", "See SciPy's norm.")


@public
def norm(
    a: ArrayT | SparseArray,
    ord: Order = None,
    axis: int | tuple[int, int] | None = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Any:
    """Compute a norm of a vector or a matrix, dense or sparse, differentiably.

        |x|_p = (sum |x_i|^p)^(1/p);    |A|_fro, max_j sum_i |a_ij| (1), its rows (inf), s_1 (2)

    Parameters
    ----------
    a : array or SparseArray
        A vector, a matrix, or more axes. What a sparse matrix does not store is 0.
    ord : {"fro", "nuc", inf, -inf, 1, -1, 2, -2} or a number, optional
        Which norm; of vectors any number. By default the root of the sum of all squares.
    axis : int or pair of int, optional
        The axis of vectors, or the two of matrices. By default all axes where ord is not given, and
        those of the one vector or matrix where it is. Of a sparse matrix: 0 or 1 for the 1- or
        2-norms of its columns or rows.
    keepdims : bool, default False
        Keep the axes, with size 1; not for sparse matrices.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    norm : array
        The norm, or norms; real.

    Raises
    ------
    NotDifferentiableError
        In the derivative of 2, -2 and "nuc", as for `svdvals`.
    ValueError
        For an ord or axis that is not one of these, for empty matrices without a largest number,
        and for NaN, infinity and overflow.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    Notes
    -----
    Differentiable by PyTorch and JAX in every mode and order; where a number is 0, or all of
    them, the derivative is one of the subgradients: 0, but for sums of |x_i| by JAX 1. Where entries, or the sums of 1, -1, inf and
    -inf, attain the extreme together, it is the mean of theirs, as in PyTorch. With NumPy arrays `ldiv.vjp` and `ldiv.jvp`, of
    dense arrays and of a SparseArray without duplicates where ord is None or "fro".
    Cost: one pass over the numbers; 1 decomposition as in `svd` for 2, -2 and "nuc"; of a sparse
    matrix `svds` for 2.

    References
    ----------
    Golub and Van Loan, sections 2.2 and 2.3.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = np.array([[3.0, 0.0], [0.0, -4.0]])
    >>> float(ldiv.norm(A)), float(ldiv.norm(A, 1)), float(ldiv.norm(ldiv.asarray(A), 2))
    (5.0, 4.0, 4.0)
    """
    keep = require_flag("keepdims", keepdims)
    if ord is not None and not isinstance(ord, str):
        _number(ord, OF_MATRICES[0])
    matrix = a if isinstance(a, SparseArray) else sparse_of("a", a)
    if matrix is not None:
        if keep:
            advice = "Put the axis back by indexing."
            raise value_error("keepdims", "False for a sparse matrix", "True", advice)
        return _computed(lambda: _of_sparse(matrix, ord, axis), matrix.data)
    x = as_float("a", a)
    axes = _axes(x, ord, axis)
    if is_recording() and isinstance(x, np.ndarray) and axes:
        return _as_one_rule(x, ord, axes, keep)
    of_matrix, x, kept = _arranged(x, ord, axis, axes)
    of = _of_matrices if of_matrix else _of_vectors
    found = _computed(lambda: as_one_node(lambda x: _checked(of(x, ord)), x), x)
    return namespace(found).reshape(found, kept) if keep else found


def _checked(x: Array) -> Array:
    return finite("norm", x)


def _computed(compute: Callable[[], Array], x: Array) -> Array:
    """Return compute() without warnings; NaN or infinity in x is not called an overflow."""
    try:
        with unwarned():
            return compute()
    except (LinAlgOverflowError, ValueError):
        require_known_finite("a", x)
        raise


def _as_one_rule(x: Array, ord: Any, axes: tuple[int, ...], keep: bool) -> Array:
    """Compute the norm by a single rule, as `vjp` and `jvp` of NumPy arrays require."""
    own = tuple(i - x.ndim for i in axes)
    if ord is None or (isinstance(ord, str) and len(axes) == 2 and ord in ("fro", "nuc")):
        rule = Norm(ord or "fro", own, x.ndim)
    else:
        p = _number(ord, OF_MATRICES[0] if len(axes) == 2 else "any number for vectors")
        if len(axes) == 2 and p not in (1, -1, 2, -2, inf, -inf):
            raise value_error("ord", OF_MATRICES[0], shown(ord), OF_MATRICES[1])
        if p < 0 and any(x.shape[i] == 0 for i in axes):
            raise _no_smallest(x)
        rule = Norm(p, own, x.ndim)
    (found,) = bind(rule, x)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return found.reshape(kept) if keep else found


def _axes(x: Array, ord: Any, axis: Any) -> tuple[int, ...]:
    """The axes of the norm, all of them by default."""
    if axis is None:
        if ord is not None and x.ndim not in (1, 2):
            advice = "Say which axes are those of the matrices."
            raise value_error("axis", "one or two axes", shown(axis), advice)
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(require_int("axis", i, -x.ndim, x.ndim - 1) % x.ndim for i in given)
    if len(axes) not in (1, 2) or len(set(axes)) < len(axes):
        advice = "One for vectors, two for matrices."
        raise value_error("axis", "one or two different axes", shown(axis), advice)
    return axes


def _arranged(
    x: Array, ord: Any, axis: Any, axes: tuple[int, ...]
) -> tuple[bool, Array, tuple[int, ...]]:
    """Return whether x holds matrices, x with their axes last, and the shape of keepdims."""
    xp = namespace(x)
    if axis is None and ord is None:
        return False, xp.reshape(x, (-1,)), (1,) * x.ndim
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return len(axes) == 2, xp.permute_dims(x, (*rest, *axes)), kept


def _of_vectors(x: Array, ord: Any) -> Array:
    xp = namespace(x)
    if ord is None or ord == 2:
        return _root_of_squares(x)
    p = _number(ord, "any number for vectors")
    if p == 0:
        require_known_finite("a", x)
        return xp.sum(real(xp.astype(x != 0, x.dtype)), axis=-1)
    if p in (inf, -inf) or x.shape[-1] == 0:
        return _extreme(xp.abs(x), p > 0, -1)
    return xp.sum(xp.abs(x), axis=-1) if p == 1 else bind(Norm(p, (-1,), x.ndim), x)[0]


def _of_matrices(x: Array, ord: Any) -> Array:
    xp = namespace(x)
    if ord is None or ord == "fro":
        return _root_of_squares(xp.reshape(x, (*x.shape[:-2], prod(x.shape[-2:]))))
    if ord == "nuc":
        return xp.sum(svdvals(x), axis=-1)
    p = _number(ord, OF_MATRICES[0])
    if p in (1, -1, inf, -inf):
        sums = xp.sum(xp.abs(x), axis=-2 if p in (1, -1) else -1)
        return _extreme(sums, p > 0, -1)
    if p in (2, -2):
        s = svdvals(x)  # descending; where s_1 = s_2 there is no derivative, unlike of a `max`
        return s[..., 0 if p > 0 else -1] if s.shape[-1] else _extreme(s, p > 0, -1)
    raise value_error("ord", OF_MATRICES[0], shown(ord), OF_MATRICES[1])


def _of_sparse(a: SparseArray, ord: Any, axis: Any) -> Array:
    once = a.sum_duplicates()
    if axis is not None and not isinstance(axis, tuple | list):
        which = require_int("axis", axis, -2, 1) % 2
        if ord is None or ord == 2:
            squares = once.with_data(real(once.data * conj(once.data))).sum(axis=which)
            return _checked(_root(squares))
        what = "1, 2, inf or -inf for the axis of a sparse matrix"
        if (p := _number(ord, what)) == 1:
            return _checked(abs(once).sum(axis=which))
        if p in (inf, -inf):
            return _checked(abs(once).max(axis=which) if p > 0 else abs(once).min(axis=which))
        raise value_error("ord", what, shown(ord), OF_MATRICES[1])
    if ord is None or ord == "fro":
        if is_recording() and isinstance(once.data, np.ndarray) and once.nnz:
            return _as_one_rule(once.data, None, (once.data.ndim - 1,), False)
        return _checked(_root_of_squares(once.data))
    order = None if isinstance(ord, str) else _number(ord, OF_MATRICES[0])
    if order in (1, -1, inf, -inf):
        return _checked(_extreme(abs(once).sum(axis=0 if ord in (1, -1) else 1), ord > 0, -1))
    if order == 2:
        return svds(once, 1, return_singular_vectors=False)[..., 0]
    what = "'fro', 1, -1, 2, inf or -inf for a sparse matrix"
    raise value_error("ord", what, shown(ord), "Or norm(A.toarray(), ord).")


def _number(ord: Any, what: str) -> float:
    if isinstance(ord, bool) or not isinstance(ord, int | float | np.number) or ord != ord:
        raise value_error("ord", what, shown(ord), OF_MATRICES[1])
    try:
        return float(ord)
    except OverflowError:  # of integers beyond the range
        return inf if ord > 0 else -inf


def _extreme(x: Array, largest: bool, axis: int) -> Array:
    """Return the largest or smallest nonnegative number along an axis; the largest of none is 0."""
    xp = namespace(x)
    if x.shape[axis] == 0:
        if largest:
            return xp.sum(x, axis=axis)
        raise _no_smallest(x)
    return xp.max(x, axis=axis) if largest else xp.min(x, axis=axis)


def _no_smallest(x: Array) -> ValueError:
    what, came = "at least one number", f"shape {tuple(x.shape)}"
    return value_error("a", what, came, "The smallest of no numbers is not defined.")


def _root_of_squares(x: Array) -> Array:
    """Compute |x|_2, scaled by the largest entry so that no square over- or underflows."""
    xp = namespace(x)
    if x.shape[-1] == 0:
        return real(xp.sum(x, axis=-1))
    size = xp.max(xp.abs(constant(x)), axis=-1)
    size = xp.where(size == 0, 0 * size + 1, size)
    unit = x / size[..., None]
    return size * _root(xp.sum(real(unit * conj(unit)), axis=-1))


def _root(x: Array) -> Array:
    """The square root, with the derivative 0 at 0."""
    xp = namespace(x)
    return xp.where(x == 0, 0 * x, xp.sqrt(xp.where(x == 0, 0 * x + 1, x)))


@public
def onenormest(
    A: MatrixLike, t: int = 2, itmax: int = 5, compute_v: bool = False, compute_w: bool = False
) -> float | tuple[float | AnyArray, ...]:
    """Estimate the 1-norm of a matrix by a few products with blocks: a lower bound, mostly equal.

        |A|_1 = max_j sum_i |a_ij|

    Parameters
    ----------
    A : array (n, n), SparseArray, or any other Matrix
        The matrix; of `factorized(B).inverse`, |B^-1|_1, and so the condition of B.
    t : int, default 2
        The columns of a block; more are more accurate.
    itmax : int, default 5
        The most steps.
    compute_v, compute_w : bool, default False
        Return the vectors v and w = A v with |w|_1 / |v|_1 = est, too.

    Returns
    -------
    est : float
        The estimate.
    v, w : array (n,)
        Of NumPy; with compute_v, compute_w.

    Raises
    ------
    ValueError
        For a matrix that is not square, and for batches.
    TypeError
        In a trace (jit, vmap), and for dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    norm : exactly, where the entries are there.

    Notes
    -----
    Not differentiable: a bound. `solve(..., info=True)` has the condition of a solve.
    Cost: at most 2 t itmax products with A and A^H.

    References
    ----------
    Higham and Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), by SciPy.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([2 * np.ones(9), -np.ones(8), -np.ones(8)], offsets=[0, 1, -1])
    >>> inverse = ldiv.factorized(A).inverse
    >>> float(ldiv.onenormest(A)), round(float(ldiv.onenormest(inverse)), 6)
    (4.0, 12.5)
    """
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    flat, n = leaves(matrix.params), matrix.structure.shape[0]
    if any(map(traced, flat)):
        raise not_in_a_trace("onenormest")
    if matrix.batch or n == 0:
        came, advice = f"shape {matrix.shape}", "Estimate them one by one."
        raise value_error("A", "one matrix with at least one row", came, advice)
    like, dtype = constant(flat[0]), result_dtype(matrix.params)

    def times(f: Any) -> Any:
        def product(x: Any) -> Any:
            block = namespace(like).asarray(np.asarray(x, dtype), **beside(like))
            return asnumpy(f @ block)

        return product

    forward, backward = times(matrix), times(matrix.H)
    operator = LinearOperator(
        (n, n), matvec=forward, rmatvec=backward, matmat=forward, rmatmat=backward, dtype=dtype
    )
    return scipys_onenormest(
        operator,
        t=require_int("t", t, 1),
        itmax=require_int("itmax", itmax, 1),
        compute_v=require_flag("compute_v", compute_v),
        compute_w=require_flag("compute_w", compute_w),
    )
