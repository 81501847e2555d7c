"""x_bar = conj(vjp(conj(y_bar))): the rule's vjp, between JAX's convention and ours.

JAX transposes a map of complex numbers without conjugating it, dy = J dx gives x_bar = J^T y_bar,
and ours is J^H y_bar; so a cotangent of JAX is the conjugate of ours. `pullback` is the one place
that translates for rules, `transforms.vjp` for functions of users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.core.finite import derivative
from ldiv.core.holder import holding, owner, store
from ldiv.core.rule import Rule
from ldiv.core.trees import leaves, rebuild
from ldiv.frontends.jax import few
from ldiv.frontends.jax.private import ad
from ldiv.frontends.jax.values import as_own


def pullback(
    rule: Rule, need: list[bool], cotangents: Sequence[Any], out: Sequence[Any], flat: Sequence[Any]
) -> list[Any]:
    """The rule's vjp; None of what is not needed, as JAX wants it in a transposition."""
    if all(type(c) is ad.Zero for c in cotangents):
        return [zero(x) if n else None for x, n in zip(flat, need, strict=True)]
    with holding(store if (keeper := owner()) is None else keeper):
        given = [None if type(c) is ad.Zero else c for c in cotangents]
        if (found := few.pullback(rule, need, given, out, flat)) is not None:
            return found
    bars = tuple(None if c is None else _conj(c) for c in given)
    grads = leaves(
        derivative(
            rule, rule.vjp, rebuild(rule.core, need), bars, tuple(out), *rebuild(rule.core, flat)
        )
    )
    return [
        _conj(conform(g, x)) if n and g is not None else None
        for g, x, n in zip(grads, flat, need, strict=True)
    ]


def conform(g: jax.Array, x: Any) -> jax.Array:
    """The cotangent in the space of x: real where x is, summed over the axes that were
    broadcast.
    """
    if g.ndim > x.ndim:
        g = jnp.sum(g, axis=tuple(range(g.ndim - x.ndim)))
    if stretched := tuple(i for i, n in enumerate(x.shape) if n == 1 != g.shape[i]):
        g = jnp.sum(g, axis=stretched, keepdims=True)
    return in_field_of(g, x)


def in_field_of(g: jax.Array, x: Any) -> jax.Array:
    """Real where x is, in its dtype: the projection onto the tangent space of x."""
    if g.dtype == x.dtype:
        return g
    return (g if jnp.issubdtype(x.dtype, jnp.complexfloating) else jnp.real(g)).astype(x.dtype)


def _conj(x: jax.Array) -> jax.Array:
    """Real x as it is: run one by one, each operation costs more than that of an engine."""
    return jnp.conj(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else as_own(x)


def zero(x: Any) -> Any:
    """The zero tangent, or cotangent, of x; of integers it has the dtype float0."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


def differentiable(rule: Rule, out: Sequence[Any]) -> tuple[bool, ...]:
    """Which outputs have a tangent; the others are integers, signs, orders of rows."""
    return rule.differentiable or (True,) * len(out)
