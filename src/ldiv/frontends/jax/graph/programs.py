"""f(x) as one program, outside of programs, too: there JAX compiles each operation by itself.

Such a program is a derivative of numbers that are known, whose factors are in the store. So in it a rule
that takes a factor is a call on the host, which finds the factor there; in other programs the factor is
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.finite import evaluated
from ldiv.core.rules.own import is_own
from ldiv.core.rules.rule import Rule, Wrapper
from ldiv.errors import EngineError
from ldiv.frontends.jax import private
from ldiv.frontends.jax.devices.callbacks import on_host
from ldiv.frontends.jax.graph.compiled_calls import call_of
from ldiv.frontends.jax.values import staged, traced

_by_store: ContextVar[bool] = ContextVar("by_store", default=False)


@bounded_cache(256)
def program(f: Callable[..., Any], **static: Any) -> Any:
    """f with these static arguments, compiled for each shape."""
    return jax.jit(partial(f, **static))


def as_program(f: Callable[..., Any], *args: Any, rule: Rule, **static: Any) -> Any:
    """Return f(*args), made of rules, by one program; by operations if a program is being traced, or if
    the rule calls a function of the user, which may be a new one in each call.

    A program that fails has no error of ours: the operations raise it.
    """
    flat, tree = jax.tree.flatten(args)
    if not is_own(rule) or staged(flat):
        return f(*args, rule=rule, **static)
    if private.is_linearized(flat):
        return _linearized(flat, tree, f, rule, static)
    # a callback that raises makes the one or the other of JAX's errors
    with suppress(jax.errors.JaxRuntimeError, ValueError, EngineError), _finding():
        return jax.block_until_ready(program(f, rule=rule, **static)(*args))
    return f(*args, rule=rule, **static)


def _linearized(flat: list[Any], tree: Any, f: Callable[..., Any], rule: Rule, static: Any) -> Any:
    """f(*args) of leaves that JAX linearizes, for a backward pass that is a program of its own: one of
    JAX's would run, and fail, where nobody here sees it.
    """
    moves = tuple([traced(x) and jnp.issubdtype(x.dtype, jnp.inexact) for x in flat])

    def forward(*xs: Any) -> Any:
        args = tree.unflatten(_merged(moves, xs, flat))
        return as_program(f, *args, rule=rule, **static), xs

    def backward(xs: Any, bars: Any) -> Any:
        known, of = _merged(moves, xs, flat), (f, tuple(static.items()))
        return as_program(_pulled_back, known, bars, of=of, tree=tree, at=moves, rule=rule)

    call = jax.custom_vjp(lambda *xs: forward(*xs)[0])
    call.defvjp(forward, backward)
    return call(*[x for x, m in zip(flat, moves, strict=True) if m])


def _pulled_back(
    flat: list[Any], bars: Any, *, of: Any, tree: Any, at: Sequence[bool], rule: Rule
) -> Any:
    f, static = of

    def g(*xs: Any) -> Any:
        return f(*tree.unflatten(_merged(at, xs, flat)), rule=rule, **dict(static))

    return jax.vjp(g, *[x for x, m in zip(flat, at, strict=True) if m])[1](bars)


def _merged(moves: Sequence[bool], xs: Sequence[Any], flat: Sequence[Any]) -> list[Any]:
    """The leaves, with xs in the places of those that move."""
    rest = iter(xs)
    return [next(rest) if m else x for x, m in zip(flat, moves, strict=True)]


@contextmanager
def _finding() -> Iterator[None]:
    """A context in which rules in traces find their factors in the store."""
    token = _by_store.set(True)
    try:
        yield
    finally:
        _by_store.reset(token)


def stored(rule: Rule, flat: Sequence[Any]) -> Rule:
    """The rule, by the factor in the store if its factor is there, and not among the arrays of a program."""
    if not (_by_store.get() and rule.traits.on_host):
        return rule
    call = call_of(rule, flat)
    return rule if call is None or call.factor is None else Stored(rule, policy=rule.policy)


@dataclass(frozen=True)
class Stored(Wrapper):
    """A rule by the factor in the store; so are its derivatives."""

    def kernel(self, *args: Tree) -> Arrays:
        flat = leaves(args)
        if not any(map(traced, flat)):
            return self.rule.kernel(*args)
        call = call_of(self.rule, flat)
        assert call is not None
        return on_host(lambda *xs: evaluated(self.rule, list(xs)), call.own, *flat)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        with _finding():
            return self.rule.jvp(tangents, out, *args)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        with _finding():
            return self.rule.vjp(need, cotangents, out, *args)
