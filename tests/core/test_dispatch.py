"""The dispatch of arrays to front ends: a framework whose import is blocked counts as absent."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ldiv
from ldiv.core.frameworks import dispatch


@pytest.mark.parametrize("name", [x for x in dispatch.frontend_names() if x != "numpy"])
def test_none_in_place_of_a_module_blocks_its_import(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(dispatch._loaded, name, raising=False)
    assert dispatch.frontend_named(name) is None
    dispatch.load_frontends()
    assert name in dispatch.not_loaded
    np.testing.assert_array_equal(ldiv.solve(2 * np.eye(2), np.ones(2)), [0.5, 0.5])
