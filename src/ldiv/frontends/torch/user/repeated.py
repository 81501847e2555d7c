"""What is evaluated again: a function twice at one point, and the tangents of one at many points.

The derivatives in a function that is evaluated twice are looked at once.

Whether a backward pass cuts the graph is the same under each transform. Where one did, it is looked
at again, to be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
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
    """A function whose derivatives are looked at once: those in it, and where forward mode is found
    right its tangents, along one direction, as near as `bound` says, and along all that are asked for
    together.
    """

    f: Callable[..., Any]
    bound: Callable[[float], float] | None = None
    is_right: bool = False
    twice: Twice = field(default_factory=Twice)  # of its pullback


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


def inside_of(f: Callable[..., Any]) -> AbstractContextManager[None]:
    """The context in which f is evaluated: where it is known, the derivatives in it are looked at once."""
    known = _once.get()
    return known.twice.inside() if known is not None and known.f is f else nullcontext()


def once(f: Callable[..., Any]) -> Once:
    """What is known of f."""
    return found if (found := _once.get()) is not None and found.f is f else Once(f)
