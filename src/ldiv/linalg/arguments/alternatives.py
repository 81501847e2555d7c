"""Options that exclude each other, or that only some calls take."""

from __future__ import annotations

from typing import Any

from ldiv.errors import shown, type_error, value_error


def only_one(name: str, value: Any, other: str, same: Any) -> Any:
    """Return the value that was passed under one of two names."""
    if value is not None and same is not None:
        raise value_error(other, f"one of {name} and {other}", "both", "They mean the same.")
    return same if value is None else value


def require_none(wanted: str, advice: str, **options: Any) -> None:
    """Raise for the first of the options that is given; `wanted` says when it must not be."""
    for name, value in options.items():
        if value is not None:
            raise value_error(name, wanted, shown(value), advice)


def not_in_a_trace(asked: str = "info=True") -> TypeError:
    """The error of what needs values, in a trace, where there are none yet."""
    advice = f"Ask for {asked.partition('=')[0]} outside of the transformation."
    return type_error(asked, "values that are known now", "a trace (jit, vmap)", advice)
