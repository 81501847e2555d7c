"""Arrays of JAX that were put on a device of several: results are there, and the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
SCRIPT = Path(__file__).parents[1] / "on_four_devices.py"


def test_results_are_on_the_device_of_the_arguments() -> None:
    told = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = subprocess.run(
        [sys.executable, SCRIPT], capture_output=True, text=True, timeout=300, env=told
    )
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) > 13
    assert not [x for x in found if x["elsewhere"] or x["off"] > 1e-12]
