"""functools.cached_property as it is from Python 3.12 on: without a lock.

Python 3.11 holds one while it computes, for all instances of a class: threads with a matrix each
wait for each other, and a process that is forked meanwhile inherits it closed, for ever. Two threads
that ask one instance at once may both compute; the first value stays, and both have it.
"""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """A property that is computed once."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        assert self.attrname is not None
        # asked for the first time only: from then on Python finds the value in the instance itself
        value: T = vars(instance).setdefault(self.attrname, self.func(instance))
        return value
