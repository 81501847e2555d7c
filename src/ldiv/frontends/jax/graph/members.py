"""y = kernel(x), and NaN in the batch members that the kernel refuses: programs without Python.

The kernel of one member is mapped over the batch by `jax.vmap`, so that each member has its own
branches, loops and checks. Arguments that all members share are factored once, and these factors
have no batch axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast
from ldiv.core.owners.holder import TracedFactor, TracedHolder, holding
from ldiv.core.policies.or_nan import unless_refused, varies, without_refused
from ldiv.core.rules.finite import evaluated, refusing
from ldiv.core.rules.rule import Rule
from ldiv.errors import EngineError
from ldiv.frontends.jax.devices.checks import noting, passed
from ldiv.frontends.jax.values import host

Given = tuple[TracedFactor, ...]
Found = tuple[list[jax.Array], Given, list[jax.Array]]


def run(*args: jax.Array, rule: Rule, given: Given, outputs_of: Callable[..., Any]) -> Found:
    """The outputs, the factors that were made, and their arrays."""
    cores = [*rule.cores, *(c for factor in given for c in factor.core)]
    batches = [tuple(x.shape[: x.ndim - c]) for x, c in zip(args, cores, strict=True)]
    whole = broadcast(*batches)
    if not whole:
        return _one(args, rule, given)
    own = [x.shape[x.ndim - c :] for x, c in zip(args, cores, strict=True)]
    members = [jax.ShapeDtypeStruct(s, x.dtype) for x, s in zip(args, own, strict=True)]
    factors: Given = outputs_of(rule, given, members).factors

    def f(*args: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        out, _, made = _one(args, rule, given)
        return out, made

    every = [varies(b, whole) for b in batches]
    of_factors = [
        [any(vs) for vs in zip(*(every[i] for i in factor.places), strict=True)]
        for factor in factors
        for _ in factor.core
    ]
    for axis in reversed(range(len(whole))):
        f = jax.vmap(
            f,
            in_axes=[0 if v[axis] else None for v in every],
            out_axes=(0, [0 if v[axis] else None for v in of_factors]),
            axis_size=whole[axis],
        )
    squeezed = [
        jnp.reshape(x, (*(n for n, v in zip(whole, vs, strict=True) if v), *s))
        for x, vs, s in zip(args, every, own, strict=True)
    ]
    out, made = f(*squeezed)
    # as broadcast axes of the matrix of the factor
    depths = [max(len(batches[i]) for i in f.places) for f in factors for _ in f.core]
    return (
        out,
        factors,
        [
            jnp.reshape(y, (*_stretched(vs, whole)[len(whole) - depth :], *y.shape[sum(vs) :]))
            for y, vs, depth in zip(made, of_factors, depths, strict=True)
        ],
    )


def _stretched(varies: Sequence[bool], whole: Sequence[int]) -> list[int]:
    return [n if v else 1 for n, v in zip(whole, varies, strict=True)]


def eager(
    flat: list[jax.Array], rule: Rule, staged: Callable[..., list[jax.Array]]
) -> Sequence[jax.Array]:
    """Run a rule of known values, with NaN for refused members.

    If a member is refused, a program computes all members; it is compiled once, and waits for no
    device. A rule without a program bisects the batch.
    """
    at_hand = all(map(host, flat))
    if at_hand and (found := unless_refused(partial(refusing, rule), flat)) is not None:
        return found
    try:
        made = jax.jit(partial(staged, given=(), with_factors=False))(*flat)
    except EngineError:  # the kernel runs on the host
        return evaluated(rule, flat)
    if at_hand:  # the program finds the refused members; the kernel computes the others
        batch = broadcast(*[batch_of(x, c) for x, c in zip(flat, rule.cores, strict=True)])
        is_nan = [
            np.isnan(y).any(tuple(range(len(batch), y.ndim)))
            for y in map(np.asarray, made)
            if np.issubdtype(y.dtype, np.inexact)
        ]
        bad = np.logical_or.reduce(is_nan)
        found = without_refused(partial(refusing, rule), rule.cores, flat, np.asarray(bad))
        return made if found is None else found
    return made


def _one(args: Sequence[jax.Array], rule: Rule, given: Given) -> Found:
    """Return the outputs and factors of one batch member."""
    count = len(rule.cores)
    flat = list(args[:count])
    keeper = TracedHolder(flat, given, args[count:])
    with noting() as checks, holding(keeper):
        out = refusing(rule, flat)
    ok = passed(checks)
    found = [jnp.where(ok, y, _nothing(y)) for y in out]
    return found, tuple(keeper.factors[len(given) :]), keeper.made


def _nothing(y: jax.Array) -> Any:
    return jnp.nan if jnp.issubdtype(y.dtype, jnp.inexact) else jnp.zeros((), y.dtype)
