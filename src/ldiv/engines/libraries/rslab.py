"""RSLAB, from the wheel of that name: its compiled module, its settings, and its threads.

It reads compressed columns with 64-bit indices, sorted, without duplicates, and copies values. It
works on one thread, or on as many as it is allowed and takes for useful; the factor is the same to
the last bit. Threads belong to pools, even a single one. A forked process inherits the pools without their
threads, and the allocator with whatever these had locked, and could wait for either for ever: once
a process has called RSLAB, those forked from it do not. Nor do they where the thread that loaded it,
in whose memory the allocator keeps its own, has stayed behind. Their other engines do the work.
Reference: https://github.com/milanofthe/rslab
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from threading import Event, Thread, current_thread, get_ident, main_thread
from typing import Any

import numpy as np

from ldiv.core.owners.forking import import_module, lock
from ldiv.engines.libraries import threads
from ldiv.errors import EngineUnavailableError, SingularMatrixError

MODULE = "rslab._rslab"
DTYPES = ("float32", "float64", "complex64", "complex128")
NEVER = 1 << 62  # operations, above any matrix's: from there on work is divided among threads

ORPHANED = (
    "is not available in a process that was forked from one which has called RSLAB, or loaded it in "
    "another thread: locks of its threads may be closed for ever, and their memory is gone "
    "(multiprocessing's 'spawn' and 'forkserver' start it anew)"
)

_loader: int | None = None  # the thread that loads it, or has done so
_called = False  # in this process, or in one that it was forked from
_orphaned = False  # forked since
_loading = lock()
_log = logging.getLogger("ldiv.rslab")


@lru_cache(maxsize=1)
def missing() -> str | None:
    """The reason why RSLAB cannot be called, with advice; None if it can."""
    try:
        library()
    except ImportError as error:
        return (
            f"needs RSLAB, which cannot be imported ({error}): pip install rslab. It has wheels for "
            "Linux, macOS and Windows on x86-64, and for Linux and macOS on arm64"
        )
    return None


@lru_cache(maxsize=1)
def library() -> Any:
    """The compiled module, silent: what it warns of on stderr is an exception, or checked here."""
    with _loading:
        return _loaded()


@lru_cache(maxsize=1)
def _loaded() -> Any:
    if current_thread() is not main_thread():
        _load_in_a_thread_that_stays()
    module = _imported()
    module.set_log_sink(lambda level, message: _log.debug("%s: %s", level, message))
    return module


def _load_in_a_thread_that_stays() -> None:
    """Load RSLAB in a thread that never ends. Its allocator, mimalloc, keeps its main heap in the
    memory of the loading thread: after the end of that thread, the next new thread crashes the
    process when it allocates memory.
    """
    done = Event()

    def load() -> None:
        try:
            _imported()
        except ImportError:  # the caller meets it again
            return
        finally:
            done.set()
        Event().wait()

    Thread(target=load, name="ldiv loaded RSLAB", daemon=True).start()
    done.wait()


def _imported() -> Any:
    global _loader
    _loader = _loader or get_ident()  # before it is loaded: a fork may come meanwhile
    return import_module(MODULE)


def calls() -> Any:
    """The compiled module, to be called."""
    global _called
    require_own_process()
    _called = True
    return library()


def require_own_process() -> None:
    """Raise where RSLAB was called before a fork, or its thread is not in this process."""
    if _orphaned:
        raise EngineUnavailableError("RSLAB", ORPHANED)


def decline(dtype: Any, device: str) -> str | None:
    """The reason why no matrix with these values is factored, or None."""
    if (why_not := unsuited(dtype, device)) is not None:
        return why_not
    return ORPHANED if _orphaned else missing()


def unsuited(dtype: Any, device: str) -> str | None:
    """The reason why RSLAB itself cannot factor matrices with these values, or None."""
    if np.dtype(dtype).name not in DTYPES:
        return f"factors {', '.join(DTYPES)}, not {np.dtype(dtype)}"
    if device != "cpu":
        return f"runs on the cpu, but the values are on {device}"
    return None


def settings(is_large: bool) -> Any:
    """Settings of L D L^T, for as many threads as may work now if the matrix is large, else for one."""
    return _settings(threads.threads("RAYON_NUM_THREADS") if is_large else 1)


@lru_cache(maxsize=8)
def _settings(most: int) -> Any:
    # a solve takes the memory's time, not the processor's: threads would only wait for each other
    alone = {"solve_par_min_work": NEVER}
    if most == 1:
        divided = ("par_gemm", "par_cdiv", "fork_min_flops", "nd_parallel_min_vertices")
        alone |= dict.fromkeys((*divided, "nd_parallel_min_edges", "race_eager_nd_min_nnz"), NEVER)
    return library().Settings(threads=1 if most == 1 else ("auto", most), **alone)


def refused(engine: str, error: RuntimeError) -> Exception:
    """Translate an error: RSLAB distinguishes singular matrices from its own failures only by text."""
    if any(word in str(error) for word in ("singular", "deficient")):
        return SingularMatrixError(engine, f"no pivot that is large enough ({error})")
    return error


def _forked() -> None:
    global _orphaned
    _orphaned = _called or _loader not in (None, get_ident())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
