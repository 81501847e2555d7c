"""A slice of what can happen to the state; `make fuzz KIND=state` goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv
from adversarial import changes, lifetimes, processes, state
from adversarial.case import Wrong
from adversarial.fuzz import attempt

QUICK = state.here()


def _needs(check: object) -> None:
    """Checks import PyTorch when they run, some in other processes, and report whatever they raise."""
    if "torch" in str(check) or "of_loader" in str(check):
        pytest.importorskip("torch")


@pytest.mark.parametrize("name", sorted({name for _, name, _ in QUICK}))
def test_changes_in_place(name: str) -> None:
    _needs(name)
    checks = [check for check in QUICK if check[1] == name][:: 4 if name == "of_torch" else 1]
    failed = {
        check: outcome
        for check in checks
        for outcome, is_fault in [attempt(state.case(check))]
        if is_fault
    }
    assert not failed


@pytest.mark.parametrize("check", state.of_threads(0), ids=str)
def test_threads(check: state.Check) -> None:
    _needs(check)
    assert attempt(state.case(check)) == ("right", False)


def lives(share: int) -> state.Check:
    """The objects that may stay alive, in one process; loops of a share of their steps."""
    loops = {
        "numpy, dense": (4, 10_000 // share),
        "torch, dense": (4, 2000 // share),
        "numpy, sparse": (5, 200),
        "torch, sparse": (5, 200, True),
        "new patterns": (6, 200),
        "new shapes": (20, 1000 // share),
    }
    checks: list[state.Check] = [
        *(("lifetimes", "of_loop", (name, *args)) for name, args in loops.items()),
        ("lifetimes", "of_exceptions", ("sparse", True)),
        ("lifetimes", "of_exceptions", ("dense", False)),
        ("lifetimes", "of_every_graph", ()),
        ("lifetimes", "of_every_function", ("numpy",)),
        ("lifetimes", "of_every_function", ("torch",)),
    ]
    return ("state", "in_turn", (tuple(checks),))


APART: list[Any] = [
    lives(5),
    pytest.param(lives(1), marks=pytest.mark.exhaustive),
    ("interrupts", "of_signals", ("lapack", 600, 3)),
    ("interrupts", "of_signals", ("superlu", 80, 3)),
    ("interrupts", "of_every_call", ("dense", 1, 23)),
    ("interrupts", "of_every_call", ("sparse", 1, 23)),
    ("processes", "of_fork", ("numpy", "auto")),
    ("processes", "of_fork_under_threads", ()),
    ("processes", "of_pool", ("fork", True, "numpy")),
    ("processes", "of_executor", ("spawn", True, "numpy")),
    ("processes", "of_loader", ("fork", True)),
]


@pytest.mark.parametrize("check", APART, ids=lambda check: f"{check[0]}, {check[1]}")
def test_in_a_process_of_its_own(check: state.Check) -> None:
    _needs(check)
    outcome, is_fault = attempt(state.case(check))
    assert not is_fault, outcome


@pytest.mark.parametrize("engine", ["ldl", "pardiso"])
def test_forked_after_a_solve_by(engine: str) -> None:
    """A child does not have the threads of its parent."""
    if (
        not ldiv.explain(ldiv.eye_array(3), assume_a="pos")
        .answers[engine]
        .startswith(("taken", "could"))
    ):
        pytest.skip(f"{engine} is not installed")
    assert processes.in_a_process("processes", "of_fork", "numpy", engine) == "right"


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ldiv.factorized(np.eye(3))
    with pytest.raises(Wrong, match="factors alive"):
        lifetimes.require_nothing_alive("now")
    del kept
    monkeypatch.setitem(changes.KEPT, "factorized", lambda A: lambda b: ldiv.solve(A, b))
    with pytest.raises(Wrong, match="after the values were changed"):
        changes.of_kept("factorized", "banded")
