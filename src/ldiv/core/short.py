"""The short way of a public call: arrays of a kind that came before go straight to what is compiled.

The first call of a kind (function, options; of each array type, dtype, shape and place) goes the
long way: it is validated, becomes a rule, and remembers that (`remember`). The next one runs the
compiled part of this rule on the arrays as they came, under all looks. Where that declines, or
anything looks on, the call goes the long way once more, as if there were no other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from functools import wraps
from types import FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.caches import emptied_by
from ldiv.core.dispatch import frontend_of, known_frontend
from ldiv.core.errstate import singular_state
from ldiv.core.public import unguarded
from ldiv.core.rule import Rule

P = ParamSpec("P")
R = TypeVar("R")
MOST = 1024
OPTIONS = frozenset({bool, str, int, float, type(None)})  # equal ones of one type mean the same


class Shortcut(NamedTuple):
    """How a front end runs the rule of a call, on how many arrays, and what of it is the result."""

    run: Callable[[Rule, Sequence[Any]], tuple[Array, ...] | None]
    rule: Rule
    leaves: int
    result: Callable[[tuple[Array, ...]], Any]


_shortcuts: dict[Hashable, Shortcut] = {}
emptied_by(_shortcuts.clear)

# the kind of the call that goes the long way now, and its arguments
_now: ContextVar[tuple[Hashable, tuple[Any, ...]]] = ContextVar("now", default=(None, ()))


def shortened(f: Callable[P, R]) -> Callable[P, R]:
    """f, which goes the short way where it can."""

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        kind = _kind(f, args, kwargs)
        if kind is not None and (shortcut := _shortcuts.get(kind)) is not None:
            run, rule, count, result = shortcut
            if (found := run(rule, args[:count])) is not None:
                return result(found)
        token = _now.set((kind, args))
        try:
            return f(*args, **kwargs)
        finally:
            _now.reset(token)

    return call


def _kind(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """None for what has to be looked at each time."""
    kind = [f, singular_state()]
    for x in args:
        if type(x) is np.ndarray:
            kind += x.dtype, x.shape
        elif (frontend := known_frontend(type(x))) is not None:
            if frontend.short is None or (signature := frontend.signature(x)) is None:
                return None
            kind += signature, x.shape
        elif type(x) in OPTIONS:
            kind += type(x), x
        else:
            return None
    for name, x in kwargs.items():
        if type(x) not in OPTIONS:
            return None
        kind += name, type(x), x
    return tuple(kind)


def shortcut_of(f: Callable[..., Any], args: tuple[Any, ...]) -> Shortcut | None:
    """That of a public function, for arguments of a kind that came before."""
    # by identity: a function of the user's may have been made to look like one of ours
    short = unguarded.get(f) if type(f) is FunctionType else None
    kind = None if short is None else _kind(getattr(short, "__wrapped__", None), args, {})
    return None if kind is None else _shortcuts.get(kind)


def remember(rule: Rule, flat: Sequence[Array], result: Callable[[tuple[Array, ...]], Any]) -> None:
    """The call that goes the long way is that of a rule on the arrays that came first."""
    kind, args = _now.get()
    if kind is None or len(args) < len(flat) or not rule.is_compiled(*flat):
        return
    if all(x is arg for x, arg in zip(flat, args, strict=False)) and (
        run := frontend_of(*flat).short
    ):
        if len(_shortcuts) >= MOST:
            _shortcuts.clear()
        _shortcuts[kind] = Shortcut(run, rule, len(flat), result)
