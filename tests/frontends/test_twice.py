"""Derivatives in a function that is evaluated twice: looked at once, and again where one was cut."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from ldiv.frontends.torch.twice import Twice, are_whole


def looked_at(answers: list[bool], twice: Twice) -> list[tuple[bool, bool]]:
    """What is said of each derivative in two evaluations, and whether it was looked at for that."""
    said = []
    for _ in range(2):
        with twice.inside():
            for answer in answers:
                looks: list[bool] = []
                found = are_whole(lambda a=answer, n=looks: n.append(a) or a)
                said.append((found, bool(looks)))
    return said


def test_whole_ones_are_looked_at_once() -> None:
    assert looked_at([True, True], Twice()) == [(True, True)] * 2 + [(True, False)] * 2


def test_one_that_is_cut_is_found_in_both() -> None:
    assert looked_at([False, True], Twice()) == [(False, True), (True, True)] * 2


def test_an_inner_function_has_its_own() -> None:
    outer = Twice()
    with outer.inside():
        assert looked_at([False], Twice()) == [(False, True)] * 2
        assert looked_at([True], outer)[0] == (True, True)
    assert looked_at([True], Twice())[0] == (True, True)


def test_a_function_that_fails_says_nothing() -> None:
    twice = Twice()
    with pytest.raises(ZeroDivisionError), twice.inside():
        are_whole(lambda: bool(1 / 0))
    assert looked_at([True], twice)[0] == (True, True)
