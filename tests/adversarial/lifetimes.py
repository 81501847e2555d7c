"""Nothing stays: no factor after its loss, its exception or its pullback, none that waits for the
garbage collector, no table that grows.

Run in a process of its own: the garbage collector is switched off, and what is alive is counted.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import ldiv
from adversarial.case import Wrong
from adversarial.functions import FUNCTIONS
from adversarial.threads import grid
from ldiv.core.calls import call as calls
from ldiv.core.owners.holder import owner
from ldiv.engines.factors import analyses, cache

GROWTH = 64 << 20  # bytes of resident memory that a loop may take in all, when it is warm


@contextmanager
def uncollected() -> Iterator[None]:
    """Run without the garbage collector: objects in cycles stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def require_nothing_alive(when: str, most: int = 0) -> None:
    info = ldiv.cache_info()
    if info.entries > most:
        raise Wrong(
            f"factors alive {when}", f"{info.entries}, of {info.bytes} bytes, more than {most}"
        )
    if owner() is not None:
        raise Wrong(f"an owner is left {when}")


def require_small_tables(when: str) -> None:
    sizes = {
        "live": (len(cache._live), 64),
        # patterns of live arrays stay beside the recent ones: those of the checks themselves
        "analyses": (len(analyses._recent), analyses.RECENT + 8),
        "signatures": (len(calls._calls), calls.MOST),
    }
    for name, (size, most) in sizes.items():
        if size > most:
            raise Wrong(f"the table of {name} grew {when}", f"{size}, more than {most}")


def resident() -> int:
    """Bytes; 0 where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


# -- loops --------------------------------------------------------------------


def _numpy_dense(n: int) -> Callable[[float], Any]:
    a, b = np.random.default_rng(0).standard_normal((n, n)) + n * np.eye(n), np.ones(n)

    def step(t: float) -> Any:
        x, pullback = ldiv.vjp(ldiv.solve, t * a, b)
        return pullback(x)

    return step


def _numpy_sparse(m: int) -> Callable[[float], Any]:
    a = grid(m)
    b = np.ones(a.shape[0])

    def step(t: float) -> Any:
        x, pullback = ldiv.vjp(
            ldiv.solve, ldiv.csc_array((t * a.data, a.indices, a.indptr), shape=a.shape), b
        )
        return pullback(x)

    return step


def _torch_dense(n: int) -> Callable[[float], Any]:
    import torch

    a = (
        torch.from_numpy(np.random.default_rng(0).standard_normal((n, n))) + n * torch.eye(n)
    ).requires_grad_()
    b = torch.ones(n, dtype=torch.float64)

    def step(t: float) -> Any:
        a.grad = None
        loss = ldiv.solve(t * a, b).square().sum()
        loss.backward()
        return loss

    return step


def _torch_sparse(m: int) -> Callable[[float], Any]:
    import torch

    a = grid(m)
    v, b = torch.from_numpy(a.data).requires_grad_(), torch.ones(a.shape[0], dtype=torch.float64)

    def step(t: float) -> Any:
        v.grad = None
        A = ldiv.csc_array((t * v, a.indices, a.indptr), shape=a.shape)
        loss = ldiv.solve(A, b).square().sum() + ldiv.logdet(A, assume_a="pos")
        loss.backward()
        return loss

    return step


def _new_patterns(m: int) -> Callable[[float], Any]:
    """Use another pattern in every step."""
    rng = np.random.default_rng(0)

    def step(t: float) -> Any:
        i, j = np.r_[:m, rng.integers(m, size=m)], np.r_[:m, rng.integers(m, size=m)]
        A = ldiv.coo_array((np.r_[np.full(m, m + t), np.ones(m)], (i, j)), shape=(m, m))
        x, pullback = ldiv.vjp(ldiv.solve, A, np.ones(m))
        return pullback(x)

    return step


def _new_shapes(m: int) -> Callable[[float], Any]:
    """Use another size and another dtype in every step."""

    def step(t: float) -> Any:
        n = 1 + int(1e6 * t) % m
        a = (n * np.eye(n) + 1).astype(["float32", "float64", "complex64", "complex128"][n % 4])
        return ldiv.solve(a, a[:, 0]), ldiv.cholesky(a), ldiv.slogdet(a)

    return step


LOOPS: dict[str, Callable[[int], Callable[[float], Any]]] = {
    "numpy, dense": _numpy_dense,
    "numpy, sparse": _numpy_sparse,
    "torch, dense": _torch_dense,
    "torch, sparse": _torch_sparse,
    "new patterns": _new_patterns,
    "new shapes": _new_shapes,
}


def of_loop(name: str, size: int, steps: int, kept: bool = False) -> str:
    """Training steps with the garbage collector off, their losses kept in a list or not: no
    factor, small tables, flat memory.
    """
    step, losses = LOOPS[name](size), []
    with uncollected():
        for i in range(steps):
            loss = step(1 + i / steps)
            if kept:
                losses.append(loss)
            del loss
            if i == steps // 5:
                warm = resident()
            if i % 100 == 0 or i == steps - 1:
                require_nothing_alive("in a loop")
                if not (kept and name == "new patterns"):  # which graphs that are kept hold
                    require_small_tables("in a loop")
        if not kept and (grown := resident() - warm) > GROWTH:
            raise Wrong("memory grows in a loop", f"{grown >> 20} MiB in {steps} steps")
    return "right"


# -- single calls -------------------------------------------------------------


def of_function(name: str, framework: str) -> str:
    """A value, a gradient and a second gradient of one function leave nothing, with the garbage
    collector off.
    """
    f, args = FUNCTIONS[name]
    with uncollected():
        if framework == "numpy":
            with suppress(ValueError, TypeError):
                y, pullback = ldiv.vjp(f, *args)
                pullback(y)
                del y, pullback
        else:
            _gradients(f, args)
        require_nothing_alive(f"after {name} in {framework}")
    return "right"


def _gradients(f: Callable[..., Any], args: Any) -> None:
    import torch

    leaves = [torch.tensor(a, requires_grad=True) for a in args]
    y = f(*leaves)
    loss = sum(v.abs().square().sum() for v in (y if isinstance(y, tuple) else (y,)))
    first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    second = sum(g.abs().square().sum() for g in first if g is not None)
    if second.requires_grad:
        torch.autograd.grad(second, leaves, allow_unused=True)


def _singular(form: str) -> Any:
    a = np.ones((5, 5))
    return a if form == "dense" else ldiv.asarray(a)


def of_exceptions(form: str, kept: bool) -> str:
    """Singular systems in a loop, their exceptions kept or not; a pullback and a backward that
    fail.
    """
    b = np.ones(5)
    calls: tuple[Callable[[Any, Any], Any], ...] = (
        lambda singular, _: ldiv.solve(singular, b),
        lambda singular, _: ldiv.vjp(ldiv.solve, singular, b),
        lambda singular, _: ldiv.factorized(singular),
        lambda singular, _: ldiv.logdet(singular, assume_a="pos"),
        lambda _, regular: ldiv.vjp(ldiv.solve, regular, b)[1](np.full(5, np.nan)),
        lambda _, regular: ldiv.vjp(ldiv.solve, regular, b)[1](np.ones(4)),
        lambda _, regular: ldiv.vjp(lambda A, b: [ldiv.solve(A, b)][1], regular, b),
    )
    errors = []
    with uncollected():
        for i in range(50):
            for call in calls:
                try:
                    call((1 + i) * _singular(form), _regular(form, i))
                except (np.linalg.LinAlgError, ValueError, IndexError) as error:
                    if kept:
                        errors.append(error)
        errors.clear()  # an exception keeps the frames that it was raised in, as anywhere in Python
        require_nothing_alive("after exceptions")
        require_small_tables("after exceptions")
    return "right"


def _regular(form: str, i: int) -> Any:
    a = np.ones((5, 5)) + (3 + i) * np.eye(5)
    return a if form == "dense" else ldiv.asarray(a)


def of_graphs(name: str) -> str:
    """PyTorch: losses that are dropped without a backward, kept after one, in a checkpoint,
    detached, in a backward that fails.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    a = torch.from_numpy(grid(5).toarray()).requires_grad_()
    b = torch.ones(25, dtype=torch.float64)

    def loss(t: float) -> Any:
        A = t * a
        return ldiv.solve(A if name.endswith("dense") else ldiv.asarray(A), b).square().sum()

    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("of the user")

    def fails(t: float) -> None:
        A = Failing.apply(t * a)
        with suppress(KeyError):
            ldiv.solve(A, b).sum().backward()

    ways: dict[str, Callable[[float], Any]] = {
        "dropped": lambda t: loss(t) and None,
        "backward": lambda t: loss(t).backward(),
        "kept": lambda t: [y := loss(t), y.backward()][0],
        "checkpoint": lambda t: [y := checkpoint(loss, t, use_reentrant=False), y.backward()][0],
        "detached": lambda t: loss(t).detach(),
        "no_grad": lambda t: torch.no_grad()(loss)(t),
        "func.grad": lambda t: torch.func.grad(lambda a: ldiv.solve(t * a, b).sum())(a.detach()),
        "func.vjp": lambda t: (
            torch.func.vjp(lambda a: ldiv.solve(t * a, b).sum(), a.detach())[1] and None
        ),
        "jacrev": lambda t: torch.func.jacrev(lambda s: ldiv.solve(s * t * a.detach(), b))(
            torch.tensor(1.0, dtype=torch.float64)
        ),
        "hessian": lambda t: torch.func.hessian(lambda s: ldiv.solve(s * t * a.detach(), b).sum())(
            torch.tensor(1.0, dtype=torch.float64)
        ),
        "create_graph": lambda t: (
            torch.autograd.grad(loss(t), a, create_graph=True)[0].sum().backward()
        ),
        "fails": fails,
    }
    way = ways[name.partition(", ")[0]]
    with uncollected():
        kept = [way(1.0 + i) for i in range(5)]
        a.grad = None
        require_nothing_alive(f"after {name}")
        del kept
    return "right"


WAYS = (
    "dropped",
    "backward",
    "kept",
    "checkpoint",
    "detached",
    "no_grad",
    "func.grad",
    "func.vjp",
    "jacrev",
    "hessian",
    "create_graph",
    "fails",
)


def of_every_graph() -> str:
    for name in WAYS:
        for form in ("dense", "sparse"):
            of_graphs(f"{name}, {form}")
    return "right"


def of_every_function(framework: str) -> str:
    for name in FUNCTIONS:
        of_function(name, framework)
    return "right"
