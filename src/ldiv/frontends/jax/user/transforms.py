"""Functions of functions: loops and branches of engines, derivatives and batches of users' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.core.owners.holder import holding, store
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.pushforward import OnlyReverse
from ldiv.frontends.jax.devices.checks import are_noted, check_or_raise, checking, noting, passed
from ldiv.frontends.jax.values import traced


def vjp(
    f: Callable[..., Any], xs: tuple[Any, ...], whole: Any = None, has_aux: bool = False
) -> Any:
    """Return f(*xs) and its pullback; cotangents in JAX are the conjugates of ldiv's."""
    differentiate: Any = partial(jax.vjp, f, has_aux=has_aux)
    y, pull, *aux = differentiate(*xs)

    def pulled(y_bar: Any) -> tuple[Any, ...]:
        bars = jax.tree.map(lambda g, y: _varying(jnp.conj(g), jax.typeof(y)), y_bar, y)
        return tuple(jax.tree.map(jnp.conj, pull(bars)))

    return y, pulled, *aux


def jvp(f: Callable[..., Any], xs: tuple[Any, ...], dxs: tuple[Any, ...]) -> tuple[Any, Any]:
    dxs = jax.tree.map(lambda dx, x: _varying(dx, jax.typeof(x)), dxs, xs)
    try:
        y, dy = jax.jvp(f, xs, dxs)
    except TypeError as error:
        if "custom_vjp" not in str(error):
            raise
        raise OnlyReverse from error
    return y, dy


def vmap(f: Callable[..., jax.Array], axes: tuple[Any, ...]) -> Callable[..., jax.Array]:
    return jax.vmap(f, axes)


def compiled(f: Callable[..., Any], *xs: jax.Array) -> Any:
    return jax.jit(f)(*xs)


def either(ok: jax.Array, f: Callable[[], Any], g: Callable[[], Any]) -> Any:
    return jax.lax.cond(ok, f, g)


def loop(
    going: Callable[[Any], jax.Array],
    body: Callable[[Any], Any],
    state: tuple[jax.Array, ...],
    most: int | None = None,
) -> Any:
    """A loop of JAX in a trace; outside, one of Python, which need not be compiled."""
    if any(map(traced, state)):
        if singular_state() == "nan":
            return _loop_or_nan(going, body, state)
        step = _self_contained(body)
        return jax.lax.while_loop(going, step, varying(step, state))
    while bool(going(state)):
        state = body(state)
    return state


def varying(step: Callable[[Any], Any], state: Any) -> Any:
    """The state of a loop, varying along those mesh axes of a shard_map along which a step makes it
    vary: what the step takes from elsewhere may be another one on each device.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return state
    leaves, tree = jax.tree.flatten(state)
    while True:
        found = jax.make_jaxpr(step)(jax.tree.unflatten(tree, leaves)).out_avals
        before, leaves = leaves, [_varying(x, y) for x, y in zip(leaves, found, strict=True)]
        if all(x is y for x, y in zip(before, leaves, strict=True)):
            return jax.tree.unflatten(tree, leaves)


def _varying(x: Any, like: Any) -> Any:
    """x, varying at least along the mesh axes along which `like`, an abstract value, does."""
    more = tuple(like.mat.varying - jax.typeof(x).mat.varying)
    return jax.lax.pcast(x, more, to="varying") if more else x


def each(
    f: Callable[..., tuple[jax.Array, ...]], xs: Sequence[jax.Array]
) -> tuple[jax.Array, ...] | list[jax.Array]:
    """f of one member after another: in a trace a loop, compiled once for all members."""
    if any(map(traced, xs)):
        if singular_state() == "nan" and are_noted():
            found, ok = jax.lax.map(partial(_noted, lambda one: f(*one)), tuple(xs))
            check_or_raise(ok.all(), _refused)
            return found
        return jax.lax.map(_self_contained(lambda one: f(*one)), tuple(xs))
    return [jnp.stack(ys) for ys in zip(*(f(*one) for one in zip(*xs, strict=True)), strict=True)]


def _loop_or_nan(
    going: Callable[[Any], jax.Array], body: Callable[[Any], Any], state: tuple[jax.Array, ...]
) -> Any:
    """A loop in which the checks of a step are part of the state."""

    def step(carry: Any) -> Any:
        found, ok = _noted(body, carry[0])
        return found, carry[1] & ok

    carry = varying(step, (state, jnp.asarray(True)))
    found, ok = jax.lax.while_loop(lambda carry: going(carry[0]), step, carry)
    check_or_raise(ok, _refused)
    return found


def _noted(body: Callable[[Any], Any], state: Any) -> tuple[Any, jax.Array]:
    with noting() as checks, holding(store):
        found = body(state)
    return found, passed(checks)


def _refused() -> Exception:
    return AssertionError("NaN takes the place of this error")


def _self_contained(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A step that evaluates its own checks and owns its factors: tracers of a loop's body may not
    leave it.
    """

    def step(state: Any) -> Any:
        with checking(), holding(store):
            return body(state)

    return step
