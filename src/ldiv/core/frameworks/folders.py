"""Registries by folder scan: each kind of plug-in (rules, engines, ...) is a folder of files.

The `__init__` of a folder registers it under the kind of its files, which are imported on demand.
So a layer can use plug-ins of a later layer without importing from it. Defaults for optional names
of a file are given at registration, once: no caller tests whether a file defines them, and nobody
writes into it.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ldiv.core.owners.forking import import_module

_defaults: dict[str, dict[str, Any]] = {}
_files: dict[str, dict[str, str]] = {}


class Plugin:
    """The names that a file defines, and defaults for the optional names that it leaves out."""

    def __init__(self, module: ModuleType, defaults: dict[str, Any]) -> None:
        vars(self).update(defaults)
        vars(self).update(vars(module))


def register(kind: str, folder: str, shared: tuple[str, ...] = (), **defaults: Any) -> None:
    """Register the files of this package (by its full name) under `kind`, except the files that
    they share.

    `defaults`: the values of optional names, for files that do not define them.
    """
    _defaults[folder] = defaults
    found = {m.name for m in pkgutil.iter_modules(sys.modules[folder].__path__)} - set(shared)
    _files.setdefault(kind, {}).update({name: f"{folder}.{name}" for name in sorted(found)})


def files(kind: str) -> dict[str, str]:
    """The full module name of every file of a kind, by its own name; nothing is imported."""
    return _files[kind]


def plugins(kind: str) -> Iterator[Any]:
    """Every file of a kind, imported, with its optional names."""
    yield from map(_plugin, files(kind).values())


_plugins: dict[str, Plugin] = {}


def _plugin(home: str) -> Plugin:
    """Return one object for all threads, also if several threads ask at once."""
    if home not in _plugins:
        made = Plugin(import_module(home), _defaults[home.rpartition(".")[0]])
        _plugins.setdefault(home, made)
    return _plugins[home]
