"""Arrays of JAX that were put on a device of several, or divided among them: results are there, and
the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ldiv.engines.libraries import native

pytest.importorskip("jax")
SCRIPT = Path(__file__).parents[1] / "on_four_devices.py"


def found(*how: str) -> list[dict[str, Any]]:
    told = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = subprocess.run(
        [sys.executable, SCRIPT, *how], capture_output=True, text=True, timeout=300, env=told
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_results_are_on_the_device_of_the_arguments() -> None:
    lines = found()
    assert len(lines) > 13
    assert not [x for x in lines if x["elsewhere"] or x["off"] > 1e-12]


@pytest.mark.skipif(native.native is None, reason=native.why_not)
def test_a_batch_stays_divided() -> None:
    """Each device computes its own members under jit, and nothing is sent."""
    lines = found("batches")
    assert len(lines) == 29
    assert not [x for x in lines if x["elsewhere"] or x["off"] > 1e-12]
