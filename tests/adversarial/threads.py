"""Many threads at once: different functions, one factorization, one pattern that all use first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import ldiv
from adversarial.changes import numbers, require_equal
from adversarial.functions import FUNCTIONS

THREADS = 8
ENGINES = ("ldl", "lu", "superlu", "pardiso", "gmres", "bicgstab", "cg", "minres", "auto")


def together(tasks: list[Callable[[], Any]]) -> list[Any]:
    """All at once, each in a thread of its own."""
    gate = threading.Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> Any:
        gate.wait(25)
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(25) for future in [pool.submit(run, task) for task in tasks]]


def grid(m: int, shift: float = 0.1) -> Any:
    """The five-point matrix on m x m points, definite."""
    line = sp.diags_array(
        [-np.ones(m - 1), (2 + shift) * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1]
    )
    return sp.csc_array(sp.kron(line, sp.eye_array(m)) + sp.kron(sp.eye_array(m), line))


def of_functions(seed: int, framework: str = "numpy", rounds: int = 5) -> str:
    """Eight functions, drawn by chance, over and over, values and in PyTorch gradients: what one
    thread finds alone.
    """
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice(list(FUNCTIONS), THREADS)]
    if framework == "numpy":
        names = [
            name
            for name in names
            if not name.startswith(
                (
                    "root",
                    "implicit",
                    "least_squares",
                    "laplace",
                    "jacobian",
                    "hessian",
                    "hvp",
                    "her",
                )
            )
        ]

    def evaluated(name: str) -> list[Any]:
        f, args = FUNCTIONS[name]
        if framework == "numpy":
            return numbers(f(*args))
        import torch

        leaves = [torch.tensor(a, requires_grad=True) for a in args]
        y = f(*leaves)
        sum(v.abs().sum() for v in (y if isinstance(y, tuple) else (y,))).backward()
        return [*numbers(y), *[leaf.grad.numpy() for leaf in leaves if leaf.grad is not None]]

    expected = {name: evaluated(name) for name in names}
    for _ in range(rounds):
        for name, found in zip(
            names, together([partial(evaluated, name) for name in names]), strict=True
        ):
            require_equal("in threads", found, expected[name])
    return "right"


def of_engines(seed: int) -> str:
    """All engines on one matrix, one pattern and several values, that nobody has used before."""
    a = grid(6 + seed % 5)
    b = np.random.default_rng(seed).standard_normal((a.shape[0], 2))
    able = [
        m
        for m, s in ldiv.explain(ldiv.asarray(a), assume_a="pos").answers.items()
        if s.startswith(("taken", "could")) and m in ENGINES
    ]
    ldiv.clear_cache()
    A = ldiv.asarray(a)
    methods = [able[i % len(able)] for i in range(THREADS)]
    scales = [1.0 + i // 2 for i in range(THREADS)]

    def solved(method: str, scale: float) -> Any:
        x, pullback = ldiv.vjp(
            lambda A, b: ldiv.solve(A, b, assume_a="pos", method=method),
            A.with_data(scale * A.data),
            b,
        )
        return x, pullback(x)[1]

    dense = np.linalg.inv(a.toarray())
    for _ in range(3):
        for (x, b_bar), scale in zip(
            together(list(map(partial, [solved] * THREADS, methods, scales))), scales, strict=True
        ):
            for found, right in ((x, dense @ b / scale), (b_bar, dense @ dense @ b / scale**2)):
                if np.abs(found - right).max() > 1e-6 * np.abs(right).max():
                    require_equal("engines in threads", [found], [right])
    return "right"


def of_one_factorized(seed: int, method: str = "auto") -> str:
    """One factorization, used by all, in all its forms."""
    a = grid(10)
    a.data = a.data + 0.1 * np.random.default_rng(seed).random(a.nnz)
    F, rng = ldiv.factorized(ldiv.asarray(a), method=method), np.random.default_rng(seed)
    views = {"N": a, "T": a.T, "H": a.T}

    def used(i: int) -> None:
        for step in range(20):
            trans = "NTH"[(i + step) % 3]
            b = blocks[i] if step % 2 else blocks[i][:, 0]
            x = F.solve(b, trans=trans)
            if np.abs(views[trans] @ x - b).max() > 1e-10:
                require_equal("one factorization in threads", [views[trans] @ x], [b])

    blocks = rng.standard_normal((THREADS, a.shape[0], 3))
    together([partial(used, i) for i in range(THREADS)])
    return "right"


def of_one_pattern(seed: int) -> str:
    """A structure that all use first at once, for different things; it is analysed once an
    engine.
    """
    a = grid(8)
    b = np.random.default_rng(seed).standard_normal(a.shape[0])
    uses: list[Callable[[Any], Any]] = [
        lambda A: ldiv.solve(A, b),
        lambda A: ldiv.solve(A.T, b),
        lambda A: ldiv.logdet(A, assume_a="pos"),
        lambda A: A @ b,
        lambda A: (A @ A).toarray(),
        lambda A: (A + A.T).toarray(),
        lambda A: ldiv.solve(A, b, assume_a="pos"),
        lambda A: ldiv.eigsh(A, 2, sigma=0.0)[0],
    ]
    expected = [numbers(use(ldiv.asarray(a))) for use in uses]
    for _ in range(5):
        ldiv.clear_cache()
        A = ldiv.asarray(a)
        found = together([partial(use, A) for use in uses])
        for x, right in zip(found, expected, strict=True):
            require_equal("one pattern in threads", numbers(x), right)
        ldiv.clear_cache()
        A = ldiv.asarray(a)
        together([partial(ldiv.solve, A, b)] * THREADS)
        if ldiv.cache_info().analyses != 1:
            require_equal(
                "analyses of one pattern", [np.array(ldiv.cache_info().analyses)], [np.array(1)]
            )
    return "right"
