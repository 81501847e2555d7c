"""`import ldiv` loads no framework, and costs NumPy and SciPy alone."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ALLOWED_SECONDS = 0.3
HEAVY = ("torch", "jax", "jaxlib", "matplotlib", "skfem", "pytest")


def run(code: str, **environment: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ | environment).stdout.strip()


def test_no_framework_is_loaded() -> None:
    assert run(f"import ldiv, sys; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


def test_import_is_quick(tmp_path: Path) -> None:
    """In one process, after SciPy, compiled, in seconds of the processor: neither noise nor what else the machine does counts."""
    clock = "import time, scipy.sparse.linalg; start = time.process_time(); import ldiv; print(time.process_time() - start)"
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    run(clock, **compiled)
    extra = statistics.median(float(run(clock, **compiled)) for _ in range(3))
    assert extra < ALLOWED_SECONDS, f"import ldiv took {extra:.2f} s more than import scipy.sparse.linalg"
