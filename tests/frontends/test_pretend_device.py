"""On any accelerator, as far as a pretend one shows it: results stay there and are those of the
cpu, in every mode; the host is told a few numbers at most, and what it must do itself it says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[1] / "on_pretend_device.py"
TOLD = 16  # numbers at once


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, SCRIPT], capture_output=True, text=True, timeout=300, env=environment
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_what_runs_there_stays_there_and_is_right(found: list[dict[str, Any]]) -> None:
    looked = [x for x in found if "off" in x or x["error"]]
    assert len(looked) > 50
    wrong = [
        x for x in looked if x["error"] or x["elsewhere"] or x["off"] > 1e-10 or x["largest"] > TOLD
    ]
    assert not wrong


def test_what_must_run_on_the_host_says_so(found: list[dict[str, Any]]) -> None:
    refused = [x for x in found if "refused" in x]
    assert len(refused) > 5
    for x in refused:
        assert "on pretend:0" in x["refused"], x
        assert "cpu" in x["refused"], x
        assert x["largest"] <= 1, x
