"""Rules that are calls of compiled code in a program for the CPU: no Python, no lock of Python.

XLA owns the arrays, the results and the factor (`jax.ffi`). A rule has two or three calls: one
factors the matrix, one computes with the factor, and one answers for the batch members that these
declined, in Python, or raises. XLA moves the first two out of loops in which their arguments do not
change, also of loops that run zero times. The last call takes a marker of its block as an argument,
and stays in it. So a program has no check and no callback. Programs for other platforms than the CPU
have none of these calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from ldiv.core.owners.caches import bounded_cache
from ldiv.core.owners.holder import TracedFactor
from ldiv.core.rules.compiled import CompiledCall, CompiledFactor, Record, offered
from ldiv.core.rules.rule import Rule, program_of
from ldiv.frontends.jax.private import CALLS_COMPILED_CODE, ir, lowered_calls, mlir

PLATFORM = "cpu"


def _register() -> bool:
    """Register the calls; True if programs of this jaxlib can call compiled code."""
    if not CALLS_COMPILED_CODE:
        return False
    for name, call in offered.items():
        jax.ffi.register_ffi_target(name, call, platform=PLATFORM)
    return bool(offered)


is_registered = _register()


def export_checks() -> list[Any]:
    names = offered if is_registered else ()
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]


@bounded_cache(256)
def _call_of(rule: Rule, specs: Any) -> CompiledCall | None:
    return program_of(rule, *(jax.ShapeDtypeStruct(*spec) for spec in specs))


def call_of(rule: Rule, flat: Sequence[Any]) -> CompiledCall | None:
    """Return the compiled call of a rule for these shapes and dtypes; None if there is none."""
    if not is_registered or jax.default_backend() != PLATFORM:
        return None
    return _call_of(rule, tuple((x.shape, x.dtype) for x in flat))


def factor_of(call: CompiledCall) -> TracedFactor:
    """Return the factor that the call takes, without its arrays."""
    assert call.factor is not None
    core = tuple([len(shape) for shape, _ in call.factor.own])
    return TracedFactor(call.factor, (0,), _no_factor, core)


def _no_factor(*arrays: Any) -> Any:
    raise AssertionError("only the calls of compiled code read such arrays")


def place_of_factor(call: CompiledCall, given: Sequence[TracedFactor]) -> slice | None:
    """The position, among the arrays of all factors, of the factor that the call takes."""
    start = 0
    for factor in given:
        if factor.key == call.factor and factor.places == (0,):
            return slice(start, start + len(factor.core))
        start += len(factor.core)
    return None


# -- lowering -----------------------------------------------------------------


def is_on_cpu_alone(ctx: Any) -> bool:
    """True if the program that is being lowered is only for the CPU."""
    return tuple(ctx.platforms or ctx.module_context.platforms) == (PLATFORM,)


def lower(
    ctx: Any, call: CompiledCall, flat: Sequence[Any], made: Sequence[Any], avals: Sequence[Any]
) -> Any:
    """The results for the leaves `flat` of a rule, of these avals, with the factor `made`."""
    if call.members is None:
        more, of_more = _here(ctx) if call.is_look else _constants(call.constants)
        given, aliases = ([*flat, *more], [*avals, *of_more]), {0: 0} if call.is_look else None
        return _called(ctx, call.name, call.record, *given, ctx.avals_out, aliases=aliases)
    if call.takes is not None:
        flat, avals = [flat[i] for i in call.takes], [avals[i] for i in call.takes]
    arrays, of_arrays = [*flat], [*avals]
    if call.factor is not None:
        specs = call.factor.made(avals[0].shape[: avals[0].ndim - call.factor.axes])
        made = made or lower_factor(ctx, call.factor, flat[0], avals[0])
        arrays, of_arrays = [*flat, *made], [*avals, *_avals(specs)]
    flags = _avals([(call.members, np.dtype(np.int32))])
    some = [y for y in ctx.avals_out if 0 not in y.shape]
    out = [*some, *flags]
    constants, of_constants = _constants(call.constants)
    given = [*arrays, *constants], [*of_arrays, *of_constants]
    computed = _called(ctx, call.name, (*call.record, ("stage", "compute")), *given, out)
    entries, of_entries = _constants(call.entries)
    here, at = _here(ctx)
    found = iter(
        _called(
            ctx,
            call.name,
            (*call.record, ("stage", "answer")),
            [*flat, *computed, *entries, *here],
            [*avals, *out, *of_entries, *at],
            some,
            aliases={len(flat) + i: i for i in range(len(some))},
        )
    )
    empty = [mlir.ir_constant(np.zeros(y.shape, y.dtype)) for y in ctx.avals_out if 0 in y.shape]
    rest = iter(empty)
    return [next(rest if 0 in y.shape else found) for y in ctx.avals_out]


def lower_factor(ctx: Any, factor: CompiledFactor, values: Any, aval: Any) -> list[Any]:
    """The arrays of the factor of a matrix."""
    constants, of_constants = _constants(factor.constants)
    out = _avals(factor.made(aval.shape[: aval.ndim - factor.axes]))
    given = [values, *constants], [aval, *of_constants]
    return _called(ctx, factor.name, factor.record, *given, out)


HERE = "ldiv_here_1"
_PLACE = jax.core.ShapedArray((), np.dtype(np.int32))


def _here(ctx: Any) -> tuple[list[Any], list[Any]]:
    """The marker of a block of a program: a call with a side effect, which XLA does not move.

    Calls that take its result as an argument are not moved, either.
    """
    places = lowered_calls(ctx.module_context)
    block = "ldiv here", ir.InsertionPoint.current.block
    if block not in places:
        places[block] = _called(ctx, HERE, (), [], [], [_PLACE], has_side_effect=True)
    return places[block], [_PLACE]


def _called(
    ctx: Any,
    name: str,
    record: Record,
    operands: Sequence[Any],
    avals: Sequence[Any],
    out: Sequence[Any],
    aliases: dict[int, int] | None = None,
    **how: Any,
) -> list[Any]:
    called = jax.ffi.ffi_lowering(name, operand_output_aliases=aliases, **how)
    return list(called(ctx.replace(avals_in=avals, avals_out=out), *operands, **dict(record)))


def _constants(arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return [*map(mlir.ir_constant, arrays)], _avals([(x.shape, x.dtype) for x in arrays])


def _avals(specs: Sequence[Any]) -> list[Any]:
    return [jax.core.ShapedArray(*spec) for spec in specs]
