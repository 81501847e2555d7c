"""A pytest plugin: in SciPy's own test modules ldiv's functions stand where SciPy's did.

    python -m pytest -p in_place_of_scipy --outcomes=FILE --pyargs scipy.linalg.tests.test_basic ...

Nothing is adapted: a name that a module imported from SciPy, and that `ldiv.linalg` has too, is
replaced by ours. FILE receives {test: [outcome, functions of ours that it reached, message]} as JSON.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import ldiv

OURS = {
    name: f
    for name, f in ((name, getattr(ldiv, name)) for name in ldiv.__all__)
    if inspect.isfunction(f) and f.__module__.startswith("ldiv.linalg")
}
_reached: set[str] = set()  # by the test that is running
_replaced: set[str] = set()  # modules
_outcomes: dict[str, list[Any]] = {}


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--outcomes", help="where the outcomes are written, as JSON")


def watched(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """f, which says that it was reached."""

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        _reached.add(name)
        return f(*args, **kwargs)

    return call


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for module in {item.module for item in items}:
        if module.__name__ in _replaced:
            continue
        _replaced.add(module.__name__)
        for name, f in OURS.items():
            theirs = getattr(module, name, None)
            if str(getattr(theirs, "__module__", "")).startswith("scipy."):
                setattr(module, name, watched(name, f))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Any:
    _reached.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    # what a report holds is carried from the workers of xdist to their controller
    report.reached = sorted(_reached)
    report.test = "::".join((item.module.__name__, *item.nodeid.split("::")[1:]))
    return report


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" and report.reached and report.outcome in ("passed", "failed"):
        crash = getattr(report.longrepr, "reprcrash", None)
        message = "" if crash is None else crash.message.partition("\n")[0]
        _outcomes[report.test] = [report.outcome, report.reached, message]


def pytest_sessionfinish(session: Any) -> None:
    if not hasattr(session.config, "workerinput"):
        Path(session.config.option.outcomes).write_text(json.dumps(_outcomes))
