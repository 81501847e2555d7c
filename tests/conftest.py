"""Fixtures: the real matrices; the same random numbers for every test, and no cached factorizations
for tests that count them; a compiler without optimization; covering arrays; few cases in JAX.
"""

import ast
import functools
import gc
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from covering import mark_the_rest
from few_in_jax import mark_all_but_the_first

import ldiv
from ldiv.core.frameworks import dispatch
from ldiv.engines.factors import cache

# Compiling is what takes the time in the tests of JAX, and most of that is optimizing; of the
# environment, so that every process hears of it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
collect_ignore = ["on_pretend_device.py", "on_four_devices.py"]  # for a process of their own
OPTIONAL = (
    "torch",
    "jax",
    "autograd",
    "lineax",
    "diffrax",
    "gpytorch",
    "linear_operator",
    "pyamg",
    "skfem",
    "pytensor",
    "pymc",
)
REAL = Path(os.environ.get("LDIV_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
# a folder of tests with the name of a package is none
_missing = {n for n in OPTIONAL if getattr(importlib.util.find_spec(n), "origin", None) is None}
_left_out: dict[str, set[str]] = {}
AFTER_IMPORT = {}  # the state of the generator of each file


def pytest_ignore_collect(collection_path):
    """A file that imports a package which is not here is left out, and named at the end."""
    if collection_path.suffix != ".py" or not _missing:
        return None
    absent = _missing & _imported(collection_path)
    if absent:
        _left_out[collection_path.name] = absent
    return bool(absent) or None


@functools.cache
def _imported(path):
    """The packages that a file imports when it is loaded, by way of other files of the tests, too."""
    modules = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    files = (Path(__file__).parent.joinpath(*m.split(".")).with_suffix(".py") for m in modules if m)
    return {m.partition(".")[0] for m in modules}.union(
        *(_imported(f) for f in files if f.exists())
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test that imports a missing package when it runs. Packages that ldiv itself imports
    must be present.
    """
    try:
        return (yield)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _missing and _imported_by_a_test(error):
            pytest.skip(f"without {package}")
        raise


def _imported_by_a_test(error):
    frames = [f.filename for f in traceback.extract_tb(error.__traceback__)]
    by = next(name for name in reversed(frames) if "importlib" not in name)
    return Path(by).is_relative_to(Path(__file__).parent)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = {n: sorted(a) for n, a in _left_out.items()}


class Workers:
    """Collect the cases that workers have left out."""

    def pytest_testnodedown(self, node):
        for name, absent in getattr(node, "workeroutput", {}).get("left out", {}).items():
            _left_out[name] = set(absent)


def pytest_addoption(parser):
    parser.addoption("--reversed", action="store_true", help="the last test first")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if config.getoption("--reversed"):
        items.reverse()


def pytest_configure(config):
    if config.pluginmanager.hasplugin("dsession"):  # workers there are
        config.pluginmanager.register(Workers())


def pytest_terminal_summary(terminalreporter):
    for name, absent in sorted(_left_out.items()):
        terminalreporter.write_line(f"left out: {name}, without {', '.join(sorted(absent))}")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem():
    made = yield
    if isinstance(made, list) and made:
        mark_the_rest(made)
        mark_all_but_the_first(made)
    return made


COUNTS = re.compile(r"cache_info|clear_cache|factors.cache|analys|monkeypatch")


@functools.cache
def _counts(path):
    """Whether a test of this file counts factorizations, or changes an engine."""
    return COUNTS.search(path.read_text(encoding="utf-8")) is not None


@pytest.fixture
def without_autograd(monkeypatch):
    """Run without autograd: with a recorder of NumPy's operations more is differentiated, and less
    refused.
    """
    monkeypatch.delitem(sys.modules, "autograd", raising=False)
    monkeypatch.delitem(dispatch._loaded, "autograd", raising=False)
    import_module = dispatch.import_module

    def of_others(name):
        if name == "autograd":
            raise ModuleNotFoundError(name)
        return import_module(name)

    monkeypatch.setattr(dispatch, "import_module", of_others)


@pytest.fixture(autouse=True)
def _fresh_memory(request):
    """Other tests find the symbolic work of those before them, as a program does."""
    counts = _counts(request.path)
    if counts:
        _forget()
    yield
    if counts:
        _forget()


def _look_no_more_at_what_is_old():
    """Tests count what the garbage collector leaves: it goes through what is made from here on, not
    through all programs that JAX has compiled, for a second each time.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    _look_no_more_at_what_is_old()


@pytest.fixture(autouse=True, scope="module")
def _what_other_files_made_is_old():
    _look_no_more_at_what_is_old()


def _forget():
    ldiv.clear_cache()
    # what waits for the garbage collector is not found by the next test
    cache._live.clear()
    if ldiv.cache_info().entries:  # compiled factors are counted where they are
        gc.collect()


@pytest.fixture(autouse=True)
def _same_numbers(request):
    """Draw the same numbers in a test, whatever the tests before it or its process."""
    module = getattr(request.node, "module", None)
    for generator in (getattr(module, name, None) for name in ("RNG", "rng")):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = AFTER_IMPORT.setdefault(
                module.__name__, generator.bit_generator.state
            )
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():  # else it is noted for later, with a stack trace
            torch.cuda.manual_seed_all(0)


@pytest.fixture
def real_matrix():
    """Loads a SuiteSparse matrix by name as a SciPy CSC array."""

    def load(name):
        path = REAL / f"{name}.mtx"
        if not path.exists():
            pytest.skip(
                f"the matrix {name} is not in {REAL}: set LDIV_TEST_DATA to a folder with SuiteSparse .mtx files"
            )
        return scipy.sparse.csc_array(scipy.io.mmread(path, spmatrix=False))

    return load
