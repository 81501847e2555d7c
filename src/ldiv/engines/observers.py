"""Those who are shown each step of an iteration: a function of the user's, a line on the screen,
whoever needs the iterates.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

INTERVAL = 0.2  # seconds between two lines
# After a step it is told the engine, how many steps there were before, the iterate, and its largest
# residual over the one wanted. Those that rules carry are compared by content, so that compilers
# know the rule again.
Observer = Callable[[str, Any, Any, Any], None]


@dataclass(frozen=True)
class Callback:
    """A function of the iterate."""

    f: Callable[[Any], Any]

    def __call__(self, engine: str, steps: Any, x: Any, ratio: Any) -> None:
        self.f(x)


@dataclass(unsafe_hash=True)
class Progress:
    """A line on the screen that says how far an iteration has come, a few times a second."""

    due: float = field(default=0.0, compare=False)

    def __call__(self, engine: str, steps: Any, x: Any, ratio: Any) -> None:
        done = not float(ratio) > 1
        if done or int(steps) == 0 or time.monotonic() >= self.due:
            self.due = time.monotonic() + INTERVAL
            line = f"{engine}: step {int(steps) + 1:,}, residual {float(ratio):.1e} of the one asked for "
            print(line, end="\n" if done else "\r", file=sys.stderr, flush=True)


def observers(callback: Callable[[Any], Any] | None, progress: bool) -> tuple[Observer, ...]:
    """Those that a user asks for."""
    return (
        *([] if callback is None else [Callback(callback)]),
        *([Progress()] if progress else []),
    )
