"""vjp and jvp: one derivative of a function of arrays.

In PyTorch and JAX of any function, in NumPy of a function that applies one rule, or that autograd
records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ldiv.core.arrays.shapes import is_complex, numpy_dtype
from ldiv.core.arrays.validate import require_callable, require_numbers, require_ours
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, in_one_wait, is_array, namespace
from ldiv.core.frameworks.looks import may_branch
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules import pushforward
from ldiv.core.rules.record import snapshot
from ldiv.derivatives import numpy_record
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.matrix import Matrix, MatrixLike, beside, converted
from ldiv.matrices.sparse_array import SparseArray

T = TypeVar("T")  # what f returns


@public
def vjp(f: Callable[..., T], *args: MatrixLike) -> tuple[T, Callable[[Any], tuple[Any, ...]]]:
    """Evaluate a function, and pull cotangents of its value back to its arguments.

        y, pullback = vjp(f, *args);    pullback(y_bar)[i] = args_bar[i]
        dL = Re <y_bar, dy> = sum_i Re <args_bar[i], d args[i]>

    Parameters
    ----------
    f : callable
        Returns an array, or a tuple of arrays. With PyTorch and JAX arrays any function; with NumPy
        arrays one that applies one rule, as `ldiv.solve` or `lambda A, b: ldiv.solve(A, b,
        assume_a="pos")`. Where HIPS autograd is installed also those functions of ldiv that apply
        several, as `ldiv.quad_form`, and yours, written with autograd.numpy.
    *args : arrays, sparse arrays and other matrices
        The arguments of f. Sparse matrices of other libraries are taken for SparseArrays.

    Returns
    -------
    y : array or tuple of arrays
        The value f(*args).
    pullback : callable
        Takes a cotangent like y, a tuple where y is one, with None for zero; returns the tuple of
        the cotangents of args. That of a SparseArray is a SparseArray on the same pattern.

    Raises
    ------
    TypeError
        For a complex cotangent of a real value.
    ValueError
        With NumPy, without autograd, if f applies several rules or changes an argument on the way,
        and with it, if f computes with numpy itself; and if f writes to an argument.

    Notes
    -----
    Differentiable in PyTorch and JAX.
    Complex cotangents have the sign of PyTorch's gradients in all frameworks; those of jax.vjp are
    their conjugates.
    The pullback holds copies of the arguments and of the value, with NumPy of all arguments of the
    rule: the originals may be overwritten. In PyTorch, what f closes over may not.
    Cost: that of f and the copies; the pullback of a solve is 1 more solve with the same
    factorization.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, b = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0])
    >>> x, pullback = ldiv.vjp(ldiv.solve, A, b)
    >>> A_bar, b_bar = pullback(np.array([1.0, 0.0]))
    >>> b_bar
    array([0.5, 0. ])
    """
    require_callable(
        "f", f, "a function of the other arguments", "It returns an array, or a tuple of arrays."
    )
    if (found := numpy_record.short_vjp(f, args)) is not None:
        y, pull = found
        return y, lambda y_bar: _pulled(y, pull, y_bar)
    args = _matrices("vjp", args)
    xs = _arrays("vjp", args)
    derivatives = _of(xs)
    # NumPy's one rule is recorded with copies already.
    keep = _as_it_is if isinstance(xs[0], np.ndarray) else snapshot
    xs = keep(xs)
    y, pull = derivatives.vjp(_on_arrays(may_branch(f), args), xs)

    def pullback(y_bar: Any) -> tuple[Any, ...]:
        return _rebuilt(args, in_one_wait(xs[0], lambda: _pulled(y, pull, y_bar)))

    return keep(y), pullback


@public
def jvp(
    f: Callable[..., T], primals: tuple[MatrixLike, ...], tangents: tuple[MatrixLike | None, ...]
) -> tuple[T, T]:
    """Evaluate a function, and push tangents of its arguments forward to its value.

        y, dy = jvp(f, (A, b), (dA, db));    dy = f'(A, b)[dA, db]

    Parameters
    ----------
    f : callable
        As in `vjp`.
    primals : tuple of arrays, sparse arrays and other matrices
        The arguments of f. Sparse matrices of other libraries are taken for SparseArrays.
    tangents : tuple
        For each argument a tangent like it, real where the argument is, or None for zero. That of
        a sparse matrix may be a sparse matrix of another library, zero where it has no entry.

    Returns
    -------
    y : array or tuple of arrays
        The value f(*primals).
    dy : array or tuple of arrays
        Its tangent.

    Raises
    ------
    TypeError
        For a complex tangent of a real argument.
    ValueError
        For tangents unlike their arguments; with NumPy for functions as in `vjp`.

    Notes
    -----
    Differentiable in PyTorch and JAX.
    In PyTorch dy is verified by a pullback in a random direction. Where f has neither forward mode nor a
    backward pass that can be differentiated, it takes a pullback for each number of y, and the derivative
    of dy raises NotDifferentiableError.
    Cost: that of f, and 1 more solve for a solve; in PyTorch 1 more for the pullback.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, b = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0])
    >>> x, dx = ldiv.jvp(ldiv.solve, (A, b), (None, np.array([0.0, 1.0])))
    >>> dx
    array([0.  , 0.25])
    """
    require_callable(
        "f", f, "a function of the primals", "It returns an array, or a tuple of arrays."
    )
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise type_error(
                name,
                "a tuple, one for each argument of f",
                shown(given),
                "Write (x,) for one argument.",
            )
    if len(primals) != len(tangents):
        raise value_error(
            "jvp",
            "a tangent, or None, for each argument",
            f"{len(tangents)} for {len(primals)}",
            "Match them.",
        )
    primals = _matrices("jvp", tuple(primals))
    xs = _arrays("jvp", primals)
    push: Any = numpy_record.jvp if _of(xs) is numpy_record else pushforward.jvp
    along = tuple(t for x, dx in zip(primals, tangents, strict=True) for t in _tangents(x, dx))
    y, dy = in_one_wait(xs[0], lambda: push(_on_arrays(may_branch(f), primals), xs, along))
    return y, dy


def _pulled(y: Any, pull: Callable[[Any], Any], y_bar: Any) -> Any:
    """The cotangents of the arrays of the arguments, for a cotangent that is looked at."""
    if isinstance(y, tuple):
        return pull(_cotangents(y, y_bar))
    return pull(y_bar if _is_alike(y, y_bar) else _cotangents((y,), (y_bar,))[0])


def _is_alike(v: Array, c: Any) -> bool:
    """Whether both are plain NumPy arrays of one dtype and shape."""
    return type(c) is np.ndarray is type(v) and c.dtype == v.dtype and c.shape == v.shape


def _arrays(name: str, args: tuple[Any, ...]) -> tuple[Array, ...]:
    if not args:
        raise value_error(
            name,
            "at least one argument to differentiate in",
            "none",
            "What it closes over is a constant: pass the rest as arguments.",
        )
    flat = tuple(x for a in args for x in flat_of(a))
    for x in filter(is_array, flat):
        if (
            str(require_numbers(f"an argument of {name}", x).dtype)
            .rpartition(".")[2]
            .startswith(("int", "uint", "bool"))
        ):
            raise type_error(
                f"an argument of {name}",
                "floating numbers",
                str(x.dtype),
                "An integer is a constant: close over it, as in lambda x: f(x, n).",
            )
    return flat


def _matrices(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert matrices of other libraries; constants of NumPy become constants of the framework of
    the other arguments.
    """
    found = tuple(converted(f"an argument of {name}", a) for a in args)
    return tuple(a if m is None else beside(m, *args) for a, m in zip(args, found, strict=True))


def _of(xs: tuple[Array, ...]) -> Any:
    """The module whose vjp and jvp differentiate functions of these arrays."""
    user = frontend_of(*xs).user
    return numpy_record if isinstance(xs[0], np.ndarray) else user


def _as_it_is(x: Any) -> Any:
    return x


def _on_arrays(f: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """f of the arrays alone, whose values are looked at before a framework sees them."""

    def on(*xs: Array) -> Any:
        y = f(*_rebuilt(args, xs))
        values = y if isinstance(y, tuple) else (y,)
        if not values or not all(map(is_array, values)):
            advice = (
                "Return them as they are: of a matrix its values, of a result its arrays, as "
                "lambda A, b: ldiv.lstsq(A, b).x, of a list a tuple."
            )
            raise type_error(
                "f", "a function that returns an array, or a tuple of arrays", shown(y), advice
            )
        frontend_of(*xs, *(require_numbers("f", v) for v in values))
        return tuple(values) if isinstance(y, tuple) else y  # a named tuple is another tree to JAX

    return on


def _rebuilt(args: tuple[Any, ...], xs: Any) -> tuple[Any, ...]:
    rest = iter(xs)
    return tuple(like(a, [next(rest) for _ in flat_of(a)]) for a in args)


def _cotangents(y: tuple[Array, ...], y_bar: tuple[Any, ...]) -> tuple[Array, ...]:
    """Cotangents like their values, zero for None."""
    if not isinstance(y_bar, tuple) or len(y_bar) != len(y):
        raise value_error(
            "pullback",
            f"a tuple of {len(y)} cotangents",
            shown(y_bar),
            "One for each value, None for zero.",
        )
    for c in y_bar:
        require_ours("a cotangent in pullback", c)
    bars = tuple(
        namespace(v).zeros_like(v) if c is None else _cotangent(v, c)
        for v, c in zip(y, y_bar, strict=True)
    )
    for v, c in zip(y, bars, strict=True):
        if tuple(c.shape) != tuple(v.shape):
            raise value_error(
                "pullback",
                f"the shape {tuple(v.shape)} of the value",
                str(tuple(c.shape)),
                "It is the cotangent of the value.",
            )
        _require_real("a cotangent in pullback", c, "value", v)
    return bars


def _require_real(name: str, t: Array, what: str, x: Array) -> None:
    if is_complex(t) and not is_complex(x):
        raise type_error(
            name,
            f"real numbers, as those of its {what}",
            str(numpy_dtype(t)),
            "Pass its real part, which is all that counts.",
        )


def _cotangent(v: Array, c: Any) -> Array:
    if not is_array(c):  # numbers and lists of them
        try:
            c = namespace(v).asarray(c)
        except Exception:
            raise type_error(
                "pullback",
                "a cotangent like the value",
                shown(c),
                "It is an array of the same shape.",
            ) from None
    require_numbers("pullback", c)
    frontend_of(v, c)
    return _of_dtype(v, c)


def _of_dtype(x: Array, t: Array) -> Array:
    """t in the dtype of x, unless that would drop an imaginary part, which is refused elsewhere."""
    return (
        t
        if t.dtype == x.dtype or (is_complex(t) and not is_complex(x))
        else namespace(x).astype(t, x.dtype)
    )


def _tangents(arg: Any, tangent: Any) -> list[Array | None]:
    """The arrays of a tangent, which must be like its argument; None is zero."""
    if tangent is None:
        return [
            None if isinstance(x, np.ndarray) else namespace(x).zeros_like(x) for x in flat_of(arg)
        ]
    if isinstance(arg, SparseArray) and (other := converted("a tangent in jvp", tangent)):
        tangent = _on_pattern(arg, beside(other, arg.data))
    if isinstance(arg, Matrix) and not (
        isinstance(tangent, Matrix) and tangent.structure == arg.structure
    ):
        raise value_error(
            "a tangent in jvp",
            f"one on the structure, or pattern, of {arg!r}",
            shown(tangent),
            "Make it with with_data.",
        )
    for x, t in zip(flat_of(arg), flat_of(tangent), strict=True):
        frontend_of(x, t)
        require_numbers("a tangent in jvp", t)
        if tuple(t.shape) != tuple(x.shape):
            raise value_error(
                "a tangent in jvp",
                f"the shape {tuple(x.shape)} of its argument",
                str(tuple(t.shape)),
                "Pass None for zero.",
            )
        _require_real("a tangent in jvp", t, "argument", x)
    return [_of_dtype(x, t) for x, t in zip(flat_of(arg), flat_of(tangent), strict=True)]


def _on_pattern(arg: SparseArray, tangent: Any) -> Any:
    """A sparse matrix of another library, whose entries may be some of those of `arg`."""
    if not isinstance(tangent, SparseArray) or tangent.shape[-2:] != arg.shape[-2:]:
        return tangent
    direction = (tangent + arg.with_data(0 * arg.data)).sum_duplicates()
    at = direction[arg.row, arg.col]
    return arg._like(at) if direction.nnz == arg.sum_duplicates().nnz == arg.nnz else tangent


def flat_of(arg: Any) -> list[Array]:
    """The arrays that an argument holds."""
    return leaves(arg.params) if isinstance(arg, Matrix) else [arg]


def like(arg: Any, flat: Sequence[Any]) -> Any:
    """Return the argument with these arrays in place of its own."""
    if hasattr(arg, "with_data"):  # a SparseArray, or one over several processes
        return arg.with_data(flat[0])
    return Matrix(arg.structure, rebuild(arg.params, flat)) if isinstance(arg, Matrix) else flat[0]
