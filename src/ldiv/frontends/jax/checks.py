"""Errors that depend on numbers: within a kernel they are collected, at its end asked at once.

A compiled program cannot raise. `check_or_raise` notes (ok, error, numbers); at the end of the
kernel there is one `cond` over all that was noted, and only its branch of failure calls the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.errors import report
from ldiv.frontends.jax.callbacks import host_p

Check = tuple[jax.Array, Callable[..., Exception], tuple[jax.Array, ...]]
_checks: ContextVar[list[Check]] = ContextVar("checks")


def check_or_raise(ok: jax.Array, error: Callable[..., Exception], *numbers: jax.Array) -> None:
    _checks.get().append((ok, error, numbers))


@contextmanager
def noting() -> Iterator[list[Check]]:
    """The checks that the kernel inside notes, for others to ask."""
    checks: list[Check] = []
    token = _checks.set(checks)
    try:
        yield checks
    finally:
        _checks.reset(token)


def passed(checks: list[Check]) -> jax.Array:
    """Whether all of them have."""
    return (
        jnp.stack([jnp.asarray(ok) for ok, _, _ in checks]).all() if checks else jnp.asarray(True)
    )


@contextmanager
def checking() -> Iterator[list[jax.Array]]:
    """Ask at the end whether all checks that the kernel inside notes have passed.

    The arrays that the list is filled with become, in it, arrays that are there once they have.
    """
    waiting: list[jax.Array] = []
    with noting() as checks:
        yield waiting
    if not checks:
        return
    oks, errors, numbers = zip(*checks, strict=True)

    def refuse(*host: Any) -> tuple[Any, ...]:
        # `host` is all oks, then the numbers of each check
        for i, (ok, error) in enumerate(zip(host, errors, strict=False)):
            if not ok:
                start = len(oks) + sum(map(len, numbers[:i]))
                report(error(*host[start : start + len(numbers[i])]))
        return ()

    def ask(*seen: Any) -> Any:
        host_p.bind(*seen, f=refuse, specs=(), together=False)
        # were the arrays the same in both branches, XLA could hand them on without waiting
        return jax.lax.optimization_barrier(waiting)

    waiting[:] = jax.lax.cond(
        jnp.stack(oks).all(),
        lambda *_: waiting,
        ask,
        *[x for some in (oks, *numbers) for x in some],
    )
