"""Recorded programs (make_fx, AOT, torch.export, torch.compile) have rules by their keys.

A program must not look into a kernel, whose numbers would become its constants. So a rule is
recorded as `torch.ops.ldiv.rule(key, x)`, the operator of `rule_operator`.

Rules that call a function of the user cannot be recorded: what such a function closes over would
become a constant, too.
"""

from __future__ import annotations

import secrets
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from ldiv.core.rule import Rule
from ldiv.core.structure import Structure
from ldiv.errors import expected_got
from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import recording_error

_rules: dict[str, Rule] = {}
_keys: dict[Rule, str] = {}


def key_of(rule: Rule) -> str:
    """A name that no other process gives to another rule."""
    if private.tracing_state() is not None or not _is_own(rule):
        raise recording_error()
    if rule not in _keys:
        key = _keys[rule] = f"{rule.public_name}-{secrets.token_hex(8)}"
        _rules[key] = rule
    return _keys[rule]


def _is_own(x: Any) -> bool:
    """Is all that this calls ldiv's own?"""
    if isinstance(x, Structure):
        return x.on_host
    if isinstance(x, partial):
        return all(map(_is_own, (x.func, *x.args, *x.keywords.values())))
    if isinstance(x, tuple):
        return all(map(_is_own, x))
    if is_dataclass(x):
        return all(_is_own(getattr(x, field.name)) for field in fields(x))
    return not callable(x) or x.__module__.startswith("ldiv.")


def rule_of(key: str) -> Rule:
    if key not in _rules:
        came = f"{key}, which was recorded in another one"
        advice = "Record the program again, where it runs."
        raise ValueError(expected_got("rule", "one of this process", came, advice))
    return _rules[key]
