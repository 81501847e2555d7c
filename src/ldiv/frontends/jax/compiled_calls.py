"""Rules that are one call of compiled code in a program for the CPU: no Python, no lock of Python.

XLA hands over its arrays, and takes the results and the factor as its own (`jax.ffi`). What a call
declines it asks of Python itself, which answers or raises; so the program has no check and no
callback. Where programs run on something else by default, they are staged as elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.export

from ldiv.core.caches import emptied_by
from ldiv.core.compiled import CompiledCall, offered
from ldiv.core.holder import TracedFactor
from ldiv.core.rule import Rule
from ldiv.frontends.jax.private import CALLS_COMPILED_CODE, ir, lowered_calls, mlir

PLATFORM = "cpu"
CONFIG = "mhlo.backend_config"  # where an operation has what the call is told


def _register() -> bool:
    """Whether there is compiled code that programs of this jaxlib can call."""
    if not CALLS_COMPILED_CODE:
        return False
    for name, call in offered.items():
        jax.ffi.register_ffi_target(name, call, platform=PLATFORM)
    return bool(offered)


is_registered = _register()


def export_checks() -> list[Any]:
    names = offered if is_registered else ()
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]


@lru_cache(maxsize=256)
def _call_of(rule: Rule, specs: Any) -> CompiledCall | None:
    return rule.compiled_call(*(jax.ShapeDtypeStruct(*spec) for spec in specs))


emptied_by(_call_of.cache_clear)


def call_of(rule: Rule, flat: Sequence[Any]) -> CompiledCall | None:
    """That of a rule of arguments of these shapes and dtypes, if it has one here."""
    if not is_registered or jax.default_backend() != PLATFORM:
        return None
    return _call_of(rule, tuple((x.shape, x.dtype) for x in flat))


def factor_of(call: CompiledCall) -> TracedFactor:
    """What it makes."""
    return TracedFactor(call.key, (0,), _no_factor, call.core)


def _no_factor(*arrays: Any) -> Any:
    raise AssertionError("only the calls of compiled code read such arrays")


def place_of_factor(call: CompiledCall, given: Sequence[TracedFactor]) -> slice | None:
    """Where among the arrays of all factors those are that the call can be given."""
    start = 0
    for factor in given:
        if factor.key == call.key and factor.places == (0,):
            return slice(start, start + len(factor.core))
        start += len(factor.core)
    return None


class Lowered(NamedTuple):
    """A call in a program, whose factor later ones of the same matrix take."""

    op: Any
    rule: str
    factor: Sequence[Any]
    avals: Sequence[Any]

    def write_factor(self) -> None:
        """The arrays are among its results in any case, and from now on it writes them."""
        self.op.attributes[CONFIG] = _config(f"{self.rule} made")


def lower(
    ctx: Any, call: CompiledCall, flat: Sequence[Any], factor: Sequence[Any], avals: Sequence[Any]
) -> Any:
    """The call on the arguments `flat` and the arrays of a factor, both of these shapes.

    In one block of a program a matrix is factored once, by the first call of it that makes a
    factor.
    """
    own, wanted = ctx.avals_out[: len(call.own)], ctx.avals_out[len(call.own) :]
    if factor or not call.made:
        return _called(ctx, call, [*flat, *factor], avals, own, "given" if factor else "made")
    lowered = lowered_calls(ctx.module_context)
    place = "ldiv", ir.InsertionPoint.current.block, flat[0], call.key
    if (first := lowered.get(place)) is not None:
        first.write_factor()
        avals = [*avals, *first.avals]
        out = _called(ctx, call, [*flat, *first.factor], avals, own, "given")
        return [*out, *(first.factor if wanted else ())]
    made = wanted or [jax.core.ShapedArray(*spec) for spec in call.made]
    out = _called(ctx, call, flat, avals, [*own, *made], "made" if wanted else "alone")
    lowered[place] = Lowered(out[0].owner, call.rule, out[len(own) :], made)
    return out if wanted else out[: len(own)]


def _called(
    ctx: Any,
    call: CompiledCall,
    operands: Sequence[Any],
    avals: Sequence[Any],
    out: Sequence[Any],
    by: str,
) -> list[Any]:
    """The results, of shapes `out`; `by`: is a factor `given`, `made`, or `alone` for this call?"""
    operands, avals = [*operands], [*avals]
    constants = [*call.pattern]
    if call.probe is not None and (call.looks or by != "given"):
        constants.append(call.probe)
    for constant in constants:
        operands.append(mlir.ir_constant(constant))
        avals.append(jax.core.ShapedArray(constant.shape, constant.dtype))
    how: dict[str, Any] = {"operand_output_aliases": {0: 0}} if call.in_place else {}
    called = jax.ffi.ffi_lowering(call.name, **how)
    ctx = ctx.replace(avals_in=avals, avals_out=out)
    return list(called(ctx, *operands, rule=f"{call.rule} {by}"))


def _config(rule: str) -> Any:
    return ir.DictAttr.get({"rule": ir.StringAttr.get(rule)})
