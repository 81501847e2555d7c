"""The careful way accepts all answers that compiled code accepts; a wrong answer is found."""

from __future__ import annotations

from collections import Counter

import pytest

from adversarial import accepted
from ldiv.engines.libraries import native

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)


@pytest.mark.parametrize("count", [500, pytest.param(15000, marks=pytest.mark.exhaustive)], ids=str)
def test_nothing_is_accepted_that_the_careful_way_refuses(count: int) -> None:
    came = accepted.run(count, count)
    assert not accepted.faults(came)
    outcomes = Counter(outcome for _, outcome in came.elements())
    assert min(outcomes["accepted"], outcomes["declined"]) > count / 10
    assert outcomes[accepted.DOUBT] <= 1 + count / 1000


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong answers have an error in the eighth digit, or another sign."""

    def wrong(answer):
        def call(asked):
            found = answer(asked)
            if found is None or isinstance(found, str):
                return found
            return [found[0] * (-1 if asked.what == "slogdet" else 1 + 1e-8), *found[1:]]

        return call

    others = {way: wrong(answer) for way, answer in accepted.WAYS.items()}
    monkeypatch.setattr(accepted, "WAYS", others)
    found = {fault.split()[1] for fault in accepted.faults(accepted.run(1, 200))}
    assert {*accepted.ANY, "lu"} <= found
