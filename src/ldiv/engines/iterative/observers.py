"""Observers of iterations: called with every step. A user's callback, or a progress line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

INTERVAL = 0.2  # seconds between two progress lines
# Called after each step with the engine, the number of steps before, the iterate, and its largest
# residual divided by the bound. Those in the fields of rules compare by content, so that compiled
# rules are found again.
Observer = Callable[[str, Any, Any, Any], None]


@dataclass(frozen=True)
class Callback:
    """A user's function of the iterate."""

    f: Callable[[Any], Any]

    def __call__(self, engine: str, steps: Any, x: Any, ratio: Any) -> None:
        self.f(x)


@dataclass(unsafe_hash=True)
class Progress:
    """A line on the screen with the progress of an iteration, a few times a second."""

    due: float = field(default=0.0, compare=False)

    def __call__(self, engine: str, steps: Any, x: Any, ratio: Any) -> None:
        done = not float(ratio) > 1
        if done or int(steps) == 0 or time.monotonic() >= self.due:
            self.due = time.monotonic() + INTERVAL
            line = (
                f"{engine}: step {int(steps) + 1:,}, "
                f"residual {float(ratio):.1e} of the one asked for "
            )
            print(line, end="\n" if done else "\r", file=sys.stderr, flush=True)


def observers(callback: Callable[[Any], Any] | None, progress: bool) -> tuple[Observer, ...]:
    """The observers that a user asked for."""
    return (
        *([] if callback is None else [Callback(callback)]),
        *([Progress()] if progress else []),
    )
