"""A slice of batches with bad members; `make fuzz KIND=members` goes on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import ldiv
from adversarial import members
from adversarial.fuzz import attempt

pytest.importorskip("torch")


def faults(count: int) -> dict[str, str]:
    tried = ((case, attempt(case)) for case in islice(members.cases(0), count))
    return {case.source(): outcome for case, (outcome, is_fault) in tried if is_fault}


def test_members_have_the_answers_that_they_have_alone() -> None:
    assert not faults(150)


def test_a_wrong_member_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(a):
        found = ldiv.inv(a)
        return (
            found + 1e-3 * (np.arange(len(a)) > 0)[:, None, None]
            if isinstance(a, np.ndarray)
            else found
        )

    judged = members.FUNCTIONS["inv"][1:]
    monkeypatch.setitem(members.FUNCTIONS, "inv", (wrong, *judged))
    assert any("wrong by its residual" in outcome for outcome in faults(60).values())
