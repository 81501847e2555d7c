"""`import ldiv` loads no framework: NumPy and SciPy alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import ldiv

HEAVY = ("torch", "jax", "jaxlib", "matplotlib", "skfem", "pytest")


def run(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
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
    def count(): return len([name for name in sys.modules if not name.startswith("ldiv")])
    before = count()
    x = torch.ones(50, dtype=torch.float64)
    f = lambda x: x**3 + torch.roll(x, 1) - 2.0
    P = ldiv.detect_pattern(f, x)
    ldiv.jacobian(f, x), ldiv.jacobian(f, x, pattern=P), ldiv.hvp(lambda x: f(x).sum(), x, x)
    ldiv.root(f, x), ldiv.root(f, x, pattern=P), ldiv.least_squares(f, x, pattern=P)
    print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
    print(count() - before < 200)
"""


def test_derivatives_of_functions_load_little_of_torch() -> None:
    """The graph of autograd serves; torch.func would load 800 modules, which takes a second."""
    assert run(textwrap.dedent(FIRST_CALLS)).split("\n") == ["[]", "True"]


def test_solve_needs_less_than_half_of_the_modules() -> None:
    """A name is imported from its home when it is first asked for."""
    count = "len([name for name in sys.modules if name.startswith('ldiv')])"
    some, every = run(
        f"import sys, ldiv; ldiv.solve; print({count}); [getattr(ldiv, x) for x in ldiv.__all__]; print({count})"
    ).split()
    assert 2 * int(some) < int(every)


ALONE = """
    import doctest, os, sys, numpy, scipy.linalg, scipy.sparse.linalg
    for name in sys.argv[1:]:
        if not (child := os.fork()):
            import ldiv
            tests = doctest.DocTestFinder().find(getattr(ldiv, name), name, globs={})
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            failed = sum(runner.run(test).failed for test in tests)
            sys.stdout.flush()
            os._exit(failed > 0)
        if os.waitpid(child, 0)[1]:
            print("alone", name)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_name_works_where_no_other_was_asked_for() -> None:
    """Ask for each name alone: no other module registers what it needs."""
    names = [name for name in ldiv.__all__ if callable(getattr(ldiv, name))]
    assert run(textwrap.dedent(ALONE), *names) == ""
