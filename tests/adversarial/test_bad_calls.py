"""No bad call of a public function crashes, hangs, warns, returns NaN or raises anything but a
sentence of ours that names the argument.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import apart
import numpy as np
import pytest

import ldiv


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "bad_calls", Path(__file__).with_name("bad_calls.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bad_calls = load()


def test_every_public_function_is_called() -> None:
    """Names that are not in the table are classes that others make, errors, or functions without
    arguments.
    """
    tables = bad_calls.EVERYWHERE, bad_calls.BUFFERS, bad_calls.TRACED
    called = {make(np.array)[0].__name__ for table in tables for make in table.values()}
    made = bad_calls.NO_CALLS | {
        name for name in ldiv.__all__ if name.endswith(("Error", "Info", "Explanation"))
    }
    missing = set(ldiv.__all__) - called - made
    assert not missing


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("framework", "count"), [("numpy", 250), ("torch", 100), ("jax", 15)])
def test_bad_calls(framework: str, count: int, times: int) -> None:
    importlib.import_module(framework)  # which not every environment has
    count *= times
    counts, failures = bad_calls.run(framework, 0, count)
    assert not failures, "\n".join(f"{label}: {verdict}" for label, verdict in failures)
    assert counts["calls"] == count


TWO_CALLS = """
import sys
import numpy as np
from adversarial import bad_calls

bad_calls.MEMORY, kept = 1 << 30, []
for _ in range(3):  # addresses alone: nobody writes there
    bad_calls.limit_memory()
    kept.append(np.empty(700 << 20, np.uint8))
try:
    np.empty(700 << 20, np.uint8)
except MemoryError:
    print("limited")
"""


def test_memory_is_limited_for_each_call_and_not_for_all_of_a_process() -> None:
    """Else the compiler of JAX aborts a process that has compiled some dozens of programs."""
    pytest.importorskip("resource")
    done = apart.run(TWO_CALLS)
    assert done.stdout.strip() == "limited", done.stderr


def test_what_counts_as_a_failure() -> None:
    def judged(f: Any, **args: Any) -> str:
        words: str = bad_calls.judged("f", (f, args), list(args), None)
        return words

    assert judged(ldiv.solve, A=np.eye(2), b="b") == ""
    assert "raw AttributeError" in judged(lambda **_: None.shape)  # type: ignore[attr-defined]
    assert "raw ValueError" in judged(lambda x: np.ones(2) @ np.ones(3), x=1)
    assert judged(lambda x: np.array([np.nan]), x=1) == "NaN in the result"
