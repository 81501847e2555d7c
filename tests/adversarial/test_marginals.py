"""A slice of marginal likelihoods and their parts; `make fuzz KIND=marginals` goes on."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import ldiv
from adversarial import marginals
from adversarial.fuzz import attempt


def faults(kinds: tuple[str, ...], count: int) -> dict[str, str]:
    some = islice((case for case in marginals.cases(0) if case.label in kinds), count)
    tried = ((case, attempt(case)) for case in some)
    return {case.source(): outcome for case, (outcome, is_fault) in tried if is_fault}


@pytest.mark.parametrize("count", [8, pytest.param(32, marks=pytest.mark.exhaustive)])
def test_they_are_as_accurate_as_their_condition_allows(count: int) -> None:
    assert not faults(tuple(marginals.KINDS), count)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("schur_complement", "schur_complement"),
        ("cholesky_update", "cholesky_update"),
        ("kron, shift", "slogdet"),
    ],
)
def test_a_wrong_answer_is_seen(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(ldiv, name)

    def wrong(*args: Any, **kwargs: Any) -> Any:
        y = right(*args, **kwargs)
        return (y[0], y[1] * (1 + 1e-3)) if isinstance(y, tuple) else y * (1 + 1e-3)

    monkeypatch.setattr(ldiv, name, wrong)
    assert any("wrong" in outcome for outcome in faults((kind,), 8).values())
