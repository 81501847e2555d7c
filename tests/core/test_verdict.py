"""Looks that are read together: nothing that was believed in vain is seen by anybody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ldiv.core.frameworks.looks import (
    after_checks,
    assumed_true,
    decided,
    if_doubted,
    in_one_wait,
    is_pending,
    may_branch,
)


@dataclass
class There:
    """A boolean of a device, which counts how often it was read."""

    yes: bool
    reads: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        self.reads.append(1)
        return self.yes


class Device:
    def __init__(self) -> None:
        self.reads = 0

    def owns(self, x: Any) -> bool:
        return isinstance(x, There)

    def every(self, answers: Any) -> There:
        return There(all(x.yes for x in answers))

    def read(self, answers: Any) -> list[bool]:
        self.reads += 1
        return [x.yes for x in answers]


def test_all_are_read_at_once_at_the_end() -> None:
    device, done = Device(), []

    def run() -> str:
        after_checks(lambda: done.append(device.reads))
        assert all(assumed_true(There(True)) for _ in range(20))
        assert not done
        assert is_pending(There(True))
        assert not is_pending(True)
        return "result"

    assert in_one_wait(device, run) == "result"
    assert (device.reads, done) == (1, [1])
    assert not is_pending(There(True))


def test_one_that_is_not_as_believed_makes_all_run_again() -> None:
    device, seen, undone, settled = Device(), [], [], []

    def run() -> str:
        if_doubted(lambda: undone.append(1))
        after_checks(lambda: settled.append(len(seen)))
        one = There(False)
        found = assumed_true(one)
        seen.append((found, len(one.reads)))
        return "with what was believed" if found else "with the truth"

    assert in_one_wait(device, run) == "with the truth"
    assert seen == [(True, 0), (False, 1)]
    assert (undone, settled) == ([1], [1])  # what the first run would have shown was thrown away


def test_a_decision_reads_what_is_pending_too() -> None:
    device, runs = Device(), []

    def run() -> bool:
        runs.append(1)
        assumed_true(There(len(runs) > 1))
        return decided(There(False))

    assert in_one_wait(device, run) is False
    assert device.reads == 1  # the second run reads one by one
    assert len(runs) == 2


def test_what_a_decision_settled_is_not_undone() -> None:
    device, undone, settled = Device(), [], []

    def run() -> None:
        if_doubted(lambda: undone.append("before"))
        after_checks(lambda: settled.append("before"))
        assumed_true(There(True))
        assert decided(There(True))
        if_doubted(lambda: undone.append("after"))
        assumed_true(There(False))

    in_one_wait(device, run)
    assert undone == ["after"]
    assert settled == ["before", "before"]


def test_an_error_after_a_look_that_was_not_read_is_raised_as_it_is() -> None:
    runs: list[int] = []

    def run() -> None:
        runs.append(1)
        if assumed_true(There(False)):
            raise ZeroDivisionError
        raise ValueError("the first look")

    with pytest.raises(ValueError, match="the first look"):
        in_one_wait(Device(), run)
    assert len(runs) == 2


def test_a_doubt_that_somebody_caught_is_still_one() -> None:
    device, runs = Device(), []

    def run() -> str:
        runs.append(1)
        assumed_true(There(len(runs) > 1))
        try:
            return f"decided {decided(There(True))}"
        except Exception:
            return "caught"

    assert in_one_wait(device, run) == "decided True"


def test_one_inside_of_another_waits_with_it() -> None:
    device = Device()
    inner = lambda: assumed_true(There(True))
    assert in_one_wait(device, lambda: [in_one_wait(device, inner) for _ in range(5)]) == [True] * 5
    assert device.reads == 1


def test_an_interrupt_undoes_and_is_not_tried_again() -> None:
    undone: list[int] = []

    def run() -> None:
        if_doubted(lambda: undone.append(1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_one_wait(Device(), run)
    assert undone == [1]


def test_a_function_apart_sees_nothing_that_is_doubted() -> None:
    device, seen = Device(), []

    def kernel() -> str:
        return "assumed_true" if assumed_true(There(False)) else "the truth"

    @may_branch
    def user() -> None:
        seen.append((in_one_wait(device, kernel), device.reads))

    def run() -> bool:
        user()
        return assumed_true(There(True))

    assert in_one_wait(device, run)
    assert seen == [("the truth", 1)]
    assert device.reads == 2


def test_an_error_apart_is_that_of_the_function() -> None:
    device, runs = Device(), []

    def run() -> None:
        runs.append(1)
        assumed_true(There(len(runs) > 1))
        may_branch(lambda: in_one_wait(device, lambda: decided(There(True))))()
        raise ValueError("of the second run" if len(runs) > 1 else "of the first")

    with pytest.raises(ValueError, match="second"):
        in_one_wait(device, run)
