"""Queries of JAX arrays: type, device, and whether their values are known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from ldiv.core.arrays.pytree import Node, on_open, on_register_pytree
from ldiv.errors import shown, type_error

WIDE = {np.dtype("float64"), np.dtype("complex128")}


def owns(x: object) -> bool:
    return isinstance(x, jax.Array)


def as_own(x: Any) -> jax.Array:
    """Convert x to an array of JAX: a user may differentiate at a NumPy array or a number."""
    return x if isinstance(x, jax.Array) else jnp.asarray(x)


def staged(xs: Sequence[Any]) -> bool:
    """Whether a program is being traced, in which the store is not used; there constants are
    tracers, too.
    """
    return any(map(traced, xs)) and traced(jnp.zeros(()))


def traced(x: jax.Array) -> bool:
    return isinstance(x, jax.core.Tracer)


def differentiates(*xs: jax.Array) -> bool:
    """False: the primitive of a rule knows how its outputs are differentiated, when it is asked."""
    return False


def device(x: jax.Array) -> str:
    """The device on which engines find the values: callbacks copy them to the cpu; dense kernels
    run on the device of the array.
    """
    return "cpu"


def host(x: jax.Array) -> bool:
    # an array over several processes is on no single host
    return not traced(x) and all(map(is_here, x.devices()))


@lru_cache(maxsize=64)
def is_here(device: Any) -> bool:
    """Whether the memory of the device belongs to this process."""
    return device.platform == "cpu" and device.process_index == device.client.process_index()


def has_doubles() -> bool:
    return jax.config.x64_enabled  # type: ignore[attr-defined]


def signature(x: jax.Array) -> Any:
    kind = x.aval  # this comparison takes no call of Python
    dtype = kind.dtype
    if is_whole(dtype):  # the flag x64 decides whether integers become single or double precision
        return "jax", dtype, len(kind.shape), jnp.result_type(float)
    if dtype in WIDE and not has_doubles():
        return None
    return "jax", dtype, len(kind.shape)


def promoted(x: jax.Array) -> jax.Array:
    """Integers and booleans as floats, as jax.numpy.linalg has it; doubles that were made while x64
    was on in single precision where it is off, as jax.numpy computes with them.
    """
    if x.dtype in WIDE and not has_doubles():
        return jax.lax.convert_element_type(x, jax.dtypes.canonicalize_dtype(x.dtype))
    return x.astype(jnp.result_type(float)) if is_whole(x.dtype) else x


def is_whole(dtype: Any) -> bool:
    """True for integers and booleans; arrays of random keys have a dtype without a kind."""
    return getattr(dtype, "kind", "V") in "biu"


def constant(x: jax.Array) -> jax.Array:
    """x without derivatives. In a trace of linear_transpose JAX returns numbers that are known as an
    array of NumPy.
    """
    y: jax.Array = jax.lax.stop_gradient(x)
    return y if isinstance(y, jax.Array) else jnp.asarray(y)


def put(x: jax.Array, index: Any, value: Any) -> jax.Array:
    return x.at[index].set(value)


def asnumpy(x: jax.Array) -> Any:
    try:
        # the constant of a tracer of grad is a plain array; tracers of jit and vmap have no numbers
        return np.asarray(constant(x) if traced(x) else x)
    except jax.errors.TracerArrayConversionError:
        advice = "A sparsity pattern must be known when a function is traced: make its indices with NumPy, or the array outside of jit."
        raise type_error(
            "values", "numbers that are known now", f"the traced {x.aval}", advice
        ) from None


# matrices are registered as pytrees: their parameters are leaves, the rest is static
def _register(cls: type, flatten: Any, unflatten: Any, packing: Any) -> None:
    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    if packing is not None:
        pack, unpack = packing
        jax.export.register_pytree_node_serialization(
            cls,
            serialized_name=f"ldiv.{cls.__name__}",
            serialize_auxdata=pack,
            deserialize_auxdata=unpack,
        )


on_register_pytree(_register)


def _parts(x: Any) -> tuple[list[Any], Node] | None:
    """The parts of a registered type, a module of equinox say."""
    parts, node = jax.tree_util.tree_flatten(x, is_leaf=lambda part: part is not x)
    return None if jax.tree_util.treedef_is_leaf(node) else (parts, node)


on_open(_parts)


def standard_normal(key: Any, shape: tuple[int, ...], like: jax.Array) -> jax.Array:
    """Independent normal numbers in the precision of `like`, from its generator."""
    if not isinstance(key, jax.Array):
        raise type_error(
            "key", "a key of jax.random", shown(key), "Make one with jax.random.key(seed)."
        )
    return jax.random.normal(key, shape, like.dtype)
