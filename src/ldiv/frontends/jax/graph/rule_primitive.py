"""x -> y: the primitive of all rules, opaque to every transformation until it is lowered.

Its parameters are static: the `rule`, the factors `given` to it, and whether the arrays of the
factors that it makes are outputs, too, `with_factors` (see `evaluation`). Below stands, in this
order, what JAX asks of a primitive: shapes, forward mode, transposition, batching, lowering.
Reverse mode is the transpose of `tangent_primitive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive

from ldiv.core.arrays.shapes import leading
from ldiv.core.frameworks.trees import leaves
from ldiv.core.owners.holder import TracedHolder, owner
from ldiv.core.rules.rule import Rule
from ldiv.core.rules.some_outputs import SomeOutputs
from ldiv.errors import type_error
from ldiv.frontends.jax import private
from ldiv.frontends.jax.devices.callbacks import device_count
from ldiv.frontends.jax.graph import partitioned
from ldiv.frontends.jax.graph.compiled_calls import call_of, is_on_cpu_alone, lower, place_of_factor
from ldiv.frontends.jax.graph.cotangents import differentiable, pullback, zero
from ldiv.frontends.jax.graph.evaluation import (
    Given,
    Outputs,
    eager_kernel,
    outputs_of,
    own_arguments,
    staged_kernel,
)
from ldiv.frontends.jax.graph.factor_primitive import with_factor
from ldiv.frontends.jax.graph.programs import program, stored
from ldiv.frontends.jax.graph.tangent_primitive import tangent_p
from ldiv.frontends.jax.private import ad, batching, linearized_by, lowered_for_devices, mlir
from ldiv.frontends.jax.values import as_own, staged, traced


def bind(rule: Rule, flat: list[jax.Array]) -> tuple[jax.Array, ...]:
    keeper = owner()
    if not isinstance(keeper, TracedHolder) and private.is_top_level():
        for x in flat:
            if isinstance(x, jax.core.Tracer):  # a list is faster here than a generator
                break
        else:
            return tuple(eager_kernel(rule, flat))
    rule = rule.rescaled_for(flat)
    # inside of the derivative of a rule its factors are known: pass on those of these arguments
    given, factor_arrays = keeper.known_of(flat) if isinstance(keeper, TracedHolder) else ((), [])
    if staged(flat):
        rule = stored(rule, flat)
        given, factor_arrays = with_factor(rule, flat, given, factor_arrays)
    flat = [*flat, *factor_arrays]
    return tuple(
        rule_p.bind(
            *(_alike(flat) if any(map(traced, flat)) else flat),
            rule=rule,
            given=given,
            with_factors=False,
        )
    )


def _alike(flat: list[jax.Array]) -> list[jax.Array]:
    """Let all arguments vary along the mesh axes of any of them under shard_map, so that the
    cotangent of a shared argument is summed.
    """
    axes = [jax.typeof(x).mat.varying for x in flat]
    every = frozenset().union(*axes)
    return [
        jax.lax.pcast(x, tuple(every - own), to="varying") if every - own else x
        for x, own in zip(flat, axes, strict=True)
    ]


# -- shapes -------------------------------------------------------------------


def _abstract(*avals: Any, rule: Rule, given: Given, with_factors: bool) -> list[Any]:
    outputs = outputs_of(rule, given, avals)
    # the mesh axes of all arguments are the same: `_alike` made them so
    return partitioned.varying(outputs.own + outputs.made * with_factors, avals[0])


# -- forward mode -------------------------------------------------------------


def _jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **static: Any
) -> tuple[list[jax.Array], list[Any]]:
    out, _, arrays, along = _linearized(primals, **static)
    return out, along(arrays, *tangents)


def _linearize(
    is_vjp: bool, moving: Sequence[bool], *primals: jax.Array, **static: Any
) -> tuple[list[jax.Array], list[bool], list[jax.Array], Callable[..., list[Any]]]:
    """Linearize as JAX does by `_jvp`, without a trace of what the tangents depend on."""
    return _linearized(primals, **static)


def _linearized(
    primals: Sequence[jax.Array], *, rule: Rule, given: Given, with_factors: bool
) -> tuple[list[jax.Array], list[bool], list[jax.Array], Callable[..., list[Any]]]:
    """Return the outputs, which of them have tangents, the map (arrays, tangents) -> tangents of
    outputs, and its arrays.
    """
    primals = [as_own(x) for x in primals]
    if isinstance(rule, SomeOutputs):
        return _of_some(rule, primals, given)
    flat, factor_arrays = own_arguments(rule, primals)
    # a program that is being traced requests the factors of the rule for its tangent map
    outputs = (
        outputs_of(rule, given, primals) if with_factors or staged(primals) else Outputs([], (), [])
    )
    every = rule_p.bind(
        *flat, *factor_arrays, rule=rule, given=given, with_factors=bool(outputs.made)
    )
    count = len(outputs.own) if outputs.made else len(every)
    out, made = every[:count], every[count:]
    all_factors = (*given, *outputs.factors)
    smooth = differentiable(rule, out)

    def along(arrays: Sequence[jax.Array], *tangents: Any) -> list[Any]:
        dx, _ = own_arguments(rule, tangents)
        # symbolic zeros are left out, so that the rule's jvp does no work for them
        moving = tuple(type(t) is not ad.Zero for t in dx)
        dx = [t for t, m in zip(dx, moving, strict=True) if m]
        moved = iter(tangent_p.bind(*dx, *arrays, rule=rule, moving=moving, given=all_factors))
        dy = [next(moved) if s else zero(y) for y, s in zip(out, smooth, strict=True)]
        return [*dy, *map(zero, made)] if with_factors else dy

    moves = [*smooth, *(False for _ in made)] if with_factors else [*smooth]
    return every if with_factors else out, moves, [*flat, *out, *factor_arrays, *made], along


def _of_some(
    rule: SomeOutputs, flat: list[Any], given: Given
) -> tuple[list[jax.Array], list[bool], list[jax.Array], Callable[..., list[Any]]]:
    """Linearize the rule with all outputs: the tangents of some outputs need the others."""
    whole = rule.whole.rescaled_for(flat)
    every, moves, arrays, along = _linearized(flat, rule=whole, given=given, with_factors=False)

    def along_some(arrays: Sequence[jax.Array], *tangents: Any) -> list[Any]:
        return [*rule.of(along(arrays, *tangents))]

    return [*rule.of(every)], [*rule.of(moves)], arrays, along_some


# -- transposition, of rules that are linear ----------------------------------


def _transpose(
    cotangents: Sequence[Any], *args: Any, rule: Rule, given: Given, with_factors: bool
) -> list[Any]:
    """Transpose a rule in the arguments in which it is linear: the vjp does not need their values,
    so that shapes stand in for them.
    """
    own, factor_arrays = own_arguments(rule, args)
    need = [ad.is_undefined_primal(x) for x in own]
    flat = [
        jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) if n else as_own(x)
        for x, n in zip(own, need, strict=True)
    ]
    try:
        nothing = [None] * len(cotangents)
        grads = pullback(rule, need, cotangents, nothing, flat, given, factor_arrays)
        return [*grads, *(None for _ in factor_arrays)]
    except (TypeError, AttributeError) as error:  # the vjp computed with a shape, or an output
        raise type_error(
            "transpose",
            f"arguments in which {type(rule).__name__} is linear",
            str(need),
            "Differentiate it instead.",
        ) from error


# -- batching -----------------------------------------------------------------


def _batch(
    args: Sequence[jax.Array],
    dims: Sequence[int | None],
    *,
    rule: Rule,
    given: Given,
    with_factors: bool,
) -> tuple[list[jax.Array], list[int | None]]:
    """Move a batch to one more leading axis, before the existing batch axes. A factor has this axis
    if its matrix has.
    """
    cores = [*leaves(rule.core), *(c for factor in given for c in factor.core)]
    moved = leading(args, cores, dims)
    out = rule_p.bind(*moved, rule=rule, given=given, with_factors=with_factors)
    if not with_factors:
        return out, [0] * len(out)
    outputs = outputs_of(rule, given, moved)
    of_factors = [
        None if all(dims[i] is None for i in f.places) else 0
        for f in outputs.factors
        for _ in f.core
    ]
    return out, [*[0] * len(outputs.own), *of_factors]


# -- lowering, and running it alone -------------------------------------------

_as_kernel = mlir.lower_fun(staged_kernel, multiple_results=True)


def _lower(ctx: Any, *args: Any, rule: Rule, given: Given, with_factors: bool) -> Any:
    """Lower to a call of compiled code if the rule has one and the program is for the CPU alone."""
    avals, _ = own_arguments(rule, ctx.avals_in)
    call = call_of(rule, avals) if is_on_cpu_alone(ctx) else None
    if call is None or not partitioned.is_known(ctx):
        return _as_kernel(ctx, *args, rule=rule, given=given, with_factors=with_factors)
    if device_count(ctx) > 1:
        f = partial(rule_p.bind, rule=rule, given=given, with_factors=False)
        cores = [*rule.cores, *(c for factor in given for c in factor.core)]
        return partitioned.lower(ctx, f, cores, args)
    place = place_of_factor(call, given)
    flat, factor_arrays = own_arguments(rule, args)
    return lower(ctx, call, flat, [] if place is None else factor_arrays[place], avals)


def _run(*args: jax.Array, rule: Rule, given: Given, with_factors: bool) -> list[jax.Array]:
    if given or with_factors:  # a staged program that is evaluated operation by operation
        run = program(rule_p.bind, rule=rule, given=given, with_factors=with_factors)
        return list(run(*args))
    return eager_kernel(rule, [as_own(x) for x in args])


rule_p = Primitive("ldiv")
rule_p.multiple_results = True
rule_p.def_impl(_run)
rule_p.def_abstract_eval(_abstract)
ad.primitive_jvps[rule_p] = _jvp
linearized_by(rule_p, _linearize)
ad.primitive_transposes[rule_p] = _transpose
batching.primitive_batchers[rule_p] = _batch
lowered_for_devices(rule_p)
mlir.register_lowering(rule_p, _lower, cacheable=False)
