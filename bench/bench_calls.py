"""The overhead of a call beyond its arithmetic: value and gradient of small problems over code
written by hand, and the evenness of loops.

by hand     `by_hand.py`: an autograd.Function around SuperLU, without checks; the frameworks' own functions for dense matrices.
            Sparse rows are of the engine that ldiv takes by itself, here its own compiled LU; those by SuperLU show what
            the same looks cost in Python, around an engine that is named
loops       the time of late steps over that of early ones; the memory that 10,000 steps leave behind
Values vary in every call.

python bench/bench_calls.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import gc
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from peers import by_hand
from peers import by_torch
import jax
import jax.numpy as jnp
from peers import jax_by_hand
from peers import plain_calls
import numpy as np
from problems import systems
from peers import raw
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side
from scipy.sparse.linalg import splu

import ldiv

jax.config.update("jax_enable_x64", True)
F64 = torch.float64
# microseconds of an empty Function with its backward where the targets of the last table hold
EMPTY = 18.0


def repeated(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function on every input of a round."""
    return lambda inputs: [f(x) for x in inputs][-1]


def inputs(make: Callable[[float], Any], calls: int) -> Callable[[int], Any]:
    """`calls` inputs in every round, no two with the same values."""
    return lambda i: [make(1 + (i * calls + k) * 1e-5) for k in range(calls)]


def tridiagonal(n: int) -> Any:
    a = sp.csc_array(sp.diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)))
    a.sort_indices()
    return a


def named(problem: str, method: str) -> str:
    """The name of a row, with that of an engine which ldiv does not take by itself."""
    return problem if method == "auto" else f"{problem}, by SuperLU"


def sparse(n: int, rounds: int, calls: int, method: str, target: float | None) -> Figure:
    a, (b, c) = tridiagonal(n), map(torch.from_numpy, systems.vectors(n))
    A, pattern, values = by_torch.array(a), by_hand.Pattern(a), torch.from_numpy(a.data)
    ours, theirs = (
        by_torch.value_and_gradient(A, values, b, c, method=method),
        by_hand.value_and_gradient(pattern, values, b, c),
    )
    assert all(torch.allclose(x, y) for x, y in zip(ours, theirs, strict=True))
    contenders = {
        "ldiv": repeated(lambda v: by_torch.value_and_gradient(A, v, b, c, method=method)),
        "by hand": repeated(lambda v: by_hand.value_and_gradient(pattern, v, b, c)),
    }
    seconds = side_by_side(contenders, inputs(lambda s: values * s, calls), rounds)
    return compare(seconds, named(f"tridiagonal, n = {n:,}", method), "ldiv", "by hand", target)


def dense(shape: tuple[int, ...], rounds: int, calls: int, target: float) -> Figure:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(*shape, generator=generator, dtype=F64) + 2 * shape[-1] ** 0.5 * torch.eye(
        shape[-1], dtype=F64
    )
    b, c = torch.randn(2, *shape[:-1], 1, generator=generator, dtype=F64)

    def run(solve: Any, a: Any) -> Any:
        a, rhs = a.detach().requires_grad_(), b.detach().requires_grad_()
        return torch.autograd.grad(solve(a, rhs), (a, rhs), c)

    contenders = {
        "ldiv": repeated(partial(run, ldiv.solve)),
        "torch": repeated(partial(run, torch.linalg.solve)),
    }
    seconds = side_by_side(contenders, inputs(lambda s: a * s, calls), rounds)
    return compare(seconds, f"dense {' x '.join(map(str, shape))}", "ldiv", "torch", target)


def determinant_or_factor(what: str, n: int, rounds: int, calls: int, target: float) -> Figure:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(n, n, generator=generator, dtype=F64)
    a = a @ a.T + n * torch.eye(n, dtype=F64)
    c = torch.randn(n, n, generator=generator, dtype=F64)
    pairs = {
        "cholesky": (ldiv.cholesky, torch.linalg.cholesky),
        "slogdet": (lambda a: ldiv.slogdet(a)[1], lambda a: torch.linalg.slogdet(a)[1]),
    }

    def run(f: Any, a: Any) -> Any:
        a = a.detach().requires_grad_()
        y = f(a)
        return torch.autograd.grad(y, a, c if y.ndim else torch.ones_like(y))

    contenders = {
        name: repeated(partial(run, f))
        for name, f in zip(("ldiv", "torch"), pairs[what], strict=True)
    }
    seconds = side_by_side(contenders, inputs(lambda s: a * s, calls), rounds)
    return compare(seconds, f"{what} {n} x {n}", "ldiv", "torch", target)


def numpy_dense(n: int, rounds: int, calls: int, target: float, gradient: bool) -> Figure:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((n, n)) + 2 * n**0.5 * np.eye(n)
    b, c = rng.standard_normal((2, n))

    def hand(a: Any) -> Any:
        x, lam = np.linalg.solve(a, b), np.linalg.solve(a.T, c)
        return -np.outer(lam, x), lam

    contenders: dict[str, Any] = (
        {"ldiv": lambda a: ldiv.vjp(ldiv.solve, a, b)[1](c), "numpy": hand}
        if gradient
        else {"ldiv": lambda a: ldiv.solve(a, b), "numpy": lambda a: np.linalg.solve(a, b)}
    )
    seconds = side_by_side(
        {k: repeated(f) for k, f in contenders.items()}, inputs(lambda s: a * s, calls), rounds
    )
    what = "value and gradient" if gradient else "value"
    return compare(seconds, f"NumPy, {what}, {n} x {n}", "ldiv", "numpy", target)


def dense_jit(shape: tuple[int, ...], rounds: int, calls: int, target: float) -> Figure:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape) + 2 * shape[-1] ** 0.5 * np.eye(shape[-1])
    b, c = rng.standard_normal((2, *shape[:-1], 1))

    def gradient(solve: Any) -> Any:
        return jax.jit(jax.grad(lambda a, b: jnp.sum(c * solve(a, b)), argnums=(0, 1)))

    contenders = {}
    for name, solve in (("ldiv", ldiv.solve), ("jnp", jnp.linalg.solve)):
        f = gradient(solve)
        contenders[name] = repeated(lambda a, f=f: jax.block_until_ready(f(a, b)))
    seconds = side_by_side(contenders, inputs(lambda s: jnp.asarray(a * s), calls), rounds)
    return compare(seconds, f"jit, dense {' x '.join(map(str, shape))}", "ldiv", "jnp", target)


def sparse_batch(count: int, n: int, rounds: int, method: str, target: float | None) -> Figure:
    """A batch of one pattern over a loop of the engine's calls."""
    a, rng = tridiagonal(n), np.random.default_rng(0)
    order = raw.order_of_ldiv(a)
    inside, A = raw.permuted(a, order), by_torch.array(a)
    b, c = rng.standard_normal((2, count, n, 1))
    bt, ct, scales = torch.from_numpy(b), torch.from_numpy(c), 1 + rng.random((count, 1))

    def by_engine(s: float) -> None:
        for scale, rhs, weights in zip(scales, b, c, strict=True):
            raw.two_solves(inside * (s * scale), rhs[:, 0], weights[:, 0])

    values = torch.from_numpy(a.data * scales)
    contenders = {
        "ldiv": repeated(
            lambda s: by_torch.value_and_gradient(A, values * s, bt, ct, method=method)
        ),
        "raw loop": repeated(by_engine),
    }
    seconds = side_by_side(contenders, inputs(lambda s: s, 1), rounds)
    problem = named(f"batch of {count}, tridiagonal, n = {n}", method)
    return compare(seconds, problem, "ldiv", "raw loop", target)


def factorized(n: int, rounds: int, calls: int, method: str, target: float | None) -> Figure:
    a, (b, _) = tridiagonal(n), systems.vectors(n)
    F, lu = (
        ldiv.factorized(ldiv.asarray(a), method=method),
        splu(raw.permuted(a, raw.order_of_ldiv(a)), **raw.OPTIONS),
    )
    contenders = {"F.solve": repeated(F.solve), "SuperLU's solve": repeated(lu.solve)}
    seconds = side_by_side(contenders, inputs(lambda s: b * s, calls), rounds)
    return compare(
        seconds, named(f"factorized, n = {n:,}", method), "F.solve", "SuperLU's solve", target
    )


def jit_callback(n: int, rounds: int, calls: int, method: str, target: float | None) -> Figure:
    """A sparse solve under jit over a callback that factors and solves by SuperLU."""
    a, (b, c) = tridiagonal(n), systems.vectors(n)
    callback = jax_by_hand.callback(by_hand.Pattern(a))
    A = ldiv.csc_array((jnp.asarray(a.data), a.indices, a.indptr), shape=a.shape)
    ours = jax.jit(
        jax.value_and_grad(
            lambda v, b: jnp.sum(c * ldiv.solve(A.with_data(v), b, method=method)), argnums=(0, 1)
        )
    )
    hand = jax.jit(lambda v, b: callback.bind(v, b, c))
    contenders = {
        "ldiv": repeated(lambda v: jax.block_until_ready(ours(v, b))),
        "callback": repeated(lambda v: jax.block_until_ready(hand(v, b))),
    }
    seconds = side_by_side(contenders, inputs(lambda s: jnp.asarray(a.data * s), calls), rounds)
    return compare(seconds, named(f"jit, tridiagonal, n = {n}", method), "ldiv", "callback", target)


def overheads(rounds: int, calls: int) -> list[Figure]:
    """Microseconds at 4 x 4 beyond the framework's own operations, no gradient; and what an
    empty Function takes here.
    """
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(4, 4, generator=generator, dtype=F64) + 4 * torch.eye(4, dtype=F64)
    s = a @ a.T
    l, b = torch.linalg.cholesky(s), torch.randn(4, 1, generator=generator, dtype=F64)

    def empty(x: Any) -> None:
        by_hand.Nothing.apply(x.requires_grad_()).backward(torch.ones_like(x))

    def kl(l1: Any) -> Any:
        m = torch.linalg.solve_triangular(l, l1, upper=False)
        return 0.5 * (m.square().sum() - 4) + l.diagonal().log().sum() - l1.diagonal().log().sum()

    pairs: dict[str, tuple[Any, Any, Any]] = {
        "solve_triangular": (
            lambda x: ldiv.solve_triangular(x, b, lower=True),
            lambda x: torch.linalg.solve_triangular(x, b, upper=False),
            l,
        ),
        "cholesky": (lambda x: ldiv.cholesky(x, lower=True), torch.linalg.cholesky, s),
        "lu_factor": (ldiv.lu_factor, torch.linalg.lu_factor, a),
        "logdet": (
            partial(ldiv.logdet, assume_a="pos"),
            lambda x: 2 * torch.linalg.cholesky(x).diagonal().log().sum(),
            s,
        ),
        "gaussian_kl": (lambda x: ldiv.gaussian_kl(x, l), kl, l),
    }
    nothing = side_by_side(
        {"empty": repeated(empty)}, inputs(lambda scale: l * scale, calls), rounds
    )
    unit = median(nothing["empty"]) / calls * 1e6
    figures = [Figure("an empty Function", "microseconds", unit, "us")]
    for name, (ours, theirs, x) in pairs.items():
        seconds = side_by_side(
            {"ldiv": repeated(ours), "torch": repeated(theirs)},
            inputs(lambda scale, x=x: x * scale, calls),
            rounds,
        )
        extra = median(
            (p - q) / calls * 1e6 for p, q in zip(seconds["ldiv"], seconds["torch"], strict=True)
        )
        figures.append(Figure(f"{name}, 4 x 4", "beyond torch", extra, "us", 12 * unit / EMPTY))
    return figures


def beside_plain_calls(n: int, side: int, rounds: int, calls: int) -> list[Figure]:
    """Calls one step beside the plain one, over that."""
    figures = []
    for rows, few in (
        (plain_calls.dense(n), calls),
        (plain_calls.sparse(side), 5),
        (plain_calls.jitted(side), 5),
    ):
        for problem, name, over, target, ways in rows:
            contenders = {k: repeated(f) for k, f in ways.items()}
            seconds = side_by_side(contenders, inputs(lambda s: s, min(few, calls)), rounds)
            figures.append(compare(seconds, problem, name, over, target))
    return figures


# -- loops --------------------------------------------------------------------


def training(kind: str, steps: int) -> list[Figure]:
    """Steps of a loop that keeps nothing: the late over the early ones, and what is left in
    memory.
    """
    step = LOOPS[kind]()
    for i in range(50):
        step(i)
    gc.collect()
    before, seconds = resident(), []
    for i in range(steps):
        start = perf_counter()
        step(i)
        seconds.append(perf_counter() - start)
    tenth = steps // 10
    gc.collect()
    drift = median(seconds[-tenth:]) / median(seconds[:tenth])
    return [
        Figure(
            f"{kind}, {steps:,} steps",
            "late over early",
            drift,
            "x",
            1.2,
            median(seconds[-tenth:]),
            median(seconds[:tenth]),
        ),
        Figure(
            f"{kind}, {steps:,} steps",
            "memory kept",
            max(resident() - before, 0.001),
            "MB",
            20.0 if "jax" not in kind else None,
        ),
    ]


def resident() -> float:
    """Megabytes."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def torch_loop(n: int) -> Callable[[int], Any]:
    a, b = (
        torch.randn(n, n, dtype=F64) / n**0.5 + 2 * torch.eye(n, dtype=F64),
        torch.randn(n, dtype=F64),
    )

    def step(i: int) -> None:
        x = (a * (1 + i * 1e-6)).requires_grad_()
        ldiv.solve(x, b).sum().backward()

    return step


def torch_sparse_loop() -> Callable[[int], Any]:
    a, (b, c) = tridiagonal(100), map(torch.from_numpy, systems.vectors(100))
    A, values = by_torch.array(a), torch.from_numpy(a.data)
    return lambda i: by_torch.value_and_gradient(A, values * (1 + i * 1e-6), b, c)


def numpy_loop() -> Callable[[int], Any]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 4)) + 4 * np.eye(4), rng.standard_normal(4)
    return lambda i: ldiv.vjp(ldiv.solve, a * (1 + i * 1e-6), b)[1](b)


def jax_loop() -> Callable[[int], Any]:
    a, b = jnp.eye(4) * 3 + 1, jnp.ones(4)
    gradient = jax.grad(lambda a: ldiv.solve(a, b).sum())
    return lambda i: jax.block_until_ready(gradient(a * (1 + i * 1e-6)))


LOOPS: dict[str, Callable[[], Callable[[int], Any]]] = {
    "torch, dense 4 x 4": partial(torch_loop, 4),
    "torch, dense 100 x 100": partial(torch_loop, 100),
    "torch, tridiagonal, n = 100": torch_sparse_loop,
    "numpy, dense 4 x 4": numpy_loop,
    "jax eager, dense 4 x 4": jax_loop,
}


def main() -> None:
    options = arguments(__doc__ or "")
    quick = options.quick
    rounds, calls = (2, 2) if quick else (15, 40)
    figures = [
        *(sparse(100, rounds, calls, *engine) for engine in (("auto", 1.25), ("superlu", 1.8))),
        *(sparse(1000, rounds, calls, *engine) for engine in (("auto", 1.1), ("superlu", 1.3))),
        dense((4, 4), rounds, calls, 1.15),
        dense((16, 16), rounds, calls, 1.3),
        dense((64, 64), rounds, calls, 1.1),
        dense((1000, 8, 8), rounds, 2 if quick else 5, 1.1),
        *(determinant_or_factor("cholesky", n, rounds, calls, 1.5) for n in (4, 16, 64)),
        *(determinant_or_factor("slogdet", n, rounds, calls, 1.4) for n in (4, 16, 64)),
        numpy_dense(4, rounds, calls, 4, False),
        numpy_dense(16, rounds, calls, 3, True),
        numpy_dense(64, rounds, calls, 1.4, True),
        dense_jit((1000, 8, 8), rounds, 2 if quick else 5, 1.3),
        *(
            sparse_batch(4 if quick else 256, 50 if quick else 500, rounds, *engine)
            for engine in (("auto", 1.0), ("superlu", 1.2))
        ),
        *(factorized(1000, rounds, calls, *engine) for engine in (("auto", 1.4), ("superlu", 1.5))),
        *(
            jit_callback(100, rounds, calls, *engine)
            for engine in (("auto", 1.5), ("superlu", 1.5))
        ),
        *overheads(rounds, calls),
        *beside_plain_calls(24, 8 if quick else 40, rounds, calls),
    ]
    for kind in LOOPS:
        figures += training(
            kind, 20 if quick else 1000 if "jax" in kind else 10_000 if " 4 " in kind else 2000
        )
    report("calls", figures, options)


if __name__ == "__main__":
    main()
