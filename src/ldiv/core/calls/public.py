"""Marks public functions, which compilers such as torch.compile must not trace into."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from ldiv.core.arrays.space import HERE, Space
from ldiv.core.arrays.validate import require_flag
from ldiv.core.frameworks.dispatch import load_frontends, not_loaded
from ldiv.core.keywords import too_many, unexpected
from ldiv.errors import NotPositiveDefiniteError, NotSymmetricError

P = ParamSpec("P")
R = TypeVar("R")
Guard = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_guards: list[Guard] = []
public_functions: dict[str, Callable[..., Any]] = {}  # by `full_name`, without their guards
unguarded: dict[Callable[..., Any], Callable[..., Any]] = {}  # each without its guards


def full_name(f: Callable[..., Any]) -> str:
    """The name with its module: `ldiv.distributed` has a `coo_array`, too."""
    return f"{f.__module__}.{f.__name__}"


def guard(call: Guard) -> None:
    """Register guards: public calls run as call(f, args, kwargs), for a framework that traces
    Python.
    """
    _guards.append(call)


def _load() -> None:
    if not _guards:
        for name in not_loaded:
            # the framework may have been imported since the last call
            if sys.modules.get(name) is not None:
                load_frontends()
                break


# torch.compile runs this while it traces, and looks at `_guards` after it
_load._dynamo_marked_constant = True  # type: ignore[attr-defined]


_spaces: dict[type, Callable[[Any], Space]] = {}


def call_within(kind: type, space: Callable[[Any], Space]) -> None:
    """Calls with a first argument of this kind are made inside of `call` of its space, which
    refuses those that it does not serve.
    """
    _spaces[kind] = space


def _space(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Space | None:
    """Return the space of the first argument, a matrix, if this space is spread over several
    processes.
    """
    first = args[0] if args else kwargs.get("A")
    if (find := _spaces.get(type(first))) is None:
        return None
    return None if (space := find(first)) is HERE else space


def call_untraced(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _load()
    if _spaces and (space := _space(args, kwargs)) is not None:
        with space.call(f.__qualname__):
            return _guards[0](f, args, kwargs) if _guards else f(*args, **kwargs)
    return _guards[0](f, args, kwargs) if _guards else f(*args, **kwargs)


def _in_the_other_case(given: Iterable[str], accepted: Container[str]) -> dict[str, str]:
    """The names of matrices that a library writes with a, b and another one with A, B."""
    return {
        key: key.swapcase()
        for key in {"a", "b", "A", "B"}.intersection(given)
        if key not in accepted and key.swapcase() in accepted and key.swapcase() not in given
    }


def public(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: compilers call it, and do not trace into it."""
    parameters = signature(f).parameters
    promise = parameters.get("assume_a")
    # an error inside of a user's function is not about this signature
    is_own = not {"f", "residual"} & parameters.keys()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    places = [
        key
        for key, p in parameters.items()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    is_promise = promise is not None and promise.default == "gen"
    # SciPy's flags that change no result: an array in their place was meant for another parameter
    flags = [key for key in parameters if key == "check_finite" or key.startswith("overwrite_")]
    first = min((places.index(key) for key in flags if key in places), default=len(places))
    if f.__qualname__ == f.__name__:  # no method
        public_functions[full_name(f)] = f

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if flags and (kwargs or len(args) > first):
            given = dict(zip(places, args, strict=False), **kwargs)
            for key in flags:
                if key in given:
                    require_flag(key, given[key])
        try:
            result: R = call_untraced(f, args, kwargs)
        except (NotPositiveDefiniteError, NotSymmetricError) as error:
            # errors mention `assume_a` only if the caller could leave it out
            if is_own:
                error.args = (error.to_promise if is_promise else error.plain,)
            raise
        except TypeError:
            if others := _in_the_other_case(kwargs, parameters):
                renamed: Any = {others.get(key, key): value for key, value in kwargs.items()}
                return call(*args, **renamed)
            if kwargs and not takes_any and (words := unexpected(f.__name__, kwargs, parameters)):
                raise TypeError(words) from None
            if not takes_more and (words := too_many(f.__name__, len(args), places)):
                raise TypeError(words) from None
            raise
        return result

    unguarded[call] = f
    return call
