"""Derivatives of one rule on NumPy arrays, for hand-written adjoints.

Of other functions by a front end that records NumPy's operations, where it is installed.

The function is run once. The one rule that it applies is recorded with copies of its arguments and
outputs, so that later writes to the originals change no derivative. The arguments of the function
are identified among those of the rule by their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ldiv.core.calls.call import call_of
from ldiv.core.frameworks.dispatch import installed_recorder
from ldiv.core.frameworks.frontend import FrontEnd
from ldiv.core.frameworks.trees import HostArray, Tree, rebuild
from ldiv.core.owners.holder import Holder, holding
from ldiv.core.rules import pushforward
from ldiv.core.rules.compiled import computed, pulled_back
from ldiv.core.rules.finite import cotangents_of, derivative
from ldiv.core.rules.record import Applied, recording, snapshot
from ldiv.core.rules.rule import Rule
from ldiv.errors import expected_got, value_error

T = TypeVar("T")
Arrays = tuple[HostArray, ...]


class NotOneRule(ValueError):
    """Raised for a function that does more than apply one rule to its arguments."""


COMPOSING = (
    "NumPy records nothing: import autograd (pip install 'ldiv[autograd]') and compute with "
    "autograd.numpy, or take the pullback of the one rule, ldiv.vjp(ldiv.solve, A, b)."
)

FEW = 1 << 16  # bytes: so many are compared as bytes


def vjp(f: Callable[..., Any], xs: Arrays) -> tuple[Any, Callable[[Any], Arrays]]:
    """y = f(*xs), an array or a tuple, and pull(y_bar), the cotangents of xs; None is zero."""
    try:
        y, one = _record(f, xs)
    except NotOneRule as refusal:
        y, pullback = _composed(refusal, lambda frontend: frontend.user.vjp(f, snapshot(xs)))
        return snapshot(y), pullback
    return y, partial(_pulled_back, one, [(x.shape, x.dtype) for x in xs])


def short_vjp(f: Any, xs: tuple[Any, ...]) -> tuple[Any, Callable[[Any], Arrays]] | None:
    """`vjp` of a public function by the compiled operation of its rule, for arrays of a kind that came
    before; None if it declines, or for other arrays.
    """
    for x in xs:
        if type(x) is not np.ndarray:
            return None
    if (call := call_of(f, xs)) is None or call.converts:  # cotangents have the arguments' dtypes
        return None
    flat, holder = [x.copy() for x in call.arrays(xs)], Holder()
    with holding(holder):
        made = computed(call.rule.compiled, flat)
    if made is None:
        return None
    out, factor = made
    y = call.result(out)
    of = [i for v in _several(y) for i, o in enumerate(out) if o is v]
    if len(of) != len(_several(y)):
        return None
    then = tuple([x.copy() for x in out])
    one = Recorded(call.rule, flat, then, [*range(len(xs))], of, holder, factor)
    like = [(x.shape, x.dtype) for x in xs]
    return tuple(y) if isinstance(y, tuple) else y, partial(_pulled_back, one, like)


def _pulled_back(one: Recorded, like: Sequence[tuple[Any, Any]], y_bar: Any) -> Arrays:
    """The cotangents of the arguments of a function, arrays like these."""
    given: list[HostArray | None] = [None for _ in one.out]
    for i, bar in zip(one.of, _several(y_bar), strict=True):
        if bar is not None:
            bar = np.asarray(bar).reshape(one.out[i].shape)
            given[i] = bar if (other := given[i]) is None else other + bar
    need = [at is not None for at in one.place]
    if all(bar is None for bar in given):
        return tuple([np.zeros(*of) for of in like])
    with holding(one.holder):
        what = need, tuple(given), one.out, one.flat
        bars = cotangents_of(one.rule, *what, pulled_back(one.rule.compiled, *what, one.factor))
    grads: list[Any] = [None for _ in like]
    for bar, at in zip(bars, one.place, strict=True):
        if at is not None and bar is not None:
            grads[at] = bar.reshape(like[at][0])
    return tuple([np.zeros(*of) if g is None else g for g, of in zip(grads, like, strict=True)])


def jvp(f: Callable[..., Any], xs: Arrays, dxs: tuple[HostArray | None, ...]) -> tuple[Any, Any]:
    """y = f(*xs) and its tangent; None is zero."""
    try:
        y, one = _record(f, xs)
    except NotOneRule as refusal:
        along = tuple(np.zeros_like(x) if t is None else t for x, t in zip(xs, dxs, strict=True))
        return _composed(refusal, lambda _: pushforward.jvp(f, xs, along))
    found = [None if at is None else dxs[at] for at in one.place]
    if all(dx is None for dx in found):
        dy = tuple(map(np.zeros_like, _several(y)))
        return y, dy if isinstance(y, tuple) else dy[0]
    moved = [
        t if t is None else t.reshape(leaf.shape) for leaf, t in zip(one.flat, found, strict=True)
    ]
    with holding(one.holder):
        tangent = derivative(
            one.rule, one.rule.jvp, rebuild(one.rule.core, moved), one.out, *one.args
        )
    dy = tuple(
        np.zeros_like(v) if (t := tangent[i]) is None else t.reshape(v.shape)
        for i, v in zip(one.of, _several(y), strict=True)
    )
    return y, dy if isinstance(y, tuple) else dy[0]


def _composed(refusal: NotOneRule, differentiated: Callable[[FrontEnd], T]) -> T:
    """Differentiate by a package that records NumPy's operations; else raise the refusal.

    The numbers are not the cause of a failure: f has accepted them.
    """
    try:
        if (frontend := installed_recorder("numpy")) is None:
            raise refusal
        try:
            return differentiated(frontend)
        except (TypeError, AttributeError) as error:
            raise refusal from error
    finally:
        del refusal  # the error refers to this frame, which would keep the factors of f alive


def _several(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


@dataclass(frozen=True)
class Recorded:
    """A rule as it was applied, on private copies of its arrays."""

    rule: Rule
    flat: list[HostArray]
    out: Arrays
    place: list[int | None]  # the argument of the function that each leaf is
    of: list[int]  # the output of the rule that each value is
    holder: Holder
    factor: Any = None  # the compiled factor, if there is one

    @property
    def args(self) -> Tree:
        return rebuild(self.rule.core, self.flat)


def _record(f: Callable[..., Any], xs: Arrays) -> tuple[Any, Recorded]:
    holder = Holder()
    with recording() as record, holding(holder):
        y = f(*xs)
    if len(record.applied) != 1:
        raise _refusal("a function that applies one rule", f"{len(record.applied)}", COMPOSING)
    (one,) = record.applied
    _require_unchanged(one)
    of, place = _outputs_of(y, one), _places_of(xs, one, record.copies)
    return y, Recorded(one.rule, one.flat_then, one.out_then, place, of, holder)


def _require_unchanged(one: Applied) -> None:
    now, then = (*one.flat, *one.out), (*one.flat_then, *one.out_then)
    if not all(map(_equal, now, then)):
        expected = "a function that leaves the arguments and results of its rule alone"
        came, advice = "one that writes to them", "Write to copies, or after it."
        raise value_error("vjp and jvp", expected, came, advice)


def _outputs_of(y: Any, one: Applied) -> list[int]:
    """The output of the rule that each value is, up to its shape, as x[:, 0] of one column."""
    of = [
        next((i for i, o in enumerate(one.out) if o is v or _same_numbers(o, v)), -1)
        for v in _several(y)
    ]
    if -1 in of:
        came, advice = "something computed from it", f"Return it as it is. {COMPOSING}"
        raise _refusal("a function that returns what the rule returns", came, advice)
    return of


def _places_of(xs: Arrays, one: Applied, copies: list[tuple[Any, Any]]) -> list[int | None]:
    """The argument of the function that each leaf is, or of which it is the snapshot."""
    given = dict(enumerate(xs))
    place: list[int | None] = []
    for leaf in one.flat:
        source = leaf
        for x, copy in reversed(copies):  # a snapshot may be that of a snapshot
            source = x if _same(copy, source) else source
        at = next((at for at, x in given.items() if _same(x, source)), None)
        given = {i: x for i, x in given.items() if i != at}
        place.append(at)
    if given:
        unused = " and ".join(f"argument {at}" for at in given)
        came = f"{unused} unused, converted, or changed before"
        advice = f"{COMPOSING} Convert dtypes and layouts beforehand."
        raise _refusal("every argument to reach the rule as it is", came, advice)
    return place


def _refusal(expected: str, came: str, advice: str) -> NotOneRule:
    return NotOneRule(expected_got("vjp and jvp", expected, came, advice))


def _equal(x: HostArray, then: HostArray) -> bool:
    """Whether no number has changed."""
    if x.nbytes <= FEW and x.tobytes() == then.tobytes():
        return True
    return np.array_equal(x, then, equal_nan=True)


def _same_numbers(x: HostArray, y: Any) -> bool:
    """Whether both arrays are the same memory, in the same order."""
    if not isinstance(y, np.ndarray):
        return False
    flat = x.flags.c_contiguous and y.flags.c_contiguous and x.size == y.size
    return _same(x.reshape(-1), y.reshape(-1)) if flat else _same(x, y)


def _same(x: HostArray, y: HostArray) -> bool:
    """Whether both arrays are the same memory with the same layout, up to axes of length 1."""
    if x is y:
        return True

    def layout(a: HostArray) -> Tree:
        return (
            a.__array_interface__["data"][0],
            a.dtype,
            [(n, s) for n, s in zip(a.shape, a.strides, strict=True) if n != 1],
        )

    return bool(layout(x) == layout(y))
