"""Functions of users that kernels call: arrays that they close over have no derivative."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ldiv.core.trees import Array

_closures_count: ContextVar[bool] = ContextVar("closures_count", default=False)


def closures_count() -> bool:
    """Is it an error if a user's function closes over an array that requires a gradient?"""
    return _closures_count.get()


class counting_closures:
    """A context in which closures over such arrays are errors, or are not."""

    __slots__ = ("_count", "_token")

    def __init__(self, count: bool) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._token = _closures_count.set(self._count)

    def __exit__(self, *error: object) -> None:
        _closures_count.reset(self._token)


def uncounted(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """f without that error: for functions such as preconditioners, on which no result depends."""

    def call(x: Array) -> Array:
        with counting_closures(False):
            return f(x)

    return call
