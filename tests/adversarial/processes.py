"""Other processes: forked, spawned, in pools and data loaders, before or after a first solve here,
while threads are at work.

A script of its own for each, since it forks; what it says last is the outcome.
"""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import apart
import numpy as np

import ldiv
from adversarial.case import Wrong
from adversarial.threads import grid

LIMIT = 25  # seconds until a child counts as hung
SIZE = 12


def in_a_process(module: str, name: str, *args: Any, seconds: float = apart.LIMIT) -> str:
    """The outcome of a check of a module, in a process of its own."""
    first = f"import adversarial.{module} as m"
    if "torch" in args or "loader" in name:
        first += ", torch"
    done = apart.run(f"print(m.{name}{args!r})", first=first, seconds=seconds)
    if done.returncode:
        what = "a process hangs" if "Timeout (" in done.stderr else "a process fails"
        raise Wrong(what, f"{name}{args}: exit code {done.returncode}: {done.stderr[-1200:]}")
    return done.stdout.splitlines()[-1]


# -- what is done there -------------------------------------------------------


def solved(scale: float, framework: str = "numpy", method: str = "auto") -> float:
    """The error of a solution and its gradient, sparse and dense."""
    a, b = scale * grid(SIZE), np.ones(SIZE * SIZE)
    lam = np.linalg.solve(a.toarray(), b)
    if framework == "numpy":
        x, pullback = ldiv.vjp(
            lambda A, b: ldiv.solve(A, b, assume_a="pos", method=method), ldiv.asarray(a), b
        )
        b_bar = pullback(b)[1]
        y = ldiv.solve(a.toarray(), b)
    else:
        import torch

        t = torch.ones(len(b), dtype=torch.float64, requires_grad=True)
        out = ldiv.solve(
            ldiv.csc_array((torch.from_numpy(a.data), a.indices, a.indptr), shape=a.shape),
            t,
            assume_a="pos",
            method=method,
        )
        out.sum().backward()
        x, b_bar = out.detach().numpy(), t.grad.numpy()
        y = ldiv.solve(torch.from_numpy(a.toarray()), torch.from_numpy(b)).numpy()
    return float(max(np.abs(z - lam).max() for z in (x, b_bar, y)) / np.abs(lam).max())


def singular(_: float) -> float:
    return float(ldiv.solve(ldiv.asarray(np.zeros((2, 2))), np.ones(2))[0])


def require_right(errors: Any) -> None:
    if not max(errors) < 1e-9:
        raise Wrong("wrong in another process", f"by {max(errors):.1e}")


def _begin(before: bool, framework: str) -> None:
    warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
    if before:
        require_right([solved(1.0, framework)])


# -- ways to get there --------------------------------------------------------


def of_pool(start: str, before: bool, framework: str) -> str:
    """Pool.map, and the error of a singular system, after which the next task is done."""
    _begin(before, framework)
    with multiprocessing.get_context(start).Pool(2) as pool:
        require_right(
            pool.starmap_async(solved, [(s, framework) for s in (1.0, 2.0, 1.0)]).get(LIMIT)
        )
        try:
            pool.map_async(singular, [1.0]).get(LIMIT)
        except ldiv.SingularMatrixError:
            require_right(pool.starmap_async(solved, [(3.0, framework)]).get(LIMIT))
            return "right"
    raise Wrong("no error came from a worker")


def of_executor(start: str, before: bool, framework: str) -> str:
    """ProcessPoolExecutor: functions of ldiv themselves, with matrices and factorizations as
    arguments and results.
    """
    _begin(before, framework)
    a, b = ldiv.asarray(grid(SIZE)), np.ones(SIZE * SIZE)
    F = ldiv.factorized(a)
    with ProcessPoolExecutor(2, multiprocessing.get_context(start)) as pool:
        futures = [
            pool.submit(ldiv.solve, a, b),
            pool.submit(F.solve, b),
            pool.submit(ldiv.factorized, a),
            pool.submit(singular, 0.0),
        ]
        results = [future.result(LIMIT) for future in futures[:3]]
        if not isinstance(futures[3].exception(LIMIT), ldiv.SingularMatrixError):
            raise Wrong("no error came from a worker", futures[3])
        require_right([np.abs(x - F.solve(b)).max() for x in (*results[:2], results[2].solve(b))])
        require_right([pool.submit(solved, 1.0, framework).result(LIMIT)])
    return "right"


def of_loader(start: str, before: bool) -> str:
    """torch.utils.data.DataLoader with two workers, whose dataset solves."""
    import torch

    _begin(before, "torch")
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Systems(), batch_size=2, num_workers=2, multiprocessing_context=start, timeout=LIMIT
    )
    for _ in range(2):
        require_right([float(e) for batch in loader for e in batch])
        require_right([solved(2.0, "torch")])
    return "right"


class Systems:
    """A dataset of errors, and of a matrix that is made here and used there."""

    def __init__(self) -> None:
        self.A = ldiv.asarray(grid(SIZE))

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> float:
        b = np.full(SIZE * SIZE, 1.0 + i)
        return max(
            solved(1.0 + i, "torch"), float(np.abs(self.A @ ldiv.solve(self.A, b) - b).max())
        )


def _in_fork(task: Callable[[], None]) -> int:
    """The exit code of a forked child that runs the task: 0, 1 for an error, -9 if it hung."""
    child = multiprocessing.get_context("fork").Process(target=task, daemon=True)
    child.start()
    child.join(LIMIT)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode or 0


def of_fork(framework: str, method: str) -> str:
    """Forked with live factors, a pullback and a `Factorized`, which child and parent go on to
    use, and let go.
    """
    a, b = ldiv.asarray(grid(SIZE)), np.ones(SIZE * SIZE)
    _begin(True, framework)
    F = ldiv.factorized(a, assume_a="pos", method=method)
    x, pullback = ldiv.vjp(lambda A, b: ldiv.solve(A, b, assume_a="pos", method=method), a, b)
    expected = pullback(x)[1]

    def use() -> None:
        require_right(
            [
                np.abs(F.solve(b) - x).max(),
                np.abs(pullback(x)[1] - expected).max(),
                solved(2.0, framework, method),
            ]
        )
        require_right([np.abs(ldiv.factorized(a.with_data(2 * a.data)).solve(b) - x / 2).max()])

    for _ in range(2):
        if code := _in_fork(use):
            raise Wrong(
                "a forked child hangs" if code == -9 else "a forked child fails",
                f"exit code {code}",
            )
        use()
    return "right"


def of_fork_under_threads(forks: int = 30) -> str:
    """Forked while other threads are inside of ldiv: no lock of theirs stays closed in the
    child.
    """
    _begin(True, "numpy")
    A, b, stop = ldiv.asarray(grid(3)), np.ones(9), threading.Event()

    def work(i: int) -> None:
        while not stop.is_set():
            ldiv.clear_cache()
            _, pullback = ldiv.vjp(ldiv.solve, A.with_data(A.data * (1 + i)), b)
            pullback(b)
            ldiv.cache_info()
            fresh = ldiv.asarray(grid(3))
            fresh @ b
            ldiv.solve(fresh, b)

    def child() -> None:
        ldiv.solve(A, b)
        ldiv.clear_cache()
        ldiv.vjp(ldiv.solve, A, b)[1](b)
        ldiv.set_cache_limit(1 << 20)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(forks):
            if code := _in_fork(child):
                raise Wrong(
                    "a child that was forked under threads hangs"
                    if code == -9
                    else "a child that was forked under threads fails",
                    code,
                )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return "right"
