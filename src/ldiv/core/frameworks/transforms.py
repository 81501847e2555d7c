"""A framework's own transforms, as its users call them, of functions of a list of arrays.

Cotangents follow our convention, dL = <grad, dx>.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Vector = list[Any]
Function = Callable[[Vector], Any]
Change = Callable[[Any], Any]


class Transforms(ABC):
    """The transforms of one framework."""

    array: Callable[[Any], Any]
    jvp: Callable[..., Any]
    vmap: Callable[..., Any]

    @abstractmethod
    def gradient(self, f: Function, x: Vector) -> Vector: ...

    @abstractmethod
    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        """The cotangents of x for each of a batch of cotangents of f(x), a list, by vmap."""

    @abstractmethod
    def changing(self, change: Change) -> AbstractContextManager[Any]:
        """A context for this thread that applies `change` to the framework's eigh and svd."""
