"""A contender in a process of its own: what its first call took, and others, for as long as its limit lasts."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 60.0  # seconds of the first call, and of all others
CALLS = 5

Step = Callable[[Any], tuple[Any, dict[str, Any]]]  # problem -> x, and gradients by name


def inside(make: Callable[[Any], Step], problem: Any, out: str) -> None:
    """Run in the other process: write x and its gradients, and seconds as they come, of
    `problem.moved(i)`.
    """
    import torch

    torch.set_num_threads(1)
    lines: list[dict[str, Any]] = []

    def tell(**more: Any) -> None:
        lines.append(more)
        Path(out, "seconds.json").write_text(json.dumps(lines))

    start = time.perf_counter()
    try:
        step = make(problem)
        x, found = step(problem)
    except Exception as error:
        words = str(error).strip() or type(error).__name__
        tell(failed=" ".join(words.split())[:100])
        return
    tell(first=time.perf_counter() - start)
    np.savez(Path(out, "found.npz"), x=x, **found)
    begun = time.perf_counter()
    for i in range(CALLS):
        moved = problem.moved(i + 1)
        start = time.perf_counter()
        step(moved)
        tell(seconds=time.perf_counter() - start)
        if time.perf_counter() - begun > LIMIT / 3:
            return


def measured(script: str, title: str, name: str) -> dict[str, Any]:
    """Return the output of another process: `script --inside title name folder` calls `inside`."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, script, "--inside", title, name, out]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=LIMIT + 15, capture_output=True, check=False)
        told = Path(out, "seconds.json")
        lines = json.loads(told.read_text()) if told.exists() else []
        seen = {key: line[key] for line in lines for key in ("failed", "first") if key in line}
        seen["seconds"] = [line["seconds"] for line in lines if "seconds" in line]
        if (found := Path(out, "found.npz")).exists():
            seen["found"] = dict(np.load(found))
    if "failed" not in seen and not seen["seconds"]:
        seen["failed"] = f"more than {LIMIT:.0f} s"
    return seen
