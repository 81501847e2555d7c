"""The number of threads of the engines, and where it comes from.

The first of these that says something:

    set_num_threads(k), also by the process that this one was forked from, if it is no worker,
    one thread in a worker process, whose siblings have the other cores,
    the variable of the engine's own library, such as MKL_NUM_THREADS,
    OMP_NUM_THREADS,
    the cores that this process may use.
Engines ask at each call. Whether a matrix is large enough for several threads is theirs to say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from math import ceil
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from ldiv.core.arrays.validate import require_int
from ldiv.core.owners.forking import import_module, lock
from ldiv.engines.libraries.native import native

MOST = 1024
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: "max 100000", or two numbers

_asked: tuple[int, int] | None = None  # the number, and the process that asked for it
_setting = lock()


def set_num_threads(k: int) -> ThreadLimit:
    """Set the number of threads of ldiv's engines, from now on or inside of a `with`.

    Parameters
    ----------
    k : int
        From 1 to 1024.

    Returns
    -------
    limit : ThreadLimit
        To be used as a context manager, or not at all: at the end of the `with` the number is what
        it was before.

    Raises
    ------
    ValueError
        For anything but an integer from 1 to 1024.

    See Also
    --------
    get_num_threads : where the number comes from if it is not set.

    Notes
    -----
    It is that of the whole process. It holds for compiled factors and PARDISO, and, where threadpoolctl is
    installed, for the BLAS of NumPy and SciPy, which LAPACK and SuperLU call. PyTorch and JAX have
    their own: `torch.set_num_threads`. Results do not depend on it, except for rounding by PARDISO
    and BLAS.

    Examples
    --------
    >>> import ldiv
    >>> with ldiv.set_num_threads(1):
    ...     ldiv.get_num_threads()
    1
    """
    global _asked
    what, advice = f"a number of threads from 1 to {MOST}", "ldiv.set_num_threads(1) is one thread."
    k = require_int("k", k, 1, MOST, what=what, advice=advice)
    with _setting:
        limit = ThreadLimit(_asked, _limited_blas(k))
        _asked = k, os.getpid()
    tell_programs()
    return limit


def get_num_threads() -> int:
    """The number of threads that ldiv's engines may use.

    Returns
    -------
    k : int
        What `set_num_threads` says; else 1 in a worker process of multiprocessing, of PyTorch's
        DataLoader or of pytest-xdist. Otherwise k is what OMP_NUM_THREADS says (MKL_NUM_THREADS for
        PARDISO, where it is set); else the number of cores that this process may use.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.get_num_threads() >= 1
    True
    """
    return threads()


def threads(variable: str = "OMP_NUM_THREADS") -> int:
    """The number for a library with an environment variable of its own."""
    asked, is_worker = _asked, _is_worker()
    # a forked process keeps the number of its parent, a worker does not
    if asked is not None and (asked[1] == os.getpid() or not is_worker):
        return asked[0]
    if is_worker:
        return 1
    return _of_environment(variable) or _of_environment("OMP_NUM_THREADS") or cores()


def tell_programs() -> None:
    """Pass the number of threads to calls of compiled programs, which cannot ask for it."""
    if native is not None:
        native.set_xla_threads(threads())


class ThreadLimit:
    """The change made by `set_num_threads`; leaving it as a context manager undoes the change."""

    def __init__(self, before: tuple[int, int] | None, blas: Any) -> None:
        self._before, self._blas = before, blas

    def __enter__(self) -> ThreadLimit:
        return self

    def __exit__(self, *error: object) -> None:
        global _asked
        with _setting:
            _asked = self._before
            if self._blas is not None:
                self._blas.restore_original_limits()
        tell_programs()


def _limited_blas(k: int) -> Any:
    """Limit BLAS to k threads until the limit is restored; None if threadpoolctl is not installed."""
    try:
        control = import_module("threadpoolctl")
    except ImportError:
        return None
    return control.threadpool_limits(limits=k, user_api="blas")


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ or parent_process() is not None


def _of_environment(variable: str) -> int | None:
    """The number in a variable; OMP_NUM_THREADS may be a list, whose first number is the outer level's."""
    first = os.environ.get(variable, "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def cores() -> int:
    """The cores that this process may use: of its affinity, and of its container."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    count = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    return max(1, min(count, _quota()))


@lru_cache(maxsize=1)
def _quota() -> int:
    with suppress(OSError, ValueError):
        allowed, period = QUOTA.read_text().split()
        # so much time of cores in each period, rounded up to whole cores
        if allowed != "max":
            return ceil(int(allowed) / int(period))
    return sys.maxsize


tell_programs()
