"""Calls of gradcheck to a group of processes: a fake of two, of which the other one is scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ldiv.checker.inner import Inner
from ldiv.checker.together import only, require_same, together, watched
from ldiv.core.arrays.processes import RankError, groups_of_steps, note_step
from ldiv.errors import EngineError


class Two:
    """A group of this process and another, which has `other(x)` where this one has x."""

    size = 2

    def __init__(self, rank: int = 0, other: Callable[[Any], Any] = lambda x: x) -> None:
        self.rank, self.other = rank, other
        self.told: list[BaseException] = []

    def every(self, x: Any) -> list[Any]:
        pair = [x, self.other(x)]
        return pair if self.rank == 0 else pair[::-1]

    def agree(self, step: str, *numbers: int, error: BaseException | None = None) -> list[int]:
        note_step(self)
        if error is not None:
            self.told.append(error)
        return list(numbers)

    @contextmanager
    def section(self, operation: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.agree(operation, error=error)
            raise


@pytest.mark.parametrize("rank", [0, 1])
def test_parts_add_up_and_numbers_of_the_whole_count_once(rank: int) -> None:
    here, there = np.array([1.0, 2.0]), np.array([3.0])
    whole = np.array([5.0])

    def other(mine: Any) -> Any:
        product = Inner(Two(1 - rank), [True, False])
        return np.array([product.local([there, whole], [there, whole])])

    product = Inner(Two(rank, other), [True, False])
    assert product([([here, whole], [here, whole])]) == 5.0 + 9.0 + 25.0


def test_alone_it_is_the_plain_inner_product() -> None:
    x, y = np.array([1.0 + 1j]), np.array([2.0 - 1j])
    assert Inner()([([x], [y])]) == np.vdot(x, y).real
    assert Inner().squares([([x], [y])]) == pytest.approx(10.0)
    assert Inner().absolute([([x], [y])]) == pytest.approx(np.sqrt(10))
    assert Inner().largest([2.0]) == [2.0]
    assert not Inner().any([])


def test_one_process_is_enough_for_any_and_largest() -> None:
    product = Inner(Two(other=lambda x: True if x is False else [7.0]))
    assert product.any(False)
    assert product.largest([2.0]) == [7.0]


def test_groups_of_one_are_none_and_several_are_refused() -> None:
    one, two = Two(), Two()
    one.size = 1
    assert only([one]) is None
    assert only([one, two]) is two
    with pytest.raises(EngineError, match="over one communicator"):
        only([two, Two()])


def test_settings_are_the_same_or_refused() -> None:
    require_same(None, seed=0)
    require_same(Two(), seed=0)
    with pytest.raises(ValueError, match="seed: expected the same on all processes"):
        require_same(Two(other=lambda seed: seed + 1), seed=0)


def test_errors_of_one_kind_are_raised_and_others_end_the_check() -> None:
    group = Two()
    with pytest.raises(ValueError, match="outside"), together(group):
        raise ValueError("outside")
    assert len(group.told) == 1
    parted = Two(other=lambda kind: (not kind[0], *kind[1:]))
    with pytest.raises(RankError, match="different kinds"), together(parted):
        raise KeyError("here")
    with pytest.raises(RankError, match="late"), together(group):
        raise RankError("late")


def test_who_takes_a_step_is_seen_once_and_inside_only() -> None:
    group = Two()
    with groups_of_steps() as outer, groups_of_steps() as inner:
        note_step(group)
        note_step(group)
    note_step(Two())
    assert outer == inner == [group]
    with pytest.raises(ValueError, match="mine"):
        _fail_after_a_step(group)
    assert [str(error) for error in group.told] == ["mine"]


def _fail_after_a_step(group: Two) -> None:
    with watched():
        group.agree("a step")
        raise ValueError("mine")
