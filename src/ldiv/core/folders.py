"""Rooms that grow by one file: a folder says that it is there; its files are found by scan, and imported when somebody asks.

The folder's own `__init__` registers it with the kind of thing that its files are, so that a room may use what stands in a later one
and import nothing of it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

_folders: dict[str, list[str]] = {}


def register(kind: str, folder: str) -> None:
    """The files of this package, by its full name, are of that kind."""
    _folders.setdefault(kind, []).append(folder)


def files(kind: str) -> dict[str, str]:
    """The full name of every file of a kind, by its own; none is imported for it."""
    return {found.name: f"{folder}.{found.name}" for folder in _folders[kind] for found in pkgutil.iter_modules(sys.modules[folder].__path__)}


def modules(kind: str) -> Iterator[ModuleType]:
    """Every file of a kind, imported."""
    return map(importlib.import_module, files(kind).values())
