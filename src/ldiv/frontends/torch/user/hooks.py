"""Saved-tensor hooks of the caller, as of save_on_cpu and torch.utils.checkpoint, and where they do not hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ldiv.frontends.torch import private


@contextmanager
def without_hooks() -> Iterator[None]:
    """Suspend the caller's hooks, which are for the caller's tensors.

    A checkpoint would run the caller's function again for each graph that is made and used inside.
    """
    hooks: list[Any] = []
    while (top := private.top_hooks(True)) is not None:
        hooks.append(top)
        private.pop_hooks()
    try:
        yield
    finally:
        for hook in reversed(hooks):
            private.push_hooks(*hook)
