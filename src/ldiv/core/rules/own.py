"""Functions of the user in rules: a program that is kept for its rule must not hold them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from inspect import getmodule
from typing import Any

from ldiv.core.rules.rule import Rule
from ldiv.core.rules.structure import Structure


def is_own(rule: Rule) -> bool:
    """True if a rule and its derivatives call no function of the user."""
    kept = vars(rule)
    if (found := kept.get("is_own")) is None:
        found = kept["is_own"] = not rule.traits.calls_user and calls_own(rule)
    return bool(found)


def calls_own(x: Any) -> bool:
    """True if all functions that x calls are ldiv's own."""
    if isinstance(x, Structure):
        return x.on_host
    if isinstance(x, partial):
        return all(map(calls_own, (x.func, *x.args, *x.keywords.values())))
    if isinstance(x, tuple):
        return all(map(calls_own, x))
    if is_dataclass(x):
        return all(calls_own(getattr(x, field.name)) for field in fields(x))
    return not callable(x) or (
        (module := getmodule(x)) is not None and module.__name__.startswith("ldiv.")
    )
