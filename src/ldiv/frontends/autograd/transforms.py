"""Calls and derivatives of users' functions, whose cotangents are the conjugates of
autograd's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograd.builtins import tuple as recorded_tuple
from autograd.core import make_jvp, make_vjp
from autograd.extend import vspace
from autograd.tracer import getval, isbox

from ldiv.core.arrays.closures import closures_count
from ldiv.core.arrays.shapes import conform, conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.pushforward import OnlyReverse
from ldiv.errors import value_error
from ldiv.frontends.autograd.values import constant, lifted, owns, plainly


def call(f: Callable[..., Any], p: Any, x: Array, of: Any = None) -> Any:
    return f(rebuild(p, list(map(lifted, leaves(p)))), lifted(x))


def unrecorded(y: Any) -> Any:
    """Return the plain value of a user's function; raise if its closure holds a recorded array."""
    if isbox(y) and closures_count() is not False:
        raise value_error(
            "a function of yours",
            "all differentiated arrays among its arguments",
            "a closure over an array that is differentiated",
            "Pass the array in `params`, through which gradients flow.",
        )
    return getval(y)


def _of_tuple(f: Callable[..., Any], count: int) -> tuple[Callable[[Any], Any], list[bool]]:
    """f as a function of one tuple, whose values are a tuple; and whether those of f are one, known
    after the call.
    """
    several: list[bool] = []

    def of_tuple(given: Any) -> Any:
        y = f(*(given[i] for i in range(count)))
        several[:] = [isinstance(y, tuple)]
        # with an argument, so that there is always something that depends on it
        return recorded_tuple((*(y if several[0] else (y,)), given[0]))

    return of_tuple, several


def _known(y: Any, xs: Sequence[Array]) -> Array:
    """Convert the value of f to an array of the front end of its arguments."""
    if any(map(owns, xs)):
        return y if isbox(y) else constant(y)
    return plainly(unrecorded(y))


def vjp(
    f: Callable[..., Any], xs: tuple[Array, ...], whole: Any = None, has_aux: bool = False
) -> Any:
    of_tuple, several = _of_tuple(f, len(xs))
    pull, found = make_vjp(of_tuple, recorded_tuple(tuple(map(plainly, xs))))
    ys = tuple(_known(found[i], xs) for i in range(len(getval(found)) - 1))

    def pullback(y_bar: Any) -> tuple[Array, ...]:
        given = (y_bar, 0 * ys[1]) if has_aux else y_bar if several[0] else (y_bar,)
        bars = [conj(c) for c in given]
        x_bars = pull(recorded_tuple((*map(plainly, bars), vspace(xs[0]).zeros())))
        return tuple(conj(conform(x_bars[i], x)) for i, x in enumerate(xs))

    if has_aux:
        return ys[0], pullback, ys[1]
    return ys if several[0] else ys[0], pullback


def jvp(
    f: Callable[..., Any], xs: tuple[Array, ...], dxs: tuple[Array | None, ...]
) -> tuple[Any, Any]:
    of_tuple, several = _of_tuple(f, len(xs))
    moved = [
        vspace(x).zeros() if dx is None else plainly(dx) for x, dx in zip(xs, dxs, strict=True)
    ]
    try:
        found, along = make_jvp(of_tuple, recorded_tuple(tuple(map(plainly, xs))))(
            recorded_tuple(tuple(moved))
        )
    except NotImplementedError as error:  # a function of autograd without forward mode
        raise OnlyReverse from error
    count = len(getval(found)) - 1
    ys, dys = (tuple(_known(z[i], xs) for i in range(count)) for z in (found, along))
    return (ys, dys) if several[0] else (ys[0], dys[0])
