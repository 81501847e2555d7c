"""S(p) -> the arrays of its factor: the primitive of the factors that compiled calls take.

Apart from the rules that use it, since a loop over rules of one matrix factors once: JAX and XLA move
it out, and the backward pass of a loop keeps one factor, not one for each step. It has no derivative:
a factor stands for the matrix, whose derivative the rules have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from ldiv.core.owners.holder import TracedFactor
from ldiv.core.rules.compiled import CompiledFactor
from ldiv.core.rules.rule import Rule
from ldiv.frontends.jax.devices.callbacks import device_count
from ldiv.frontends.jax.graph import partitioned
from ldiv.frontends.jax.graph.compiled_calls import (
    call_of,
    factor_of,
    is_on_cpu_alone,
    lower_factor,
    place_of_factor,
)
from ldiv.frontends.jax.graph.cotangents import zero
from ldiv.frontends.jax.graph.programs import program
from ldiv.frontends.jax.private import ad, batching, linearized_by, lowered_for_devices, mlir


def with_factor(
    rule: Rule, flat: Sequence[Any], given: tuple[TracedFactor, ...], factor_arrays: list[Any]
) -> tuple[tuple[TracedFactor, ...], list[Any]]:
    """Add the factor that the compiled call of the rule takes to the given factors and their arrays."""
    call = call_of(rule, flat)
    if call is None or call.factor is None or place_of_factor(call, given) is not None:
        return given, factor_arrays
    return (*given, factor_of(call)), [*factor_arrays, *factor_p.bind(flat[0], factor=call.factor)]


def _made(shape: Sequence[Any], factor: CompiledFactor) -> Any:
    return factor.made(shape[: len(shape) - factor.axes])


def _abstract(x: Any, *, factor: CompiledFactor) -> list[Any]:
    return partitioned.varying([jax.core.ShapedArray(*spec) for spec in _made(x.shape, factor)], x)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, factor: CompiledFactor
) -> tuple[list[Any], list[Any]]:
    out = factor_p.bind(*primals, factor=factor)
    return out, [*map(zero, out)]


def _linearize(
    is_vjp: bool, moving: Sequence[bool], x: Any, *, factor: CompiledFactor
) -> tuple[list[Any], list[bool], list[Any], Callable[..., list[Any]]]:
    out = factor_p.bind(x, factor=factor)
    return out, [False] * len(out), [], lambda arrays, *tangents: [*map(zero, out)]


def _batch(
    args: Sequence[Any], dims: Sequence[int], *, factor: CompiledFactor
) -> tuple[list[Any], list[int]]:
    out = factor_p.bind(jnp.moveaxis(args[0], dims[0], 0), factor=factor)
    return out, [0] * len(out)


def _nothing(x: jax.Array, *, factor: CompiledFactor) -> list[jax.Array]:
    """Return zeros as the factor, on platforms without the compiled calls, which never read it."""
    return [jnp.zeros(*spec) for spec in _made(x.shape, factor)]


def _lower(ctx: Any, x: Any, *, factor: CompiledFactor) -> Any:
    if not (is_on_cpu_alone(ctx) and partitioned.is_known(ctx)):
        return _as_nothing(ctx, x, factor=factor)
    if device_count(ctx) > 1:
        return partitioned.lower(ctx, partial(factor_p.bind, factor=factor), [factor.axes], [x])
    return lower_factor(ctx, factor, x, ctx.avals_in[0])


_as_nothing = mlir.lower_fun(_nothing, multiple_results=True)
factor_p = Primitive("ldiv_factor")
factor_p.multiple_results = True
factor_p.def_impl(lambda x, factor: list(program(factor_p.bind, factor=factor)(x)))
factor_p.def_abstract_eval(_abstract)
ad.primitive_jvps[factor_p] = _jvp
linearized_by(factor_p, _linearize)
batching.primitive_batchers[factor_p] = _batch
lowered_for_devices(factor_p)
mlir.register_lowering(factor_p, _lower, cacheable=False)
