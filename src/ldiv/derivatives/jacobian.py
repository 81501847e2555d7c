"""Jacobians and Hessians of functions of arrays.

Dense, or on a sparsity pattern: columns of one color share a product.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import alike, is_complex, numpy_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT, IndexLike, to_caller
from ldiv.core.arrays.validate import (
    require_callable,
    require_float,
    require_option,
    require_ours,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import (
    asnumpy,
    frontend_of,
    in_one_wait,
    is_array,
    namespace,
    recorder,
    traced,
)
from ldiv.core.frameworks.looks import may_branch
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.rules.pushforward import OnlyReverse, jvp
from ldiv.derivatives.coloring import compression
from ldiv.engines.factors.analyses import analysed
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.entries import index_vector
from ldiv.matrices.foreign_entries import entries_of
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.verify_pattern import agreed
from ldiv.structures.sparse import Sparse

Function = Callable[[Any], Any]  # of users, on arrays of their framework
Mode = Literal["auto", "forward", "reverse", "both"]
# A sparse matrix of any library, or (rows, columns).
PatternLike: TypeAlias = SparseArray | AnyArray | tuple[IndexLike, IndexLike]
MODES = ("auto", "forward", "reverse", "both")


@overload
def jacobian(
    f: Callable[[ArrayT], AnyArray], x: ArrayT, *, mode: Mode = "auto", pattern: None = None
) -> ArrayT: ...
@overload
def jacobian(
    f: Callable[[ArrayT], AnyArray], x: ArrayT, *, mode: Mode = "auto", pattern: PatternLike
) -> SparseArray: ...
@public
def jacobian(
    f: Callable[[ArrayT], AnyArray],
    x: ArrayT,
    *,
    mode: Mode = "auto",
    pattern: PatternLike | None = None,
) -> ArrayT | SparseArray:
    """The Jacobian of a function of a vector, dense or on a sparsity pattern by a few products.

        J_ij = d f_i / d x_j

    Parameters
    ----------
    f : callable
        Maps a real array (n,) to an array (m,), through ldiv or not.
    x : array (n,)
        The point.
    mode : {"auto", "forward", "reverse", "both"}, default "auto"
        "forward" takes one product for each column, or color of columns; "reverse" one for each row, or
        color of rows. The word "both" takes long rows in reverse and the rest forward, "auto" the one of
        the fewest.
    pattern : sparse matrix or pair (rows, columns), optional
        All places where J may be nonzero, as a SparseArray, a sparse matrix of SciPy, PyTorch or
        JAX, or a pair of index vectors. See `detect_pattern`.

    Returns
    -------
    J : array (m, n) or SparseArray (m, n)
        A SparseArray on the pattern if there is one.

    Raises
    ------
    ValueError
        For a pattern that misses an entry, and for shapes.

    Notes
    -----
    Differentiable in x, and in what f closes over, as far as f is: a Newton step is
    `ldiv.solve(ldiv.jacobian(f, x, pattern=P), -f(x))`.
    A pattern that misses an entry is found in one of two ways. If f is traced (jax.jit), its program
    is followed once while it is traced, as `detect_pattern` does. If it shows that the pattern holds
    for every x, nothing is checked when it runs, and an entry that is not finite is returned as it
    is. In all other cases each call takes one more product, in a random
    direction, with which the entries must agree to sqrt(eps); entries must be finite.
    Where f has reverse mode alone (a jax.custom_vjp; in PyTorch a backward pass that cannot be
    differentiated, whose Jacobian cannot either) all products are reverse ones.

    Cost: min(m, n) products; with a pattern as many as it has colors (tridiagonal 3, five-point
    stencil 7, arrowhead 3), and the one that verifies it. PyTorch takes 1 reverse product more, with
    which all others must agree. The coloring is cached on the pattern.

    References
    ----------
    Gebremedhin, Manne and Pothen, SIAM Review 47 (2005); Griewank and Walther, Evaluating
    Derivatives, chapter 8.

    Examples
    --------
    >>> import ldiv, torch
    >>> f = lambda x: x[1:] * x[:-1]
    >>> ldiv.jacobian(f, torch.tensor([1.0, 2.0, 3.0]))
    tensor([[2., 1., 0.],
            [0., 3., 2.]])
    >>> P = ([0, 0, 1, 1], [0, 1, 1, 2])
    >>> ldiv.jacobian(f, torch.tensor([1.0, 2.0, 3.0]), pattern=P).data
    tensor([2., 1., 3., 2.])
    """
    require_option("mode", mode, MODES)
    at = require_vector("x", x)
    size = output_size(f, at)
    if pattern is None:
        by_rows = mode == "reverse" or (mode != "forward" and size < at.shape[0])
        order = "reverse" if by_rows else mode
        return to_caller(in_one_wait(at, lambda: dense_values(may_branch(f), at, size, order)))
    structure = on_pattern(pattern, (size, at.shape[0]))
    return SparseArray(structure, sparse_values(structure, mode, f, at))


@overload
def hessian(f: Callable[[ArrayT], AnyArray], x: ArrayT, *, pattern: None = None) -> ArrayT: ...
@overload
def hessian(f: Callable[[ArrayT], AnyArray], x: ArrayT, *, pattern: PatternLike) -> SparseArray: ...
@public
def hessian(
    f: Callable[[ArrayT], AnyArray], x: ArrayT, *, pattern: PatternLike | None = None
) -> ArrayT | SparseArray:
    """The Hessian of a scalar function of a vector, dense or on a pattern by a few products.

        H_ij = d^2 f / d x_i d x_j

    Parameters
    ----------
    f : callable
        Maps a real array (n,) to an array ().
    x : array (n,)
        The point.
    pattern : sparse matrix or pair (rows, columns), optional
        A symmetric pattern, as in `jacobian`.

    Returns
    -------
    H : array (n, n) or SparseArray (n, n)
        A SparseArray on the pattern if there is one.

    Raises
    ------
    ValueError
        For a pattern that is not symmetric or misses an entry, and for shapes.

    Notes
    -----
    Differentiable in x, and in what f closes over, as far as f is.
    Cost: n products with H, with a pattern as many as a star coloring has colors, and 1 more in a random
    direction, as in `jacobian`. A star coloring reads each entry at one of its two places.

    References
    ----------
    Gebremedhin, Manne and Pothen, SIAM Review 47 (2005).

    Examples
    --------
    >>> import ldiv, torch
    >>> ldiv.hessian(lambda x: (x[1:] * x[:-1]).sum(), torch.ones(2))
    tensor([[0., 1.],
            [1., 0.]])
    """
    at = require_vector("x", x)
    g, n = _gradient(f, at), at.shape[0]
    if pattern is None:
        return to_caller(in_one_wait(at, lambda: dense_values(g, at, n, "auto")))
    structure = on_pattern(pattern, (n, n))
    return SparseArray(structure, sparse_values(structure, "symmetric", g, at))


@public
def hvp(f: Callable[[ArrayT], AnyArray], x: ArrayT, v: ArrayT) -> ArrayT:
    """The product of the Hessian of a scalar function with a vector, without forming the Hessian.

        H v,    H_ij = d^2 f / d x_i d x_j

    Parameters
    ----------
    f : callable
        Maps a real array (n,) to an array ().
    x : array (n,)
        The point.
    v : array (n,)
        The vector.

    Returns
    -------
    y : array (n,)
        The product H v.

    Raises
    ------
    ValueError
        For shapes.

    Notes
    -----
    Differentiable in x and v, as far as f is.
    Cost: a few times that of f, whatever n is.

    Examples
    --------
    >>> import ldiv, torch
    >>> ldiv.hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor([ 6., 12.])
    """
    at, along = require_vector("x", x), require_vector("v", v)
    if along.shape != at.shape:
        raise value_error(
            "v",
            f"the shape {tuple(at.shape)} of x",
            str(tuple(along.shape)),
            "It is a direction at x.",
        )
    frontend_of(at, along)
    if along.dtype != at.dtype:  # which JAX does not allow
        along = namespace(at).astype(along, at.dtype)
    gradient = _gradient(f, at)
    product: ArrayT = in_one_wait(at, lambda: jvp(gradient, (at,), (along,)))[1]
    return product


def require_vector(name: str, x: Any) -> Array:
    x = require_float(name, x)
    if x.ndim != 1 or is_complex(x):
        came = f"shape {tuple(x.shape)} of {numpy_dtype(x)}"
        shape = tuple(x.shape)
        advice = (
            "Take real and imaginary parts as 2 n unknowns."
            if is_complex(x)
            else f"Pass {name}.reshape(-1), and lambda x: f(x.reshape({shape})).reshape(-1)."
        )
        raise value_error(name, "a real array (n,)", came, advice)
    if type(x) is np.ndarray and recorder("numpy") is None:
        advice = (
            "Write f with autograd.numpy after `import autograd` (pip install 'ldiv[autograd]'), or pass "
            "an array of PyTorch or JAX; of one rule ldiv.vjp has the pullback."
        )
        raise value_error(name, "an array whose operations are recorded", "one of NumPy", advice)
    return x


def require_function(f: Function) -> None:
    require_callable("f", f, "a function of x", "It returns an array.")


def output_size(f: Function, x: Array) -> int:
    require_function(f)
    y = f(x)
    if not is_array(y) or y.ndim != 1:
        raise value_error(
            "f",
            "a function with values (m,)",
            shown(y),
            "Flatten arrays. The gradient of one number is jacrev's of torch.func or jax, or "
            "ldiv.vjp(f, x)[1](1.0)[0]; its second derivatives are ldiv.hessian(f, x).",
        )
    return int(require_real_values(y, x).shape[0])


def require_real_values(y: Array, x: Array) -> Array:
    """Check y = f(x): an array of real values."""
    is_alike = type(y) is type(x) and y.dtype == x.dtype
    if is_alike and getattr(y, "device", None) == getattr(x, "device", None):
        return y
    require_ours("f", y)
    together("f", y, x)
    dtype = str(y.dtype).rpartition(".")[2]
    if dtype not in ("float32", "float64"):
        advice = "Take real and imaginary parts together, xp.concat([y.real, y.imag]); integers have no derivatives."
        raise type_error("f", "a function with real floating values", dtype, advice)
    return y


def _gradient(f: Function, x: Array) -> Function:
    require_callable("f", f, "a function of x", "It returns an array of shape ().")
    y = f(x)
    if not is_array(y) or y.ndim != 0:
        raise value_error(
            "f",
            "a function whose values are numbers",
            shown(y),
            "Sum them; jacobian is for vectors.",
        )
    one = namespace(y).ones((), **alike(require_real_values(y, x)))

    def gradient(x: Array) -> Array:
        return frontend_of(x).user.vjp(may_branch(f), (x,))[1](one)[0]

    return gradient


def products(f: Function, x: Array, seeds: Array) -> Array:
    """(J S)^T, (p, m), by one product for each row of S^T; OnlyReverse where there are none."""
    return frontend_of(x).user.pushed(f, x, seeds)


def cotangents(f: Function, x: Array, seeds: Array, pull: Any = None) -> Array:
    """R J, (q, n), by one product for each row of R."""
    user = frontend_of(x).user
    found: Array = user.rows(f, x, seeds) if pull is None else user.pulled(pull, seeds, f)[0]
    return found


def dense_values(f: Function, x: Array, size: int, mode: str) -> Array:
    xp = namespace(x)
    if mode == "auto" and frontend_of(x).user.prefers_rows(size, x):
        mode = "reverse"
    if mode != "reverse":
        with suppress(OnlyReverse):
            return products(f, x, xp.asarray(np.eye(x.shape[0]), **alike(x))).mT
    return cotangents(f, x, xp.asarray(np.eye(size), **alike(x)))


def on_pattern(pattern: Any, shape: tuple[int, int]) -> Sparse:
    rows, cols, own = _places(pattern, shape)
    outside = np.flatnonzero((rows < 0) | (rows >= shape[0]) | (cols < 0) | (cols >= shape[1]))
    if own != shape or len(outside):
        came = (
            f"shape {own}"
            if own != shape
            else f"the entry ({rows[outside[0]]}, {cols[outside[0]]})"
        )
        raise value_error(
            "pattern",
            f"entries of a matrix {shape}",
            came,
            "Rows are those of f (of a Hessian, of x), columns those of x, counted from 0.",
        )
    of_matrix = pattern.structure if isinstance(pattern, Matrix) else None
    if isinstance(of_matrix, Sparse) and not of_matrix.pattern.has_duplicates:
        return of_matrix  # with the coloring that is cached on it
    places = distinct(rows.astype(np.int64) * shape[1] + cols.astype(np.int64))
    found = Sparse(Pattern(places // shape[1], places % shape[1], shape))
    same: Sparse = analysed(
        "pattern", found, lambda: found
    )  # for equal patterns, with its coloring
    return same


def _places(pattern: Any, shape: tuple[int, int]) -> tuple[Index, Index, tuple[int, int]]:
    """Rows, columns and the shape of the matrix that the pattern belongs to."""
    if isinstance(pattern, SparseArray):
        m, n = pattern.structure.shape
        return pattern.row, pattern.col, (m, n)
    if (found := entries_of("pattern", pattern)) is not None:
        return found.rows, found.cols, found.shape
    if not isinstance(pattern, tuple | list) or len(pattern) != 2:
        raise type_error(
            "pattern",
            "a sparse matrix or a pair (rows, columns)",
            shown(pattern),
            "ldiv.detect_pattern makes one.",
        )
    rows, cols = (
        index_vector(f"{name} of pattern", v)
        for name, v in zip(("rows", "columns"), pattern, strict=True)
    )
    if len(rows) != len(cols):
        raise value_error(
            "pattern",
            "a row and a column for each entry",
            f"{len(rows)} rows, {len(cols)} columns",
            "They go together.",
        )
    return rows, cols, shape


def sparse_values(
    structure: Sparse,
    mode: str,
    f: Function,
    x: Array,
    run: Callable[..., Array] | None = None,
    multiply: Callable[..., Array] | None = None,
    is_right: bool = False,
) -> Array:
    """The entries of the Jacobian of f at x, on a pattern that is checked; with `is_right` the caller checks it.

    The program of a traced f may prove the pattern for all x; else the entries must agree with a
    product with a random direction. `run(g, *xs)` is g(*xs) for the functions that call f;
    `multiply(f, x, seeds)` are the products that come first, `products` or for a symmetric Jacobian
    `cotangents`.
    """
    proven = is_right or (traced(x) and covers(structure, frontend_of(x).dependence(f, x)))
    run = run or (lambda g, *xs: g(*xs))
    with suppress(OnlyReverse):
        return _by_both(structure, mode, f, x, proven, run, multiply or products)
    return _by_rows(structure, f, x, proven, run)


def on_host(g: Callable[..., Array], *xs: Array) -> Array:
    """g(*xs) as one program, for NumPy."""
    values: Array = asnumpy(frontend_of(*xs).user.compiled(g, *xs))
    return values


def _by_both(
    structure: Sparse,
    mode: str,
    f: Function,
    x: Array,
    proven: bool,
    run: Callable[..., Array],
    multiply: Callable[..., Array],
) -> Array:
    """The Jacobian from the products that a mode takes; one of the first products is random."""
    how, xp = compression(structure, mode), namespace(x)
    every = structure.cached(
        ("seeds", mode, proven),
        lambda: how.forward.T if proven else _and_random(how.forward.T, structure),
    )
    # With constant seeds a compiler computes the products with the linear part of f beforehand. A
    # gradient has so small a linear part that reading the constants would cost more.
    is_made = proven and traced(x) and mode == "symmetric"
    seeds = how.seeds(how.by_column, how.p, x) if is_made else xp.asarray(every, **alike(x))
    tangents = run(partial(multiply, f), x, seeds)
    parts = [tangents[: how.p]]
    if how.q:
        parts.append(run(partial(cotangents, f), x, xp.asarray(how.reverse, **alike(x))))
    entries = how.entries(*parts)
    return entries if proven else _agreed(structure, entries, every[-1], tangents[-1])


def _by_rows(
    structure: Sparse, f: Function, x: Array, proven: bool, run: Callable[..., Array]
) -> Array:
    """The Jacobian from reverse products, of which one is random: S^T u = J^T u."""
    how, xp = compression(structure, "reverse"), namespace(x)
    seeds = how.reverse if proven else _and_random(how.reverse, structure)
    found = run(partial(cotangents, f), x, xp.asarray(seeds, **alike(x)))
    entries = how.entries(found[:0], found[: how.q])
    if proven:
        return entries
    turned = structure.cached("turned", lambda: _turned(structure.pattern))
    return _agreed(turned, entries, seeds[-1], found[-1])


def _agreed(structure: Sparse, entries: Array, v: Index, y: Array) -> Array:
    """The entries, or an error unless they agree with y = J v."""
    return agreed(structure, entries, namespace(y).asarray(v, **alike(y)), y)


def _and_random(seeds: Index, structure: Sparse) -> Index:
    """Append one random direction to the seeds."""
    rng = np.random.default_rng(structure.pattern.nnz)
    return np.vstack([seeds, rng.standard_normal(seeds.shape[1])])


def _turned(pattern: Pattern) -> Sparse:
    return Sparse(Pattern(*pattern.places[::-1], pattern.shape[::-1]))


def covers(structure: Sparse, sets: Any) -> bool:
    """True if the pattern contains every entry that may be nonzero."""
    if sets is None:
        return False
    n, (rows, cols), (i, j) = sets.shape[1], structure.pattern.places, sets.tocoo().coords
    return bool(np.isin(i.astype(np.int64) * n + j, rows * n + cols).all())
