"""A slice of the problems that look singular and are not; `make fuzz` runs more of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

from adversarial.determined import FAMILIES, look


@pytest.mark.parametrize("family", FAMILIES)
def test_determined(family: str) -> None:
    assert all(look(family, seed) for seed in range(2))
