"""A forked child has one thread: locks that others held are open there, and OpenMP does not wait
for threads that are not.

libgomp keeps a team of threads between its parallel regions. A child inherits the team without the
threads, and hangs in its first region; so the forking thread lets its team go first,
`omp_pause_resource_all` of OpenMP 5.0. It comes back when it is needed.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from contextlib import suppress
from typing import Any

SOFT = 1  # omp_pause_soft: values of threadprivate variables stay

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_openmp: dict[str | None, ctypes.CDLL] = {}


def lock() -> Any:
    """A reentrant lock, open in a child whoever held it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def release_openmp_of(library: str | None) -> None:
    """Before each fork, let go of the threads of the OpenMP that this library is bound to."""
    for path in (None, library):  # that of the process goes first, as where symbols are bound
        _openmp[path] = ctypes.CDLL(path)


def _pause() -> None:
    for library in tuple(_openmp.values()):
        with suppress(AttributeError):  # no OpenMP, or one of long ago
            library.omp_pause_resource_all(SOFT)


def _open() -> None:
    for each in tuple(_locks):
        each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause, after_in_child=_open)
