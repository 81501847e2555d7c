"""Recorded programs (make_fx, AOT, torch.export, torch.compile) have rules by their keys.

A program must not look into a kernel, whose numbers would become its constants. So a rule is
recorded as `torch.ops.ldiv.rule(key, x)`, the operator of `operator`.

Rules that call a function of the user cannot be recorded: what such a function closes over would
become a constant, too.

A program of make_fx owns its rules, in its nodes. One that is compiled or exported becomes code that
knows their keys alone, and may run at any time: its rules stay.
"""

from __future__ import annotations

import secrets
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ldiv.core.rules.own import calls_own
from ldiv.core.rules.rule import Rule, name_of
from ldiv.errors import value_error
from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import recording_error

_rules: WeakValueDictionary[str, Rule] = WeakValueDictionary()
_keys: WeakKeyDictionary[Rule, str] = WeakKeyDictionary()
_staying: dict[str, Rule] = {}


def key_of(rule: Rule) -> tuple[str, Rule]:
    """The name by which the operator finds a rule, and the registered rule, which is equal to it. The
    caller of the operator must hold the rule.
    """
    kept = vars(rule)
    if (key := kept.get("torch_key")) is None:
        key = kept["torch_key"] = _keys.setdefault(rule, _new_key(rule))
    return key, _rules.setdefault(key, rule)


def to_record(rule: Rule) -> tuple[str, Rule]:
    """Return `key_of` for a rule in a program that is being recorded."""
    if private.tracing_state() is not None or not calls_own(rule):
        raise recording_error()
    key, known = key_of(rule)
    if private.dispatch_mode(private.PROXY) is None:  # torch.compile, before it records
        _staying[key] = known
    return key, known


def _new_key(rule: Rule) -> str:
    """A name that no other process gives to another rule."""
    return f"{name_of(rule)}-{secrets.token_hex(8)}"


def recorded(mode: Any, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Record the operator as a node that owns its rule."""
    key = args[0]
    rule = rule_of(key)
    ys = private.proxy_call(mode, operator, mode.pre_dispatch, args, kwargs or {})
    if private.dispatch_mode(private.FAKE) is None:
        nodes = reversed(mode.tracer.graph.nodes)
        next(node for node in nodes if node.target is operator).meta["rule"] = rule
    else:
        _staying[key] = rule
    return ys


def rule_of(key: str) -> Rule:
    if (rule := _rules.get(key)) is None:
        came = f"{key}, which was recorded in another one"
        advice = "Record the program again, where it runs."
        raise value_error("rule", "one of this process", came, advice)
    return rule
