"""Few cases in JAX, which takes seconds to compile: of the cases of a file in several frameworks
`make test` takes the first one in JAX, `make test-all` the others.

That a front end does to all rules what they ask for is shown by its own tests, and by the laws.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

# these choose their cases in JAX themselves
CHOOSING = {"adversarial", "core", "frontends", "laws", "lineax"}
_found: set[Path] = set()


def mark_all_but_the_first(items: Sequence[pytest.Function]) -> None:
    """Mark all cases of one test but the first, in the order of the file."""
    if CHOOSING & set(items[0].path.parts):
        return
    in_jax = [is_in_jax(item) for item in items]
    if all(in_jax):
        return
    for item, yes in zip(items, in_jax, strict=True):
        if yes and item.get_closest_marker("exhaustive") is None:
            if item.path in _found:
                item.add_marker("exhaustive")
            _found.add(item.path)


def is_in_jax(item: pytest.Item) -> bool:
    """Whether a parameter names JAX, or comes from it."""
    spec = getattr(item, "callspec", None)
    if spec is None:
        return False
    modules = (getattr(value, "__module__", None) or "" for value in spec.params.values())
    return bool(re.search("jax|JAX|BCOO|BCSR", spec.id)) or any(
        module.startswith("jax") for module in modules
    )
