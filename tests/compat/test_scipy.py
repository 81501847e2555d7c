"""SciPy's own tests, with ldiv's functions in place of SciPy's: what passes, and what does not.

`differences.txt` lists those that do not, each under its reason. A test that fails and is not in
the list is a failure here; a test of the list that passes is only reported, as SciPy's tests
change from version to version. The list is for the version that its first line says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import scipy

HERE = Path(__file__).parent
LINALG = (
    "test_basic",
    "test_decomp_cholesky",
    "test_decomp_ldl",
    "test_decomp_lu",
    "test_matfuncs",
)
MODULES = (
    *(f"scipy.linalg.tests.{name}" for name in LINALG),
    "scipy.sparse.linalg._dsolve.tests.test_linsolve",
    "scipy.sparse.linalg._eigen.arpack.tests.test_arpack",
    "scipy.sparse.linalg._eigen.lobpcg.tests.test_lobpcg",
    "scipy.sparse.linalg._eigen.tests.test_svds",
)
LEFT_OUT = "not test_int_overflow"  # 16 GiB of memory
LEAST = 0.88  # of the tests that reach one of our functions, those that pass


def listed() -> tuple[str, set[str]]:
    """The version of SciPy that the list is for, and the tests in it."""
    first, *lines = (HERE / "differences.txt").read_text().splitlines()
    tests = {line for line in lines if line and not line.startswith("#")}
    return first.rpartition(" ")[2], tests


def outcomes(where: Path) -> dict[str, list[str]]:
    """The outcome of each test that reaches one of our functions, in a process of its own."""
    written = where / "outcomes.json"
    path = os.pathsep.join((str(HERE), os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-c", os.devnull, "-n", "2"]
    command += ["-p", "in_place_of_scipy", f"--outcomes={written}", "-p", "no:cacheprovider"]
    command += [f"--rootdir={where}", "-k", LEFT_OUT, "--pyargs", *MODULES]
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        command,
        cwd=where,
        env={**os.environ, **one_thread, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert written.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, list[str]] = json.loads(written.read_text())
    return found


@pytest.mark.exhaustive
def test_what_scipy_tests_passes_here(tmp_path: Path) -> None:
    version, differences = listed()
    found = outcomes(tmp_path)
    failed = {test for test, (outcome, *_) in found.items() if outcome == "failed"}
    passing = 1 - len(failed) / len(found)
    print(f"{len(found) - len(failed)} of {len(found)} pass, {passing:.1%}")
    assert passing >= LEAST
    if scipy.__version__ != version:
        pytest.skip(f"the list is for SciPy {version}, and this is {scipy.__version__}")
    new = {test: found[test][2] for test in sorted(failed - differences)}
    assert not new
    if gone := sorted(differences - failed):
        print(f"no longer different on this machine: {gone}")
