"""A pretend accelerator stands for any: results stay there and are those of the cpu, in every mode.
The host reads a few numbers at most, and says what it must do itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dense_functions
import pytest

import ldiv
from ldiv.engines.libraries import native

pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[1] / "on_pretend_device.py"
TOLD = 16  # numbers at once
COMPILED = native.native is not None  # is the analysis of sparse matrices?


# one of each kind of kernel, what the host refuses, and what is not as believed
FEW = [
    *("solve", "solve pos", "solve_triangular", "cholesky", "lu_factor", "qr", "svdvals", "eigh"),
    *("lu_solve", "quad_form", "cg", "gmres", "solve_banded", "coo_array", "root"),
    *("solve, sparse", "ldl", "eig", "expm", "sqrtm", "logm", "expm_multiply"),
    *("NaN in A", "rank one", "nearly singular, twice", "not positive", "not symmetric"),
    *("badly scaled", "badly scaled, positive", "Hilbert", "NaN for an error"),
    *("cg, long", "gmres, long"),
    *(["solve, sparse pos", "logdet, sparse pos", "or NaN, solve, sparse pos"] * COMPILED),
    *("or NaN, not positive", "or NaN, no derivative", "or NaN, solve_triangular", "or NaN, svd"),
    *("or NaN, solve", "or NaN of a batch, solve", "or NaN of a batch, det"),
]


@dataclass
class Found:
    names: list[str]  # none: all
    lines: list[dict[str, Any]]

    def having(self, key: str, all_more_than: int, few: int) -> list[dict[str, Any]]:
        """The lines with this key, of which there are so many."""
        lines = [x for x in self.lines if key in x]
        assert len(lines) == few if self.names else len(lines) > all_more_than
        return lines


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.exhaustive)])
def found(request: pytest.FixtureRequest) -> Found:
    names = FEW if request.param == "few" else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, SCRIPT, *names],
        capture_output=True,
        text=True,
        timeout=580,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    return Found(names, [json.loads(line) for line in run.stdout.splitlines()])


def test_every_function_is_in_the_law() -> None:
    listed = [dense_functions.DENSE, dense_functions.AT_HOST, dense_functions.OTHERS]
    names = [dense_functions.public(x) for x in listed]
    assert set.union(*names) == set(ldiv.__all__)
    assert not (names[0] | names[1]) & names[2]


def test_nothing_fails(found: Found) -> None:
    assert not [x for x in found.lines if x["error"]]


def test_what_runs_there_stays_there_and_is_right(found: Found) -> None:
    looked = found.having("off", 120, 15 + 2 * COMPILED)
    assert {x["name"] for x in looked if not x["mapped"]} <= dense_functions.BY_NUMBERS
    assert not [x for x in looked if x["elsewhere"] or x["off"] > 1e-10 or x["largest"] > TOLD]


# value and gradient: a look at all numbers at the end of each of the two; a decision for every few
# steps of an iteration
WAITS = {
    "solve": 2,
    "solve sym": 2,
    "solve pos": 2,
    "solve, batch": 2,
    "solve_triangular": 2,
    "cholesky": 2,
    "inv": 2,
    "det": 2,
    "logdet": 2,
    "slogdet": 2,
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
    **dict.fromkeys(
        [
            f"{name}, sparse pos"
            for name in ("solve", "logdet", "slogdet", "inverse_diagonal", "selected_inverse")
            if COMPILED
        ],
        2,
    ),
    # several rules, and one node of the graph
    "cho_solve": 2,
    "quad_form": 2,
    "trace_solve": 2,
    "gaussian_logpdf": 2,
    "norm, 2": 2,
    "norm, nuc": 2,
    "cond, 1": 2,
    "pinvh": 2,
    "subspace_angles": 2,
    "spectral_sum": 2,
    # and two public calls
    "lu_solve": 4,
    "factorized": 4,
    # derivatives of functions of a user's, with what they are compared with
    "jacobian": 1,
    "hessian": 4,
    "hvp": 5,
    "jvp": 5,
    "vjp": 8,
    # one solve and one step
    "implicit": 5,
    # 3, 3, 5, 4, 4 and 7, and room for one decision more of each solve, should rounding, which
    # depends on where arrays lie, ask for it
    "cg": 5,
    "gmres": 5,
    "solve_sylvester": 7,
    "polar": 6,
    "lobpcg": 6,
    "root": 9,
}


MORE = {"least_squares": 22, "gradient_error": 11}
MOST = 7  # of all others, which iterate or decide by numbers


def test_a_kernel_waits_for_the_device_once(found: Found) -> None:
    counted = {x["name"]: x["waits"] for x in found.lines if x["name"] in WAITS}
    assert counted.keys() == (WAITS.keys() & FEW if found.names else WAITS.keys())
    assert not {name: n for name, n in counted.items() if n > WAITS[name]}
    others = {x["name"]: x["waits"] for x in found.lines if "waits" in x and x["name"] not in WAITS}
    assert not {name: n for name, n in others.items() if n > MORE.get(name, MOST)}


def test_an_iteration_waits_once_in_ten_steps(found: Found) -> None:
    """The last wait is at the end: all checks, the true residual among them, are read together."""
    long = found.having("waited", 3, 2)
    assert not [x for x in long if x["steps"] < 40 or x["largest"] > TOLD]
    assert not [x for x in long if x["waited"] > x["steps"] / 10 + 3]


def test_what_was_believed_in_vain_is_found_as_on_the_cpu(found: Found) -> None:
    hard = found.having("here", 40, 9)
    refused, compared = sum(bool(x["here"]) for x in hard), sum("apart" in x for x in hard)
    assert (refused, compared) == (5, 4) if found.names else refused > 20 and compared > 12
    other = [x for x in hard if x["here"] != x["there"] or x.get("apart", 0) > 1e-9 or x["kept"]]
    assert not other
    assert not [x for x in hard if x["or_nan"] > 1e-9]


def test_nan_for_an_error_waits_for_nobody(found: Found) -> None:
    """One matrix and batches, value, gradient and tangent have NaN exactly where the cpu has it."""
    lines = found.having("unread", 60, 7 + COMPILED)
    assert sum(x["nan"] > 0 for x in lines) >= (3 if found.names else 20)
    assert not [x for x in lines if x["unread"] or x["far"] > 1e-10]


def test_what_must_run_on_the_host_says_so(found: Found) -> None:
    for x in found.having("refused", 45, 7):
        assert "on pretend:0" in x["refused"], x
        assert "cpu" in x["refused"], x
        assert x["largest"] <= 1, x
