"""The number of Python functions that a call enters: its cost beside the work below Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def frames(f: Callable[[], Any]) -> int:
    """No garbage is collected meanwhile: JAX has a function that is called at each collection."""
    count = 0

    def entered(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(entered)
    try:
        f()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count
