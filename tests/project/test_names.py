"""The columns of the page of names are what is seen: `tests/what_names_have.py` writes them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")
what_names_have = pytest.importorskip("what_names_have")

SEEN = json.loads(what_names_have.FILE.read_text())


def test_every_name_that_can_be_called_is_there() -> None:
    assert set(SEEN) == set(what_names_have.CALLS)


@pytest.mark.parametrize(
    "name",
    [
        *("solve", "spsolve"),
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in sorted(SEEN)[::9]),
    ],
)
def test_the_page_says_what_is_seen(name: str) -> None:
    """But for devices, which a process of its own has."""
    found = what_names_have.measured(name, devices=False)
    assert found == {key: value for key, value in SEEN[name].items() if key != "device"}
