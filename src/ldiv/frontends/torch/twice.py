"""What is evaluated again: a function twice at one point, and the tangents of one at many points.

The derivatives in a function that is evaluated twice are looked at once.

Whether a backward pass cuts the graph is the same under each transform. Where one did, it is looked
at again, to be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class Twice:
    """What was found: each evaluation is made inside of it."""

    are_whole: bool = True
    is_enough: bool = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = _now.set(self)
        try:
            yield
        finally:
            _now.reset(token)
        self.is_enough = self.are_whole


_now: ContextVar[Twice | None] = ContextVar("evaluated twice", default=None)


def are_whole(look: Callable[[], bool]) -> bool:
    """look(), unless it was yes for all derivatives in this function before."""
    if (twice := _now.get()) is None:
        return look()
    if not twice.is_enough:
        twice.are_whole &= (found := look())
        return found
    return True


@dataclass
class Once:
    """A function whose tangents are looked at once, where forward mode is found right: along one
    direction, as near as `bound` says, and along all that are asked for together.
    """

    f: Callable[..., Any]
    bound: Callable[[float], float] | None = None
    is_right: bool = False


@contextmanager
def knowing(f: Callable[..., Any]) -> Iterator[Once]:
    """Inside, what is found of the tangents of f holds for all points."""
    known = once(f)
    token = _once.set(known)
    try:
        yield known
    finally:
        _once.reset(token)


_once: ContextVar[Once | None] = ContextVar("looked at once", default=None)


def once(f: Callable[..., Any]) -> Once:
    """What is known of f."""
    return found if (found := _once.get()) is not None and found.f is f else Once(f)
