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


# value and gradient: a look at all numbers at the end of each of the two, and one more where a
# factorization decides whether the matrix needs scales; a decision for every few steps of an iteration
WAITS = {
    "solve": 3,
    "solve sym": 3,
    "solve pos": 3,
    "solve, batch": 3,
    "solve_triangular": 2,
    "cholesky": 2,
    "inv": 3,
    "det": 3,
    "logdet": 3,
    "slogdet": 3,
    "lu_factor": 2,
    "qr": 2,
    "svd": 2,
    "svdvals": 2,
    "pinv": 2,
    "lstsq": 2,
    "eigh": 2,
    "eigh, B": 2,
    "eigvalsh": 2,
    "eigsh": 2,
    # 8, 8, 12 and 25, and room for one decision more of each solve, should rounding, which depends
    # on where arrays lie, ask for it
    "cg": 10,
    "gmres": 10,
    "solve_sylvester": 14,
    "root": 29,
}


def test_a_kernel_waits_for_the_device_once(found: list[dict[str, Any]]) -> None:
    counted = {x["name"]: x["waits"] for x in found if x["name"] in WAITS}
    assert counted.keys() == WAITS.keys()
    assert not {name: n for name, n in counted.items() if n > WAITS[name]}


def test_an_iteration_waits_once_in_ten_steps(found: list[dict[str, Any]]) -> None:
    """And at its start and end: after 2, 6 and 14 steps, for the true residual, and for the looks."""
    long = [x for x in found if "waited" in x]
    assert len(long) > 3
    assert not [x for x in long if x["error"] or x["steps"] < 40 or x["largest"] > TOLD]
    assert not [x for x in long if x["waited"] > x["steps"] / 10 + 5]


def test_what_was_believed_in_vain_is_found_as_on_the_cpu(found: list[dict[str, Any]]) -> None:
    hard = [x for x in found if "here" in x]
    assert sum(bool(x["here"]) for x in hard) > 20
    assert sum("apart" in x for x in hard) > 8
    other = [x for x in hard if x["here"] != x["there"] or x.get("apart", 0) > 1e-9 or x["kept"]]
    assert not other


def test_what_must_run_on_the_host_says_so(found: list[dict[str, Any]]) -> None:
    refused = [x for x in found if "refused" in x]
    assert len(refused) > 5
    for x in refused:
        assert "on pretend:0" in x["refused"], x
        assert "cpu" in x["refused"], x
        assert x["largest"] <= 1, x
