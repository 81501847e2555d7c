"""A line on the screen that says how far an iteration has come, a few times a second."""

from __future__ import annotations

import sys
import time
from typing import Any

INTERVAL = 0.2  # seconds between two lines


class Progress:
    """Called with the number of steps, the iterate, and its residual over the one that is wanted."""

    def __init__(self, engine: str) -> None:
        self._engine, self._next = engine, 0.0

    def __call__(self, steps: Any, x: Any, ratio: Any) -> None:
        done = not float(ratio) > 1
        if done or time.monotonic() >= self._next:
            self._next = time.monotonic() + INTERVAL
            end = "\n" if done else "\r"
            print(f"{self._engine}: step {int(steps) + 1:,}, residual {float(ratio):.1e} of the one asked for ", end=end, file=sys.stderr, flush=True)
