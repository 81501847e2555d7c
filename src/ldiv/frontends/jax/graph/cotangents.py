"""x_bar = conj(vjp(conj(y_bar))): the rule's vjp, between JAX's convention and ours.

JAX transposes a map of complex numbers without conjugating it, dy = J dx gives x_bar = J^T y_bar,
and ours is J^H y_bar; so a cotangent of JAX is the conjugate of ours. `pullback` is the one place
that translates for rules, `transforms.vjp` for functions of users.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from ldiv.core.arrays.shapes import common_batch, conform, conj
from ldiv.core.frameworks.trees import rebuild
from ldiv.core.owners.holder import holding, owner, store
from ldiv.core.policies.errstate import under
from ldiv.core.rules.compiled import pulled_back
from ldiv.core.rules.finite import cotangents_of
from ldiv.core.rules.pullback import Pullback
from ldiv.core.rules.rule import Rule, bind
from ldiv.frontends.jax.devices import kernels
from ldiv.frontends.jax.graph.compiled_calls import call_of
from ldiv.frontends.jax.graph.evaluation import Given, holding_given
from ldiv.frontends.jax.graph.programs import as_program
from ldiv.frontends.jax.private import ad, placed
from ldiv.frontends.jax.values import as_own, staged


def pullback(
    rule: Rule,
    need: list[bool],
    cotangents: Sequence[Any],
    out: Sequence[Any],
    flat: Sequence[Any],
    given: Given,
    arrays: Sequence[Any],
) -> list[Any]:
    """Apply the rule's vjp, with the factors `given`; None for cotangents that are not needed, as a
    transposition of JAX returns.
    """
    if all(type(c) is ad.Zero for c in cotangents):
        return [zero(x) if n else None for x, n in zip(flat, need, strict=True)]
    bars = [None if type(c) is ad.Zero else c for c in cotangents]
    if not given and (values := kernels.values(rule, [*flat, *out, *bars])) is not None:
        with holding(store if (keeper := owner()) is None else keeper):
            xs, rest = values[: len(flat)], tuple(values[len(flat) :])
            ys = rest[: len(out)]
            conjugated = tuple([None if c is None else conj(c) for c in rest[len(out) :]])
            found = pulled_back(rule.compiled, need, conjugated, ys, xs)
            if found is not None or kernels.are_few(rule, xs):
                grads = cotangents_of(rule, need, conjugated, ys, xs, found)
                return placed([None if g is None else conj(g) for g in grads], flat)
    bars = [None if c is None else as_own(c) for c in bars]
    known = all(x is None or isinstance(x, jax.Array) for x in [*flat, *out])
    run: Any = partial(as_program, _pulled) if known else _pulled
    grads = run(bars, [*out], [*flat], [*arrays], rule=rule, need=tuple(need), given=given)
    return [*grads]


def _pulled(
    bars: Sequence[Any],
    out: Sequence[Any],
    flat: Sequence[Any],
    arrays: Sequence[Any],
    *,
    rule: Rule,
    need: Sequence[bool],
    given: Given,
) -> list[Any]:
    bars = tuple([None if c is None else conj(c) for c in bars])
    with holding_given(flat, given, arrays):
        called = _in_one_call(rule, need, bars, out, flat)
        grads = cotangents_of(rule, need, bars, tuple(out), flat) if called is None else called
    return [g if g is None else conj(g) for g in grads]


def _in_one_call(
    rule: Rule, need: Sequence[bool], bars: Sequence[Any], out: Sequence[Any], flat: Sequence[Any]
) -> list[Any] | None:
    """Return the cotangents by one call of compiled code, in a program that is being traced; None
    if there is no such call.
    """
    given = [bar for bar in bars if bar is not None]
    if any(y is None for y in out) or not staged([*given, *out, *flat]):
        return None
    depth = len(common_batch(rule.core, rebuild(rule.core, list(flat))))
    own = tuple([y.ndim - depth for y in out])
    pulled = Pullback(
        rule, tuple([bar is not None for bar in bars]), tuple(need), own, policy=rule.policy
    )
    if call_of(pulled, xs := [*given, *out, *flat]) is None:
        return None
    with under(rule.policy):
        found = iter(bind(pulled, *xs))
    return [conform(next(found), x) if n else None for n, x in zip(need, flat, strict=True)]


def zero(x: Any) -> Any:
    """Return the zero tangent, or cotangent, of x; that of integers has the dtype float0."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


def differentiable(rule: Rule, out: Sequence[Any]) -> tuple[bool, ...]:
    """A flag for each output that has a tangent; the others are integers, signs, orders of rows."""
    return rule.traits.differentiable or (True,) * len(out)
