"""Forked processes: locks are reopened in the child, imports finished and OpenMP's threads released
before.

A child has one thread. Locks that other threads held would stay closed in it, and are reopened.
Python's own lock of a module that another thread is importing cannot be reopened: so a fork waits for
the imports of `import_module`. libgomp keeps a team of threads between parallel regions. A child
inherits the team without the threads, and would hang in its first region. So the parent releases the
team by `omp_pause_resource_all` (OpenMP 5.0) before it forks; the next parallel region makes a new
one.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
import weakref
from contextlib import suppress
from types import ModuleType
from typing import Any

SOFT = 1  # omp_pause_soft: threadprivate variables keep their values

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_openmp: dict[str | None, ctypes.CDLL] = {}


def lock() -> Any:
    """Return a reentrant lock, which is released in a forked child."""
    made = threading.RLock()
    _locks.add(made)
    return made


_imports = lock()


def import_module(name: str) -> ModuleType:
    """Import a module on demand; a fork in another thread waits until the import is finished."""
    with _imports:
        return importlib.import_module(name)


def release_openmp_of(library: str | None) -> None:
    """Register the OpenMP runtime of this library, whose threads are released before each fork."""
    for path in (None, library):  # the process's own symbols come first, as in dynamic linking
        _openmp[path] = ctypes.CDLL(path)


def _pause() -> None:
    for library in tuple(_openmp.values()):
        with suppress(AttributeError):  # no OpenMP, or one before 5.0
            library.omp_pause_resource_all(SOFT)


def _open() -> None:
    for each in tuple(_locks):
        each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause, after_in_child=_open)
    os.register_at_fork(before=_imports.acquire, after_in_parent=_imports.release)
