"""Errors that depend on numbers: within a kernel they are collected, at its end asked at once.

A compiled program cannot raise. `check_or_raise` notes (ok, error, numbers); at the end of the
kernel there is one `cond` over all that was noted, and only its branch of failure calls the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp

from ldiv.errors import report
from ldiv.frontends.jax.devices.callbacks import host_p

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
    refuse = partial(_refuse, errors, tuple(map(len, numbers)))

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


def _refuse(
    errors: Sequence[Callable[..., Exception]], counts: Sequence[int], *host: Any
) -> tuple[Any, ...]:
    """Report the checks that failed. `host` is all oks, then the numbers of each check, so many.

    The program keeps this function: it refers to nothing that was traced.
    """
    oks, rest = host[: len(errors)], iter(host[len(errors) :])
    for ok, error, count in zip(oks, errors, counts, strict=True):
        own = [*islice(rest, count)]
        if not ok:
            report(error(*own))
    return ()
