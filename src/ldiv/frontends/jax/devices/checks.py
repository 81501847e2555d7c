"""Errors that depend on numbers: a kernel collects its checks, and evaluates all at its end.

A compiled program cannot raise. `check_or_raise` notes (ok, error, numbers). At the end of the
kernel there is one `cond` over all checks, and only its branch of failure calls the host.
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


def are_noted() -> bool:
    """True if a kernel collects checks here; a derivative consists of rules, which check by
    themselves.
    """
    return _checks.get(None) is not None


@contextmanager
def noting() -> Iterator[list[Check]]:
    """Collect the checks of the kernel inside, which the caller evaluates."""
    checks: list[Check] = []
    token = _checks.set(checks)
    try:
        yield checks
    finally:
        _checks.reset(token)


def passed(checks: list[Check]) -> jax.Array:
    """Whether all checks have passed."""
    return (
        jnp.stack([jnp.asarray(ok) for ok, _, _ in checks]).all() if checks else jnp.asarray(True)
    )


@contextmanager
def checking() -> Iterator[list[jax.Array]]:
    """Collect the checks of the kernel inside, and evaluate all of them at its end.

    The caller fills the list with arrays; these are replaced by equal arrays that depend on the checks.
    """
    waiting: list[jax.Array] = []
    with noting() as checks:
        yield waiting
    if not checks:
        return
    oks, errors, numbers = zip(*checks, strict=True)
    every = jnp.stack(oks)  # one array, for which XLA compiles one kernel
    refuse = partial(_refuse, errors, tuple(map(len, numbers)))

    def ask(*seen: Any) -> Any:
        host_p.bind(*seen, f=refuse, specs=(), together=False)
        # different arrays in both branches: otherwise XLA would not wait for the condition
        return jax.lax.optimization_barrier(waiting)

    waiting[:] = jax.lax.cond(
        every.all(), lambda *_: waiting, ask, every, *[x for some in numbers for x in some]
    )


def _refuse(
    errors: Sequence[Callable[..., Exception]], counts: Sequence[int], oks: Any, *host: Any
) -> tuple[Any, ...]:
    """Report the checks that failed. `host` holds `counts` numbers of each check.

    The program keeps this function, which must not refer to traced values.
    """
    rest = iter(host)
    for ok, error, count in zip(oks, errors, counts, strict=True):
        own = [*islice(rest, count)]
        if not ok:
            report(error(*own))
    return ()
