"""Wrong derivatives by the hundred: each is named, or declared not to be seen; right ones are not
accused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import torch
from checker.wrong_derivatives import EXP, FORM, SOLVE, C, Wrong, Z, every, right

from ldiv import gradcheck
from ldiv.checker.loss import Loss
from ldiv.checker.tangents import Argument

WRONG, RIGHT = every(), right()
PAGE = " ".join((Path(__file__).parents[2] / "docs" / "gradcheck.md").read_text().split())
SLICE = 16  # one of so many is in `make test`


def cases(names):
    return [
        pytest.param(name, marks=() if i % SLICE == 0 else pytest.mark.exhaustive)
        for i, name in enumerate(names)
    ]


def test_there_are_many():
    assert len(WRONG) > 350
    assert sum(not wrong.unseen for wrong in WRONG.values()) > 340
    assert len(RIGHT) > 60


@pytest.mark.parametrize("name", cases(WRONG))
def test_a_wrong_derivative_is_named_or_declared_invisible(name):
    wrong = WRONG[name]
    report = gradcheck(wrong.f, *wrong.args, raise_exception=False)
    subjects = (
        ("the values", "the gradient") if wrong.mode == "vmap" else (f"argument {wrong.argument}",)
    )
    named = any(f.mode == wrong.mode and f.subject.startswith(subjects) for f in report.failures)
    if wrong.unseen:
        assert report.ok
        assert wrong.unseen in PAGE
    elif report.ok:
        whole, one_entry = report.visible[f"argument {wrong.argument}"]
        assert error_in_one_entry(wrong) < one_entry if wrong.right else wrong.error < whole
    elif wrong.error is not None:
        # a small one may be seen in another mode, or argument, that weighs it more
        assert report.failures or report.noisy
    else:
        assert named


def error_in_one_entry(wrong: Wrong) -> float:
    """Relative to the largest entry, with the cotangent of gradcheck."""
    there, here = (
        loss.gradient(loss.x)[wrong.argument]
        for f in (wrong.f, wrong.right)
        for loss in [Loss(f, [Argument(a) for a in wrong.args], 0)]
    )
    assert np.count_nonzero(there - here) == 1
    return np.abs(there - here).max() / np.abs(here).max()


@pytest.mark.parametrize("name", cases(RIGHT))
def test_a_right_derivative_is_not_accused(name):
    f, args = RIGHT[name]
    for seed in range(2):
        assert gradcheck(f, *args, seed=seed).ok


@pytest.mark.parametrize(
    ("rule", "argument"),
    [(EXP, 0), (FORM, 1), (SOLVE, 0), (SOLVE.at(Z, C), 1)],
    ids=["exp", "form", "solve", "complex solve"],
)
def test_what_the_report_calls_invisible_is_just_that(rule, argument):
    """A little more is seen, a little less is not: of the whole, and of each entry."""

    def seen(change):
        f = rule.changed(lambda bar, *_: change(bar), argument)
        return bool(gradcheck(f, *rule.args, modes=["vjp"], raise_exception=False).failures)

    report = gradcheck(rule.right(), *rule.args, modes=["vjp"])
    whole, one_entry = report.visible[f"argument {argument}"]
    assert 0 < whole < 1e-5 and 0 < one_entry < 1e-3
    assert seen(lambda bar: (1 + 1.1 * whole) * bar)
    assert not seen(lambda bar: (1 + 0.9 * whole) * bar)
    size = rule.args[argument].numel()
    entries = [wrong_in(k, 1.1 * one_entry) for k in (0, size // 2, size - 1)]
    assert all(map(seen, entries))
    assert f"argument {argument}: not seen are relative errors below {whole:.1e}" in str(report)


def wrong_in(k, error):
    """A change of entry k by so much of the largest entry."""

    def change(bar):
        one = torch.zeros(bar.numel(), dtype=bar.dtype)
        one[k] = error * bar.abs().max()
        return bar + one.reshape(bar.shape)

    return change
