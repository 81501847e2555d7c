"""A slice of pairs of problems in turn; `make fuzz KIND=turns` goes on."""

from __future__ import annotations

from itertools import islice

import pytest

from adversarial import turns
from adversarial.case import Wrong
from adversarial.fuzz import attempt
from ldiv.core.rules.structure import Structure
from ldiv.engines.factors import analyses

pytest.importorskip("torch")
pytest.importorskip("jax")
PAIRS = (
    (("numpy, sparse", 5), ("numpy, sparse", 7)),
    (("numpy, dense", 6), ("definite", 8)),
    (("SuperLU", 9), ("SuperLU", 8)),
    (("torch, sparse", 5), ("JAX", 6)),
    (("eigenpairs", 5), ("batch", 5)),
)


def test_two_problems_in_turn() -> None:
    for pair in PAIRS:
        assert turns.in_turn(*pair) == "right", pair


@pytest.mark.exhaustive
def test_any_two_problems_in_turn() -> None:
    failed = {
        case.source(): outcome
        for case in islice(turns.cases(0), 40)
        for outcome, is_fault in [attempt(case)]
        if is_fault
    }
    assert not failed


def test_what_is_pushed_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyses, "RECENT", 1)
    monkeypatch.setattr(Structure, "is_referenced", False)
    with pytest.raises(Wrong, match="in turn cost more"):
        turns.in_turn(*PAIRS[0])
