"""`import ldiv` loads no framework: NumPy, SciPy and RSLAB alone."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "jax", "jaxlib", "matplotlib", "skfem", "pytest")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_no_framework_is_loaded() -> None:
    assert (
        run(f"import ldiv, sys; print([name for name in {HEAVY} if name in sys.modules])") == "[]"
    )


def test_import_is_quick() -> None:
    """The import loads ldiv, array_api_compat, RSLAB's two milliseconds and the standard library,
    beside what most users of SciPy have loaded; `multiprocessing` names `__main__` a second time.
    """
    loaded = run(
        "import sys, scipy.sparse.linalg; before = set(sys.modules); import ldiv; print(*set(sys.modules) - before)"
    ).split()
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names <= {
        "ldiv",
        "array_api_compat",
        "rslab",
        "__mp_main__",
    }
