"""Words for a place where people look for names that are at the top: `from ldiv.linalg import solve`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def names_at_the_top(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module; an ImportError, whose text Python shows, for names of ldiv."""

    def missing(name: str) -> Any:
        if name in importlib.import_module("ldiv").__all__:
            raise ImportError(
                f"ldiv's names are at the top, none is in {module}: from ldiv import {name}"
            )
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
