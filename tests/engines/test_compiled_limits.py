"""Every threshold is said once, in ldiv.engines.accuracy.limits; the compiled part has no number of its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ldiv.engines.accuracy import limits
from ldiv.engines.libraries import native

ROOT = Path(__file__).parents[2]
LIMITS = ROOT / "native" / "checked" / "limits.hpp"
NAMES = re.findall(r"OF\((\w+)\)", LIMITS.read_text(encoding="utf-8"))
FILES = [path for path in sorted((ROOT / "native").rglob("*.?pp")) if path != LIMITS]


def test_the_compiled_part_has_those_of_python() -> None:
    assert len(NAMES) > 10 and len(set(NAMES)) == len(NAMES)
    if native.native is not None:
        assert native.native.limits() == {name: getattr(limits, name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_said_once(name: str) -> None:
    tree = ast.parse(Path(limits.__file__).read_text(encoding="utf-8"))
    said = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert said.count(name) == 1
    again = re.compile(rf"\b{name} *=[^=]|\b{name} *\{{")
    assert not [path.name for path in FILES if again.search(path.read_text(encoding="utf-8"))]


def test_no_threshold_is_a_number_in_what_is_checked() -> None:
    """Numbers with a fraction or a power of ten decide; whole ones say how much is done at a time."""
    number = re.compile(r"(?<![\w.])(\d+\.\d+(?<!0\.5)|\d+e[-+]?\d+)\b")
    wrong = {
        f"{path.name}: {line.strip()}"
        for path in FILES
        if path.parent.name == "checked"
        for line in path.read_text(encoding="utf-8").splitlines()
        if number.search(line.partition("//")[0])
    }
    assert not wrong
