"""Derivatives of one rule on NumPy arrays, for adjoints written by hand: `vjp` and `jvp`.

The function is run once; the one rule that it applies is recorded, and its arguments are found again by their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.errors import got
from ldiv.matrix import Matrix
from ldiv.rule import Array, Tree, leaves, rebuild, recording
from ldiv.sparse import SparseArray


def vjp(f: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of a function of NumPy arrays that applies one rule, and its pullback.

        y, pullback = vjp(f, *args);    pullback(y_bar)[i] = args_bar[i],    dL = Re <args_bar[i], d args[i]>

    f: a function of ldiv, or of your own around one, such as `lambda A, b: ldiv.solve(A, b, assume_a="pos")`. Where it returns several
    arrays, as `eigsh` does, the pullback takes a tuple of cotangents, None for zero, and `jvp` returns a tuple.
    args: arrays, sparse arrays and other matrices; a SparseArray has a SparseArray as its cotangent, on the same pattern.
    Cost: that of f; the pullback of a solve is one more solve with the same factorization.
    Raises ValueError if f applies several rules (use PyTorch or JAX to compose), or copies an argument on the way.

    >>> import ldiv, numpy as np
    >>> A, b = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0])
    >>> x, pullback = ldiv.vjp(ldiv.solve, A, b)
    >>> A_bar, b_bar = pullback(np.array([1.0, 0.0]))
    >>> b_bar
    array([0.5, 0. ])
    """
    y, rule, flat, out, place, of = _record(f, args)

    def pullback(y_bar: Any) -> tuple[Any, ...]:
        given: list[Array | None] = [None for _ in out]
        for i, value, bar in zip(of, _several(y), _several(y_bar), strict=True):
            cotangent = None if bar is None else np.asarray(bar)
            if cotangent is not None and cotangent.shape != value.shape:
                raise ValueError(got("pullback", f"the shape {value.shape} of the value", str(cotangent.shape), "It is the cotangent of the value."))
            given[i] = None if cotangent is None else cotangent.reshape(out[i].shape)
        need = rebuild(rule.core, [at is not None for at in place])
        bars = leaves(rule.vjp(need, tuple(given), out, *rebuild(rule.core, flat)))
        grads = [[np.zeros_like(leaf) for leaf in _leaves(a)] for a in args]
        for bar, leaf, at in zip(bars, flat, place, strict=True):
            if at is not None and bar is not None:
                i, j = at
                grads[i][j] = _conform(bar, leaf).reshape(_leaves(args[i])[j].shape)
        return tuple(like(a, g) for a, g in zip(args, grads, strict=True))

    return y, pullback


def jvp(f: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and the tangent of a function of NumPy arrays that applies one rule.

        y, dy = jvp(f, (A, b), (dA, db));    dy = f'(A, b)[dA, db]

    Arguments as in `vjp`; a tangent is like its argument, or None for zero. Cost: that of f, and one more solve for a solve.

    >>> import ldiv, numpy as np
    >>> A, b = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0])
    >>> x, dx = ldiv.jvp(ldiv.solve, (A, b), (None, np.array([0.0, 1.0])))
    >>> dx
    array([0.  , 0.25])
    """
    if len(primals) != len(tangents):
        raise ValueError(got("jvp", "a tangent, or None, for each argument", f"{len(tangents)} for {len(primals)}", "Match them."))
    y, rule, flat, out, place, of = _record(f, primals)
    given = [_tangent(a, t) for a, t in zip(primals, tangents, strict=True)]
    found = [None if at is None else given[at[0]][at[1]] for at in place]
    moved = [t if t is None else t.reshape(leaf.shape) for leaf, t in zip(flat, found, strict=True)]
    tangent = rule.jvp(rebuild(rule.core, moved), out, *rebuild(rule.core, flat))
    dy = tuple(np.zeros_like(v) if tangent[i] is None else tangent[i].reshape(v.shape) for i, v in zip(of, _several(y), strict=True))
    return y, dy if isinstance(y, tuple) else dy[0]


def _several(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def _tangent(arg: Any, tangent: Any) -> list[Array | None]:
    """The leaves of a tangent, which must be like its argument; None means zero."""
    if tangent is None:
        return [None for _ in _leaves(arg)]
    if isinstance(arg, Matrix) and not (isinstance(tangent, Matrix) and tangent.structure == arg.structure):
        raise ValueError(got("a tangent in jvp", f"one on the structure, or pattern, of {arg!r}", repr(tangent), "Make it with with_data."))
    for x, t in zip(_leaves(arg), _leaves(tangent), strict=True):
        if not isinstance(t, np.ndarray):
            raise TypeError(got("a tangent in jvp", "NumPy arrays", type(t).__qualname__, "Convert it, or pass None for zero."))
        if t.shape != x.shape:
            raise ValueError(got("a tangent in jvp", f"the shape {x.shape} of its argument", str(t.shape), "Pass None for zero."))
    return _leaves(tangent)


def _leaves(arg: Any) -> list[Array]:
    return leaves(arg.params) if isinstance(arg, Matrix) else [arg]


def like(arg: Any, flat: list[Array]) -> Any:
    """These arrays in place of those that an argument holds."""
    if isinstance(arg, SparseArray):
        return arg.with_data(flat[0])
    return Matrix(arg.structure, rebuild(arg.params, flat)) if isinstance(arg, Matrix) else flat[0]


def _record(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any, list[Array], tuple[Array, ...], list[tuple[int, int] | None], list[int]]:
    """(value, rule, its leaves, its outputs, for each leaf the (argument, leaf of the argument) that it is, for each value the output)."""
    for a in args:
        for leaf in _leaves(a):
            if not isinstance(leaf, np.ndarray):
                raise TypeError(
                    got("vjp and jvp", "NumPy arrays", type(leaf).__qualname__, "In PyTorch and JAX use torch.func or jax, they know ldiv.")
                )
    with recording() as applied:
        y = f(*args)
    if len(applied) != 1:
        raise ValueError(got("vjp and jvp", "a function that applies one rule", f"{len(applied)}", "Compose rules in PyTorch or JAX."))
    ((rule, flat, out),) = applied
    of = [next((i for i, o in enumerate(out) if o is v or (isinstance(v, np.ndarray) and _same(o, v))), -1) for v in _several(y)]
    if -1 in of:
        raise ValueError(got("vjp and jvp", "a function that returns what the rule returns", "something computed from it", "Return it as it is."))
    given = {(i, j): leaf for i, a in enumerate(args) for j, leaf in enumerate(_leaves(a))}
    place: list[tuple[int, int] | None] = []
    for leaf in flat:
        found = next((at for at, x in given.items() if _same(x, leaf)), None)
        given.pop(found, None)  # type: ignore[arg-type]
        place.append(found)
    if given:
        lost = sorted({i for i, _ in given})
        raise ValueError(
            got("vjp and jvp", "every argument to reach the rule as it is", f"copies of arguments {lost}", "Convert dtypes and layouts beforehand.")
        )
    return y, rule, flat, out, place, of


def _same(x: Array, y: Array) -> bool:
    """One piece of memory read the same way, but for axes of length 1."""

    def layout(a: Array) -> Tree:
        return a.__array_interface__["data"][0], a.dtype, [(n, s) for n, s in zip(a.shape, a.strides, strict=True) if n != 1]

    return bool(layout(x) == layout(y))


def _conform(bar: Array, leaf: Array) -> Array:
    """Real where the argument is, summed over the axes that were broadcast."""
    bar = bar.real if leaf.dtype.kind != "c" else bar
    extra = bar.ndim - leaf.ndim
    bar = bar.sum(axis=tuple(range(extra)))
    stretched = tuple(i for i, n in enumerate(leaf.shape) if n == 1 and bar.shape[i] != 1)
    return bar.sum(axis=stretched, keepdims=True).astype(leaf.dtype, copy=False)
