"""Every benchmark runs in its quick form and writes what it promises; medians are of ratios,
round by round.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ldiv

BENCH = Path(__file__).parents[2] / "bench"
SRC = Path(ldiv.__file__).parents[1]
NEEDS = {
    "solve": ["torch"],
    "calls": ["torch", "jax"],
    "cliffs": ["torch", "jax"],
    "spsolve": ["torch", "jax"],
    "jax": ["torch", "jax"],
    "large": ["torch"],
    "gpu": ["torch"],
    "engines": ["torch", "matplotlib"],
    "iterative": ["torch", "pyamg"],
    "ordering": ["jax", "pymetis"],
    "peers": ["torch", "jax"],
    "programs": ["torch", "jax", "clarabel"],
    "eigen": ["torch"],
    "fits": ["torch"],
    "fronts": ["torch"],
    "functions": ["torch"],
    "gaussian": ["torch"],
    "gmrf": ["torch", "skfem", "matplotlib"],
    "dense": ["torch"],
    "first_calls": ["torch", "jax"],
    "laplace": ["torch", "jax"],
    "logdet": ["torch"],
    "diffrax": ["jax", "diffrax"],
    "jacobian": ["torch", "jax"],
    "least_squares": ["torch"],
    "mpi": ["torch"],
    "versions": ["torch", "jax"],
    "corners": ["jax", "matplotlib"],
}
FIGURE = {"problem", "what", "value", "unit", "target", "seconds", "over", "met"}


def run(code: list[str]) -> str:
    path = os.pathsep.join([str(SRC), str(BENCH)])
    done = subprocess.run(
        [sys.executable, *code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_benchmark_is_tested() -> None:
    assert {path.stem.removeprefix("bench_") for path in BENCH.glob("bench_*.py")} == set(NEEDS)


def test_the_page_of_results_is_that_of_the_files() -> None:
    """`python bench/summary.py` writes its table, and a picture for each file."""
    code = (
        "import summary; found = summary.results(); print(summary.table(found), *found, sep='\\n')"
    )
    table, names = run(["-c", code]).rsplit("\n\n", 1)
    page = (BENCH / "RESULTS.md").read_text(encoding="utf-8")
    assert table in page, "run python bench/summary.py"
    for name in names.split():
        assert f"(`bench_{name}.py`)" in page
        assert f"(results/{name}.svg)" in page
        assert (BENCH / "results" / f"{name}.svg").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NEEDS)
def test_quick(name: str, tmp_path: Path) -> None:
    for needed in NEEDS[name]:
        pytest.importorskip(needed)
    table = run([str(BENCH / f"bench_{name}.py"), "--quick", "--out", str(tmp_path)])
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert set(record) == {"name", "quick", "date", "note", "machine", "versions", "figures"}
    assert record["quick"] is True
    assert record["machine"]["cores"] >= 1
    assert record["versions"]["ldiv"] == ldiv.__version__
    assert record["figures"] or "Skipped" in record["note"]
    for figure in record["figures"]:
        assert set(figure) == FIGURE
        assert math.isfinite(figure["value"])  # a difference and an exponent may have either sign
        assert figure["problem"] in table


def test_a_figure_is_the_median_of_the_ratios() -> None:
    lines = "from harness import measure; print(measure.ratio({'one': [1.0, 4.0, 9.0], 'two': [1.0, 2.0, 1.0]}, 'one', 'two'))"
    assert run(["-c", lines]) == "2.0\n"


def test_the_first_round_does_not_count_and_turns_alternate() -> None:
    lines = """
from harness import measure
turns = []
seconds = measure.side_by_side({"a": lambda i: turns.append(("a", i)), "b": lambda i: turns.append(("b", i))}, lambda i: i, 2)
print([len(s) for s in seconds.values()], turns)
"""
    assert (
        run(["-c", lines])
        == "[2, 2] [('b', 0), ('a', 0), ('a', 1), ('b', 1), ('b', 2), ('a', 2)]\n"
    )


def test_a_wrong_number_is_named_and_a_triangle_alone_is_not_wrong() -> None:
    lines = """
import numpy as np, scipy.sparse as sp
from harness import turns
from problems import systems
problem = systems.make("poisson", 3, 3)
x, full = np.arange(9.0), sp.csc_array(problem.a)
lower = sp.tril(full) + sp.tril(full, -1)
for answer in ((x, full, x), (x, lower, x), (x, None, x), (1.001 * x, full, x), (x, 2 * full, x), (np.nan * x, full, x)):
    print(turns.disagreement(problem, (x, full, x), answer))
"""
    assert run(["-c", lines]).split("\n")[:-1] == ["None"] * 3 + [
        f"wrong: {error} from ldiv" for error in ("1e-03", "1e+00", "inf")
    ]
