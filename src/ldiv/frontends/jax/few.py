"""A few numbers in the memory of this process are NumPy arrays to a rule: outside of a program each
operation of JAX costs more than most kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldiv.core.arrays import conform
from ldiv.core.finite import derivative, evaluated_on_host
from ldiv.core.rule import Rule
from ldiv.core.trees import leaves, rebuild
from ldiv.frontends.jax.callbacks import chosen_device
from ldiv.frontends.jax.values import host


def are_few(rule: Rule, flat: Sequence[Any]) -> bool:
    """Do these stand for values that NumPy may handle as well? Integers are of another size there."""
    return (
        rule.on_host
        and rule.differentiable is None
        and all(
            isinstance(x, jax.Array) and x.ndim == core and x.size <= rule.few and _is_here(x)
            for x, core in zip(flat, rule.cores, strict=True)
        )
    )


def _is_here(x: jax.Array) -> bool:
    return host(x) and len(x.devices()) == 1


def kernel(rule: Rule, flat: Sequence[jax.Array]) -> list[jax.Array]:
    """The outputs of a rule."""
    device = chosen_device(flat)
    return [
        jnp.asarray(y, device=device)
        for y in evaluated_on_host(rule, [np.asarray(x) for x in flat])
    ]


def pullback(
    rule: Rule,
    need: Sequence[bool],
    cotangents: Sequence[Any],
    out: Sequence[Any],
    flat: Sequence[Any],
) -> list[jax.Array | None] | None:
    """The cotangents of the arguments, in their spaces and our convention; None unless all that they
    are made of is here.
    """
    given = [c for c in cotangents if c is not None]
    if not are_few(rule, flat) or not all(isinstance(x, jax.Array) and _is_here(x) for x in given):
        return None
    if not all(isinstance(y, jax.Array) and _is_here(y) for y in out):
        return None
    device = chosen_device(flat)
    args, results = [np.asarray(x) for x in flat], tuple([np.asarray(y) for y in out])
    bars = tuple([None if c is None else np.conj(c) for c in map(_numpy, cotangents)])
    found = rule.accepted_vjp(need, bars, results, *args) or leaves(
        derivative(
            rule, rule.vjp, rebuild(rule.core, need), bars, results, *rebuild(rule.core, args)
        )
    )
    return [
        jnp.asarray(np.conj(conform(g, x)), device=device) if n and g is not None else None
        for n, g, x in zip(need, found, args, strict=True)
    ]


def _numpy(x: Any) -> Any:
    return None if x is None else np.asarray(x)
