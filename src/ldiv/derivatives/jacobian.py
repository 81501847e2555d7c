"""Jacobians, Hessians and Hessian-vector products of functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

from ldiv.core.arrays.shapes import alike
from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import require_callable, require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, in_one_wait, is_array, namespace
from ldiv.core.frameworks.looks import may_branch
from ldiv.core.rules.pushforward import jvp
from ldiv.derivatives.function_arguments import (
    Function,
    PatternLike,
    on_pattern,
    output_size,
    require_real_values,
    require_vector,
)
from ldiv.derivatives.jacobian_values import dense_values, sparse_values
from ldiv.errors import shown, value_error
from ldiv.matrices.sparse_array import SparseArray

Mode = Literal["auto", "forward", "reverse", "both"]

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
