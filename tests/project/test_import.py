"""`import ldiv` loads no framework: NumPy and SciPy alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

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
    """The import loads ldiv, array_api_compat and the standard library,
    beside what most users of SciPy have loaded; `multiprocessing` names `__main__` a second time.
    """
    loaded = run(
        "import sys, scipy.sparse.linalg; before = set(sys.modules); import ldiv; print(*set(sys.modules) - before)"
    ).split()
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names <= {
        "ldiv",
        "array_api_compat",
        "__mp_main__",
    }


FIRST_CALLS = """
    import sys, torch, ldiv
    before = len(sys.modules)
    x = torch.ones(50, dtype=torch.float64)
    f = lambda x: x**3 + torch.roll(x, 1) - 2.0
    P = ldiv.detect_pattern(f, x)
    ldiv.jacobian(f, x), ldiv.jacobian(f, x, pattern=P), ldiv.hvp(lambda x: f(x).sum(), x, x)
    ldiv.root(f, x), ldiv.root(f, x, pattern=P), ldiv.least_squares(f, x, pattern=P)
    print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
    print(len(sys.modules) - before < 200)
"""


def test_derivatives_of_functions_load_little_of_torch() -> None:
    """The graph of autograd serves; torch.func would load 800 modules, which takes a second."""
    assert run(textwrap.dedent(FIRST_CALLS)).split("\n") == ["[]", "True"]
