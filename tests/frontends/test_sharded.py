"""Arrays of JAX over several devices: operators without a matrix, solved inside of `jit`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ldiv

pytest.importorskip("jax")
EXAMPLE = Path(__file__).parents[2] / "examples" / "sharded.py"
DEVICES = 4  # of this machine's cpu


def test_a_sharded_solve_and_its_gradients() -> None:
    """The results are those on one device; gradients lie where their parameters do, and no device
    has it all.
    """
    told = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        "PYTHONPATH": str(Path(ldiv.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    there, here = map(float, re.findall(r"\d\.\d+", first))
    assert first.startswith(f"{DEVICES} devices") and abs(there - here) < 1e-10
    assert float(re.findall(r"[\d.]+e-\d+", second)[0]) < 1e-10
    assert "P('rows',)" in second
    sent = {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z-]+)", third)}
    assert sent["all-reduce"] > 0 and sent["collective-permute"] > 0
    assert sent["all-gather"] == 0
