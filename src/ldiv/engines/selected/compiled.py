"""numba's compiler, with its cache on disk, where numba is installed; elsewhere Python itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = find_spec("numba") is not None


def jit(f: F) -> F:
    """f, compiled at its first call and kept on disk for the next process."""
    if not COMPILED:
        return f
    from numba import njit

    return cast(F, njit(cache=True)(f))
