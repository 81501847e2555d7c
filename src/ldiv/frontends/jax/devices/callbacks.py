"""Work on the host: a primitive that hands NumPy arrays to a Python function, in compiled code.

On the host only NumPy runs: a callback that calls JAX again can wait for itself forever. The
primitive has no derivative and no batching of its own, for it stands inside of kernels, which are
staged below every such transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive

from ldiv.core.arrays.space import Together
from ldiv.core.owners.holder import holding, store
from ldiv.core.policies.errstate import singular_state
from ldiv.core.policies.or_nan import not_here
from ldiv.errors import EngineError, expected_got
from ldiv.frontends.jax.private import ir, lowered_calls, mlir, placed
from ldiv.frontends.jax.values import traced

_EXPORTED = expected_got(
    "jax.export",
    "a program that runs without Python",
    "one with an engine of ldiv, or its check of a result, which run in Python",
    "Products, sums and selections of matrices can be exported: call what solves or factors outside "
    "of the exported program, or export from PyTorch, by torch.export.",
)
Specs = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


def on_host(f: Callable[..., Any], specs: Specs, *arrays: jax.Array) -> tuple[jax.Array, ...]:
    """Call f(*arrays) on the host. In a program two operations do this: one runs f and flags what f
    refuses, and a condition on the flag raises.

    XLA may move the first out of a loop that runs zero times. It does not move the second, which
    has an effect.
    """
    if not any(map(traced, arrays)):
        return tuple(placed([np.array(y) for y in f(*map(np.asarray, arrays))], arrays))
    _refuse_nan()
    work = partial(_stored, f)
    if isinstance(f, Together):  # its call has an effect of its own
        return tuple(host_p.bind(*arrays, f=work, specs=specs, together=True))
    *found, refused = host_p.bind(
        *arrays, f=partial(_flagged, work, specs), specs=(*specs, _FLAG), together=False
    )
    ask = partial(_ask_again, work, len(found))
    return tuple(jax.lax.cond(refused, ask, lambda *xs: xs[: len(found)], *found, *arrays))


def calls_host_alone(jaxpr: Any) -> bool:
    """True if a program without loops calls the host, and none of its calls is collective."""
    called = [e.params["together"] for e in _equations(jaxpr) if e.primitive is host_p]
    loops = any(e.primitive.name in ("while", "scan") for e in _equations(jaxpr))
    return bool(called) and not any(called) and not loops


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for param in equation.params.values():
            for inner in param if isinstance(param, tuple | list) else (param,):
                if isinstance(inner, ClosedJaxpr | Jaxpr):
                    yield from _equations(getattr(inner, "jaxpr", inner))


_FLAG = (), np.dtype(bool)


def _flagged(work: Callable[..., Any], specs: Specs, *arrays: Any) -> tuple[Any, ...]:
    try:
        return *work(*arrays), False
    except Exception:  # the operation that reads the flag calls f again, and raises
        return *(np.zeros(*spec) for spec in specs), True


def _ask_again(work: Callable[..., Any], count: int, *xs: jax.Array) -> Any:
    host_p.bind(*xs[count:], f=partial(_refuse, work), specs=(), together=False)
    # different results in both branches: otherwise XLA would not wait for the condition
    return tuple(jax.lax.optimization_barrier(xs[:count]))


def _refuse(work: Callable[..., Any], *arrays: Any) -> Any:
    work(*arrays)
    raise EngineError(
        "a call on the host failed, but not when it was repeated to find the cause. Was memory exhausted? Run the program again."
    )


def _refuse_nan() -> None:
    if singular_state() == "nan":
        raise not_here("a compiled program of JAX with an engine that runs in Python")


def _stored(f: Callable[..., Any], *arrays: Any) -> Any:
    # the Python call that staged this has ended when it runs: only the store can own its factors
    with holding(store):
        return f(*arrays)


def host_callback(f: Callable[..., Any], *xs: jax.Array) -> None:
    if any(map(traced, xs)):
        _refuse_nan()
        host_p.bind(*xs, f=partial(_and_nothing, f), specs=(), together=False)
    else:
        f(*xs)


def _and_nothing(f: Callable[..., Any], *numbers: Any) -> tuple[Any, ...]:
    f(*numbers)
    return ()


def _host_lowering(
    ctx: Any, *args: Any, f: Callable[..., Any], specs: Specs, together: bool
) -> Any:
    """A callback that hands over NumPy arrays; `jax.pure_callback` would make JAX arrays of them
    first, at 5 times the cost.

    As there, 64-bit numbers need x64 switched on for the process: the context `jax.enable_x64` does
    not reach its thread.
    """

    def call(*numbers: Any) -> tuple[Any, ...]:
        return tuple(np.asarray(y, dtype) for y, (_, dtype) in zip(f(*numbers), specs, strict=True))

    def call_in_turn(turn: Any, *numbers: Any) -> tuple[Any, ...]:
        return np.asarray(turn), *call(*numbers)

    if not together and specs:
        return _emitted(ctx, call, args, False)
    # without results a call would be dead code to XLA, and would have no place among devices
    with in_turn(ctx.module_context) if together else nullcontext([_first_turn()]) as turns:
        avals = {"avals_in": [TURN, *ctx.avals_in], "avals_out": [TURN, *ctx.avals_out]}
        turns[0], *results = _emitted(ctx.replace(**avals), call_in_turn, [turns[0], *args], True)
    return results


def _emitted(ctx: Any, call: Callable[..., Any], args: Sequence[Any], effect: bool) -> Any:
    if ctx.module_context.lowering_parameters.for_export:
        raise NotImplementedError(_EXPORTED)
    results = mlir.emit_python_callback(
        ctx,
        call,
        None,
        list(args),
        ctx.avals_in,
        ctx.avals_out,
        has_side_effect=effect,
        returns_token=False,
    )[0]
    _place(ctx, results)
    return results


def device_count(ctx: Any) -> int:
    """The number of devices of the program that is being lowered."""
    return getattr(ctx.module_context.axis_context, "num_devices", 1)


def _place(ctx: Any, results: Sequence[Any]) -> None:
    """Place a call of a program over several devices on the first, which sees whole arrays.

    In a program for each device (`jax.shard_map`) each device makes the call.
    """
    attributes, count = results[0].owner.attributes, len(results)
    if device_count(ctx) > 1:
        if getattr(jax.config, "jax_use_shardy_partitioner", True):
            one = ", ".join(["<mesh<[], device_ids=[0]>, []>"] * count)
            attributes["sdy.sharding"] = ir.Attribute.parse(f"#sdy.sharding_per_value<[{one}]>")
        else:
            attributes["mhlo.sharding"] = ir.StringAttr.get("{maximal device=0}")


@contextmanager
def in_turn(program: Any) -> Iterator[list[Any]]:
    """Return the order token of a collective call: the result of the previous call of the same
    block.

    Each call takes the token of the call before it. So all processes make the calls in the order of
    the program, also if results are empty and nothing depends on them.
    """
    block = ir.InsertionPoint.current.block
    turns = lowered_calls(program).setdefault("ldiv turns", [])
    for place, turn in turns:
        if place == block:
            yield turn
            return
    turn = [_first_turn()]
    turns.append((block, turn))
    yield turn


def _first_turn() -> Any:
    return mlir.ir_constant(np.zeros((), np.int32))


TURN = jax.core.ShapedArray((), np.dtype(np.int32))
host_p = Primitive("ldiv_host")
host_p.multiple_results = True
host_p.def_abstract_eval(
    lambda *_, f, specs, together: [jax.core.ShapedArray(*spec) for spec in specs]
)
mlir.register_lowering(host_p, _host_lowering, cacheable=False)
