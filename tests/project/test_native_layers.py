"""native/ has three rooms: bind includes checked and kernels, checked includes kernels, and no
arrow runs back. Python is known to bind alone.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
ROOMS = ("kernels", "checked", "bind")  # each includes from itself and from those before it
FILES = {path.relative_to(NATIVE).as_posix(): path for path in sorted(NATIVE.rglob("*.?pp"))}


def included(file: str) -> set[str]:
    """Files of ours, by their places in native/."""
    room = file.split("/")[0]
    names = re.findall(r'#include "(.+)"', FILES[file].read_text(encoding="utf-8"))
    return {name if "/" in name else f"{room}/{name}" for name in names}


def test_every_file_is_in_a_room() -> None:
    assert {file.split("/")[0] for file in FILES} == set(ROOMS)
    assert all(file.count("/") == 1 for file in FILES)


@pytest.mark.parametrize("room", ROOMS)
def test_includes_go_from_bind_to_checked_to_kernels(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    wrong = {
        f"{file} includes {name}"
        for file in FILES
        for name in included(file)
        if file.startswith(f"{room}/") and (name not in FILES or name.split("/")[0] not in allowed)
    }
    assert not wrong


def test_files_stand_in_an_order() -> None:
    """A header is included by others, never by those that it includes."""
    assert len(list(TopologicalSorter({file: included(file) for file in FILES}).static_order()))


def test_python_is_known_to_bind_alone() -> None:
    python = re.compile(r"nanobind|Python\.h|Py[A-Z]\w+\(|ffi")
    knowing = {file for file, path in FILES.items() if python.search(path.read_text())}
    assert {file.split("/")[0] for file in knowing} == {"bind"}
