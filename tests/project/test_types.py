"""The types that an editor sees: arrays give arrays of their framework, a Matrix gives Any, SciPy's
are taken.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import numpy as np
import scipy.sparse as sp
import ldiv

K = sp.csr_array(np.eye(3))
f = np.ones(3)
A = ldiv.asarray(K)
u = ldiv.solve(K, f, assume_a="pos")
w, X = ldiv.eigsh(A, 1, sigma=0)
x, pullback = ldiv.vjp(ldiv.solve, A, f)
reveal_type(ldiv.solve(np.eye(3), f))
reveal_type(ldiv.solve(A, f))
reveal_type(ldiv.eigvalsh(np.eye(3)))
reveal_type(w)
reveal_type(ldiv.logdet(A))
reveal_type(ldiv.inverse_diagonal(A))
reveal_type(ldiv.cholesky(A))
"""


@pytest.mark.exhaustive
def test_types_of_results(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = ["--no-incremental", "--follow-imports=silent", "--ignore-missing-imports"]
    said = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", *options, str(script)],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    revealed = [line.partition('"')[2].rstrip('"') for line in said.splitlines() if "note" in line]
    assert ": error" not in said, said
    array = [one.startswith("numpy.ndarray") for one in revealed]
    assert array == [True, True, True, False, False, False, False], said
    assert revealed[3:6] == ["Any"] * 3
    assert revealed[6].endswith("SparseCholesky")
