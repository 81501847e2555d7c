"""KeyboardInterrupt in the middle of things: it arrives, and what comes after is as if nothing had
been.

Run in a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import ldiv
from adversarial.case import Wrong
from adversarial.lifetimes import require_nothing_alive
from adversarial.processes import solved
from adversarial.threads import grid
from ldiv.core.arrays import closures
from ldiv.core.rules import record
from ldiv.engines import solve_log
from ldiv.engines.libraries import mkl_pardiso

PATIENCE = 25.0  # seconds


def _sparse(method: str, size: int) -> Callable[[], Any]:
    A, b = ldiv.asarray(grid(size)), np.ones(size * size)
    return lambda: ldiv.vjp(lambda A, b: ldiv.solve(A, b, assume_a="pos", method=method), A, b)


def _dense(size: int) -> Callable[[], Any]:
    a = np.random.default_rng(0).standard_normal((size, size))
    return lambda: ldiv.vjp(ldiv.solve, a, np.ones(size))


def _iteration(method: str, size: int) -> Callable[[], Any]:
    A, b = ldiv.asarray(grid(size, 1e-7)), np.random.default_rng(0).standard_normal(size * size)
    return lambda: ldiv.solve(A, b, assume_a="pos", method=method, rtol=1e-13)


def _eigenpairs(size: int) -> Callable[[], Any]:
    A = ldiv.asarray(grid(size))
    return lambda: ldiv.eigsh(A, 10, sigma=0.0)


WORK: dict[str, Callable[[int], Callable[[], Any]]] = {
    "lapack": _dense,
    "superlu": lambda size: _sparse("superlu", size),
    "ldl": lambda size: _sparse("ldl", size),
    "cg": lambda size: _iteration("cg", size),
    "minres": lambda size: _iteration("minres", size),
    "eigsh": _eigenpairs,
}
if mkl_pardiso.path() is not None:
    WORK["pardiso"] = lambda size: _sparse("pardiso", size)


def require_usable() -> None:
    """Right answers here and in another thread, nothing alive, no one left that listens."""
    errors = []
    other = threading.Thread(target=lambda: errors.append(solved(1.0)), daemon=True)
    other.start()
    other.join(PATIENCE)
    if not errors:
        where = sys._current_frames().get(other.ident or 0)
        raise Wrong(
            "a lock stays closed after an interrupt", "".join(traceback.format_stack(where)[-4:])
        )
    if max(*errors, solved(1.0)) > 1e-9:
        raise Wrong("wrong after an interrupt", errors)
    if record._record.get() is not None or solve_log.is_read() or closures.closures_count():
        raise Wrong("a context is left after an interrupt")
    require_nothing_alive("after an interrupt")


def of_signals(name: str, size: int, rounds: int = 5) -> str:
    """SIGINT after a delay that grows, in one engine, over and over; all that it imports is there, since
    an interrupt in the middle of an import may leave Python's own lock of imports closed.
    """
    work, interrupted = WORK[name](size), 0
    work()
    require_usable()
    ldiv.clear_cache()
    for i in range(rounds):
        timer = threading.Timer(0.02 * 3**i / 3, os.kill, (os.getpid(), signal.SIGINT))
        try:
            try:
                timer.start()
                kept = work()
                del kept
            finally:
                timer.cancel()
                timer.join()
        except KeyboardInterrupt:
            interrupted += 1
        except ldiv.ConvergenceError:
            pass
        require_usable()
    return "interrupted" if interrupted else "done before"


class Trace:
    """Raises KeyboardInterrupt where the n-th function of ldiv is entered, which is where Python
    looks for signals.
    """

    def __init__(self, at: int) -> None:
        self.left, self.place = at, ""

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if "/ldiv/" not in frame.f_code.co_filename or frame.f_code.co_name in (
            "__enter__",
            "__exit__",
        ):
            return None
        self.left -= 1
        if not self.left:
            self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            raise KeyboardInterrupt
        return None


def of_every_call(name: str, first: int, step: int) -> str:
    """KeyboardInterrupt at each call in turn: in a solve, its pullback, a factorization held, a
    matrix made anew.
    """
    b = np.ones(16)

    def work() -> None:
        a = grid(4)
        A = ldiv.asarray(a if name == "sparse" else a.toarray()) if name != "dense" else a.toarray()
        x, pullback = ldiv.vjp(ldiv.solve, A, b)
        pullback(x)
        ldiv.factorized(A, assume_a="pos").solve(b)

    work()
    at = first
    while True:
        ldiv.clear_cache()
        trace = Trace(at)
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            pass
        else:
            return "interrupted"
        finally:
            sys.settrace(None)
        try:
            require_usable()
        except Wrong as wrong:
            raise Wrong(wrong.complaint, f"{wrong} at {trace.place}") from None
        at += step
