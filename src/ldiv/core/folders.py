"""Rooms that grow by one file: a folder says that it is there; its files are found by scan, and
imported when somebody asks.

The folder's own `__init__` registers it with the kind of thing that its files are, so that a room
may use what stands in a later one and import nothing of it. What a file may define and need not has
its value there, once: nobody asks whether a file has it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_defaults: dict[str, dict[str, Any]] = {}
_files: dict[str, dict[str, str]] = {}


def register(kind: str, folder: str, **defaults: Any) -> None:
    """The files of this package, by its full name, are of that kind; `defaults`: what those need
    not define that have nothing else to say.
    """
    _defaults[folder] = defaults
    found = pkgutil.iter_modules(sys.modules[folder].__path__)
    _files.setdefault(kind, {}).update({m.name: f"{folder}.{m.name}" for m in found})


def files(kind: str) -> dict[str, str]:
    """The full name of every file of a kind, by its own; none is imported for it."""
    return _files[kind]


def modules(kind: str) -> Iterator[ModuleType]:
    """Every file of a kind, imported, with all that its kind may define."""
    for home in files(kind).values():
        module = importlib.import_module(home)
        for name, value in _defaults[home.rpartition(".")[0]].items():
            vars(module).setdefault(name, value)
        yield module
