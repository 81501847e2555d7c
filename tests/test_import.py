"""`import ldiv` loads no framework, and costs NumPy and SciPy alone."""

from __future__ import annotations

import statistics
import subprocess
import sys

ALLOWED_SECONDS = 0.3
HEAVY = ("torch", "jax", "jaxlib", "matplotlib", "skfem", "pytest")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_no_framework_is_loaded() -> None:
    assert run(f"import ldiv, sys; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


def test_import_is_quick() -> None:
    """In one process, after SciPy: the difference itself is measured, not two noisy numbers."""
    clock = "import time, scipy.sparse.linalg; start = time.perf_counter(); import ldiv; print(time.perf_counter() - start)"
    extra = statistics.median(float(run(clock)) for _ in range(3))
    assert extra < ALLOWED_SECONDS, f"import ldiv took {extra:.2f} s more than import scipy.sparse.linalg"
