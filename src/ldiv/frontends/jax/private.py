"""All private parts of JAX that this front end uses, and their purposes.

    mlir.emit_python_callback    NumPy arrays into a host function, at a fifth of the cost of
                                 `jax.pure_callback`, which will do once it hands over NumPy arrays
    mlir.lower_fun, mlir.register_lowering, mlir.ir_constant
                                 a primitive is lowered as its Python function; `jax.extend` will
                                 do once it has this for its primitives
    ad.primitive_jvps, ad.primitive_transposes, batching.primitive_batchers
                                 the derivatives and the batching of a primitive; `jax.extend`, too
    linearized_by                reverse mode asks a primitive for its outputs and its tangent map at
                                 once, and makes a trace of its jvp where that has no rule: a third of
                                 the time of a gradient that is not compiled
    lowered_for_devices          a primitive whose lowering asks over which devices the program is, as
                                 `custom_partitioning` does, by which each device has its part of a batch
    ir                           where in a program, and on which device, a call stands; nothing
                                 public says that
    lowered_calls                a dict of the lowered parts of the module, in which a primitive
                                 finds its own again
    CALLS_COMPILED_CODE          are its foreign functions of the version in native/bind/xla_ffi.hpp, or
                                 of a later one? `jax.ffi` does not say
    BATCHED_LAPACK_WAITS         in these versions of jaxlib a batched LAPACK call waits for work that
                                 it queues in XLA's pool of threads, of which it keeps one: as many
                                 calls as there are threads wait for ever
    Trace, take_current_trace, set_current_trace
                                 a transformation of our own, by which gradcheck changes the gauge of
                                 eigenvectors in a user's program; public it would be a transformation
                                 of primitives, as Autodidax has it
    is_top_level                 does nobody trace, differentiate or map what is called now? Else a rule is
                                 run as a primitive, which is three times as many calls of Python
    is_linearized                does reverse mode alone ask for what is called now? Its backward pass then
                                 raises our errors; else JAX's own
    placed                       an array of JAX in the memory of one of NumPy's, in a fifth of the time of
                                 `jax.numpy.asarray`, which will do
    scan_counts                  what a scan holds and carries; the parameters of JAX's primitives
                                 are nobody's promise

Without a primitive's derivatives there is no front end; of the rest what is missing is found so when
it is used, and the error names the mode that is lost. A test has a sentence for each. What a new version has moved is mended here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core as jax_core
from jax._src import lib as jax_lib
from jax.extend import core
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir import ir
from jaxlib.version import __version_info__

from ldiv.errors import expected_got

__all__ = [
    "BATCHED_LAPACK_WAITS",
    "CALLS_COMPILED_CODE",
    "Trace",
    "ad",
    "batching",
    "ir",
    "is_linearized",
    "is_top_level",
    "linearized_by",
    "lowered_calls",
    "lowered_for_devices",
    "mlir",
    "placed",
    "scan_counts",
    "set_current_trace",
    "take_current_trace",
]


def found(module: Any, name: str, mode: str) -> Any:
    """Return the attribute of this name; if there is none, a class that raises when called."""

    class Moved:
        def __new__(cls, *_: Any, **__: Any) -> Any:
            advice = f"JAX has moved it: without it ldiv has no {mode}. Use an older JAX or a newer ldiv."
            came = f"version {jax.__version__} without"
            raise NotImplementedError(
                expected_got("JAX", f"{module.__name__}.{name}", came, advice)
            )

    return getattr(module, name, Moved)


_GAUGES = "gauge of eigenvectors in gradcheck"
Trace = found(jax.core, "Trace", _GAUGES)
take_current_trace = found(core, "take_current_trace", _GAUGES)
set_current_trace = found(core, "set_current_trace", _GAUGES)
CALLS_COMPILED_CODE = __version_info__[:2] >= (0, 10)
is_top_level = getattr(jax_core.trace_ctx, "is_top_level", lambda: False)
_put = getattr(jax_lib.xla_client, "batched_device_put", None)  # type: ignore[attr-defined]
BATCHED_LAPACK_WAITS = (0, 10) <= jax.__version_info__[:2] < (0, 12)


def is_linearized(xs: Sequence[Any]) -> bool:
    """Whether some of these are traced by reverse mode, at any level, and none but by this and by vmap."""
    from jax._src.interpreters import ad as inner

    linear, found = getattr(inner, "LinearizeTracer", ()), False
    for x in xs:
        while isinstance(x, jax.core.Tracer):
            is_linear = isinstance(x, linear)
            if not is_linear and not hasattr(x, "val"):  # those of vmap have one
                return False
            x, found = (x.primal, True) if is_linear else (x.val, found)
    return found


def linearized_by(primitive: Any, rule: Any) -> None:
    """(is_vjp, which move, *primals, **parameters) -> outputs, which of them move, arrays, and
    (arrays, *tangents) -> tangents, in the versions that are known to ask so.
    """
    if jax.__version_info__[:2] == (0, 10):
        from jax._src.interpreters.ad import primitive_linearizations

        primitive_linearizations[primitive] = rule


def placed(ys: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
    """The numbers of NumPy's ys, to which nobody writes, on the device to which one of xs was put; None
    stays None.
    """
    at = next((x for x in xs if x.committed), xs[0])
    is_wide: bool = jax.config.x64_enabled  # type: ignore[attr-defined]
    place, is_put = at.sharding, at.committed
    devices = list(place.device_set)
    if _put is None or len(devices) > 1:
        device = place if is_put and len(devices) == 1 else None
        return [y if y is None else jnp.asarray(y, device=device) for y in ys]

    def made(y: Any) -> Any:
        kind = _kind(y.shape, y.dtype, is_wide)
        return _put(kind, place, [np.asarray(y, kind.dtype)], devices, is_put)

    return [y if y is None else made(y) for y in ys]


@lru_cache(maxsize=256)
def _kind(shape: tuple[int, ...], dtype: Any, is_wide: bool) -> Any:
    return jax.core.ShapedArray(shape, jax.dtypes.canonicalize_dtype(dtype))


def lowered_for_devices(primitive: Any) -> None:
    """Ask JAX for the devices in the lowering of a primitive; else batches over devices are gathered."""
    from jax._src import dispatch

    getattr(dispatch, "prim_requires_devices_during_lowering", set()).add(primitive)


def lowered_calls(program: Any) -> dict[Any, Any]:
    """The lowered calls of a module (`ctx.module_context`), which die with it."""
    found: dict[Any, Any] = program.cached_primitive_lowerings
    return found


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """The numbers of constants and carries of a scan, from the parameters of its equation."""
    if "num_consts" in params:  # until JAX 0.11
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)
