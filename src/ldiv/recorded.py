"""Derivatives of one rule on NumPy arrays, for adjoints written by hand.

The function is run once; the one rule that it applies is recorded, and its arguments are found again by their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.errors import got
from ldiv.finite import derivative
from ldiv.rule import Array, Rule, Tree, leaves, rebuild, recording

Arrays = tuple[Array, ...]


def vjp(f: Callable[..., Any], xs: Arrays) -> tuple[Any, Callable[[Any], Arrays]]:
    """y = f(*xs), an array or a tuple of them, and pull(y_bar), the cotangents of xs; None is zero."""
    y, one = _record(f, xs)

    def pull(y_bar: Any) -> Arrays:
        given: list[Array | None] = [None for _ in one.out]
        for i, bar in zip(one.of, _several(y_bar), strict=True):
            given[i] = None if bar is None else np.asarray(bar).reshape(one.out[i].shape)
        need = rebuild(one.rule.core, [at is not None for at in one.place])
        grads = [np.zeros_like(x) for x in xs]
        bars = derivative(one.rule, one.rule.vjp, need, tuple(given), one.out, *one.args)
        for bar, leaf, at in zip(leaves(bars), one.flat, one.place, strict=True):
            if at is not None and bar is not None:
                grads[at] = _conform(bar, leaf).reshape(xs[at].shape)
        return tuple(grads)

    return y, pull


def jvp(f: Callable[..., Any], xs: Arrays, dxs: tuple[Array | None, ...]) -> tuple[Any, Any]:
    """y = f(*xs) and its tangent; None is zero."""
    y, one = _record(f, xs)
    found = [None if at is None else dxs[at] for at in one.place]
    moved = [t if t is None else t.reshape(leaf.shape) for leaf, t in zip(one.flat, found, strict=True)]
    tangent = derivative(one.rule, one.rule.jvp, rebuild(one.rule.core, moved), one.out, *one.args)
    dy = tuple(np.zeros_like(v) if (t := tangent[i]) is None else t.reshape(v.shape) for i, v in zip(one.of, _several(y), strict=True))
    return y, dy if isinstance(y, tuple) else dy[0]


def _several(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


@dataclass(frozen=True)
class Recorded:
    """A rule as it was applied."""

    rule: Rule
    flat: list[Array]
    out: Arrays
    place: list[int | None]  # for each leaf the array of the function that it is
    of: list[int]  # for each value of the function the output that it is

    @property
    def args(self) -> Tree:
        return rebuild(self.rule.core, self.flat)


def _record(f: Callable[..., Any], xs: Arrays) -> tuple[Any, Recorded]:
    with recording() as applied:
        y = f(*xs)
    if len(applied) != 1:
        raise ValueError(got("vjp and jvp", "a function that applies one rule", f"{len(applied)}", "Compose rules in PyTorch or JAX."))
    ((rule, flat, out),) = applied
    of = [next((i for i, o in enumerate(out) if o is v or (isinstance(v, np.ndarray) and _same(o, v))), -1) for v in _several(y)]
    if -1 in of:
        raise ValueError(got("vjp and jvp", "a function that returns what the rule returns", "something computed from it", "Return it as it is."))
    given = dict(enumerate(xs))
    place: list[int | None] = []
    for leaf in flat:
        at = next((at for at, x in given.items() if _same(x, leaf)), None)
        given.pop(at, None)  # type: ignore[arg-type]
        place.append(at)
    if given:
        raise ValueError(
            got(
                "vjp and jvp",
                "every argument to reach the rule as it is",
                f"copies of arguments {[*given]}",
                "Convert dtypes and layouts beforehand.",
            )
        )
    return y, Recorded(rule, flat, out, place, of)


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
