"""Functions of users, called by kernels, where what they close over has no derivative."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ldiv.core.trees import Array

_closures_count: ContextVar[bool] = ContextVar("closures_count", default=False)


def closures_count() -> bool:
    """Would a gradient be lost if a user's function closed over what wants one?"""
    return _closures_count.get()


class counting_closures:
    """Within, they count, or do not."""

    __slots__ = ("_count", "_token")

    def __init__(self, count: bool) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._token = _closures_count.set(self._count)

    def __exit__(self, *error: object) -> None:
        _closures_count.reset(self._token)


def uncounted(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """f, on which the result does not depend, as a preconditioner: what it closes over loses
    nothing.
    """

    def call(x: Array) -> Array:
        with counting_closures(False):
            return f(x)

    return call
