"""Functions of users that kernels call: arrays that they close over have no derivative."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ldiv.core.frameworks.array_protocol import Array

# What the front end needs to see that a function closes over a differentiated array; False where
# that is no error, None where nobody has said.
_closures_count: ContextVar[object] = ContextVar("closures_count", default=None)


def closures_count() -> object:
    """Return False if a user's function may close over a differentiated array; else the watch
    of the front end that detects such arrays, None if there is none.
    """
    return _closures_count.get()


class counting_closures:
    """Return a context that watches for closures over differentiated arrays; False permits them."""

    __slots__ = ("_token", "_watch")

    def __init__(self, watch: object) -> None:
        self._watch = watch

    def __enter__(self) -> None:
        self._token = _closures_count.set(self._watch)

    def __exit__(self, *error: object) -> None:
        _closures_count.reset(self._token)


def uncounted(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Wrap f to permit such closures; for preconditioners and other functions that do not change
    results.
    """

    def call(x: Array) -> Array:
        with counting_closures(False):
            return f(x)

    return call
