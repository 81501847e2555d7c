"""(dx, x, y) -> dy: the tangent map of a rule, linear in dx; its transpose is the rule's vjp.

A primitive of its own, for JAX makes reverse mode by transposing forward mode: were the jvp staged
as the operations in it, each would be transposed, and the rule's vjp never called. Its arguments
are (*dx, *x, *y, *arrays of the factors `given`); `moving` says which x have a dx, and only y that
are differentiable have a dy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from ldiv.core.arrays.shapes import is_complex, real
from ldiv.core.frameworks.trees import rebuild
from ldiv.core.rules.finite import derivative
from ldiv.core.rules.rule import Rule
from ldiv.frontends.jax.graph.cotangents import differentiable, pullback, zero
from ldiv.frontends.jax.graph.evaluation import Given, array_count, holding_given
from ldiv.frontends.jax.graph.programs import as_program
from ldiv.frontends.jax.private import ad, batching, mlir
from ldiv.frontends.jax.values import as_own


def _split(
    args: Sequence[Any], moving: tuple[bool, ...], given: Given
) -> tuple[Sequence[Any], ...]:
    """dx, x, y, and the arrays of factors."""
    k, end = sum(moving), len(args) - array_count(given)
    return args[:k], args[k : k + len(moving)], args[k + len(moving) : end], args[end:]


def tangent(
    *args: jax.Array, rule: Rule, moving: tuple[bool, ...], given: Given
) -> list[jax.Array]:
    """dy = rule.jvp(dx, y, x), of the shapes and dtypes of y."""
    dx, flat, out, factor_arrays = _split([as_own(x) for x in args], moving, given)
    along = iter(dx)
    tangents = rebuild(rule.core, [next(along) if m else None for m in moving])
    if not any(moving):
        return [jnp.zeros_like(y) for y, s in zip(out, differentiable(rule, out), strict=True) if s]
    with holding_given(flat, given, factor_arrays):
        moved = derivative(rule, rule.jvp, tangents, tuple(out), *rebuild(rule.core, flat))
    return [
        jnp.zeros_like(y)
        if dy is None
        else jnp.broadcast_to(dy if is_complex(y) else real(dy), y.shape).astype(y.dtype)
        for dy, y, smooth in zip(moved, out, differentiable(rule, out), strict=True)
        if smooth
    ]


def _abstract(*avals: Any, rule: Rule, moving: tuple[bool, ...], given: Given) -> list[Any]:
    out = _split(avals, moving, given)[2]
    smooth = differentiable(rule, out)
    return [y.to_tangent_aval() for y, s in zip(out, smooth, strict=True) if s]


def _jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], *, given: Given, **static: Any
) -> Any:
    """The second order: JAX differentiates the rule's jvp, which is made of rules. Arguments without
    a tangent are constants, as factors are.
    """
    end = len(primals) - array_count(given)
    moves = tuple([type(t) is not ad.Zero and i < end for i, t in enumerate(tangents)])
    along = [x for x, m in zip(tangents, moves, strict=True) if m]
    return as_program(_second, primals, along, moves=moves, given=given, **static)


def _second(
    primals: Sequence[jax.Array],
    along: Sequence[jax.Array],
    *,
    moves: Sequence[bool],
    **static: Any,
) -> Any:
    def f(*moved: jax.Array) -> list[jax.Array]:
        rest = iter(moved)
        return tangent(
            *(next(rest) if m else x for x, m in zip(primals, moves, strict=True)), **static
        )

    return jax.jvp(f, [x for x, m in zip(primals, moves, strict=True) if m], along)


def _transpose(
    cotangents: Sequence[Any], *args: Any, rule: Rule, moving: tuple[bool, ...], given: Given
) -> list[Any]:
    """dx_bar = rule.vjp(dy_bar, y, x) of the dx that are unknown; x, y and factors are known."""
    dx, *values = _split(args, moving, given)
    flat, out, factor_arrays = ([as_own(x) for x in xs] for xs in values)
    unknown = iter(map(ad.is_undefined_primal, dx))
    rest = iter(cotangents)
    smooth = differentiable(rule, out)
    bars = [next(rest) if s else zero(y) for y, s in zip(out, smooth, strict=True)]
    need = [m and next(unknown) for m in moving]
    grads = pullback(rule, need, bars, out, flat, given, factor_arrays)
    count = len(flat) + len(out) + len(factor_arrays)
    return [g for g, m in zip(grads, moving, strict=True) if m] + [None] * count


def _batch(
    args: Sequence[jax.Array], dims: Sequence[int | None], **static: Any
) -> tuple[list[jax.Array], list[int]]:
    """The rules in the jvp are batched, each as the rule itself is."""
    moved = as_program(_mapped, *args, dims=tuple(dims), **static)
    return moved, [0] * len(moved)


def _mapped(*args: jax.Array, dims: tuple[int | None, ...], **static: Any) -> list[jax.Array]:
    return jax.vmap(partial(tangent, **static), in_axes=dims)(*args)


tangent_p = Primitive("ldiv_tangent")
tangent_p.multiple_results = True
tangent_p.def_impl(partial(as_program, tangent))
tangent_p.def_abstract_eval(_abstract)
ad.primitive_jvps[tangent_p] = _jvp
ad.primitive_transposes[tangent_p] = _transpose
batching.primitive_batchers[tangent_p] = _batch
mlir.register_lowering(tangent_p, mlir.lower_fun(tangent, multiple_results=True), cacheable=False)
