"""Compare this ldiv with another version, call by call: each in a process of its own, taking turns.

Seconds of the processor for a call with new values, the least of the rounds: what else the machine
does makes a turn longer, never shorter. Small calls that are nearly all Python are to be 15 % faster
than they were, and nothing slower.

python bench/bench_versions.py --old CHECKOUT/src [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, report
from problems import systems

import ldiv

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)

Step = Callable[[float], Any]  # one call; its values are multiples of the first ones
SMALL, OTHERS = 0.85, 1.0
ENOUGH = 0.01  # seconds of a turn, at least


# -- the calls ------------------------------------------------------------------------------------


def dense(*shape: int) -> tuple[Any, Any]:
    rng, n = np.random.default_rng(0), shape[-1]
    return rng.standard_normal(shape) + 2 * n**0.5 * np.eye(n), rng.standard_normal(
        (*shape[:-1], 1)
    )


def of_numpy(f: Any, shape: tuple[int, ...]) -> Step:
    a, b = dense(*shape)
    return lambda s: f(a * s, b)


def gradient_of_numpy(shape: tuple[int, ...]) -> Step:
    a, b = dense(*shape)
    return lambda s: ldiv.vjp(ldiv.solve, a * s, b)[1](b)


def by_torch(f: Any, *arrays: Any) -> Step:
    """Value and gradient of the sum."""
    given = [torch.from_numpy(np.asarray(x)) for x in arrays]

    def step(s: float) -> Any:
        xs = [given[0] * s, *given[1:]]
        for x in xs:
            x.requires_grad_()
        y = f(*xs)
        return torch.autograd.grad(y.sum(), xs)

    return step


def by_jax(f: Any, *arrays: Any) -> Step:
    first, *rest = map(jnp.asarray, arrays)
    gradient = jax.jit(jax.grad(lambda *xs: jnp.sum(f(*xs)), argnums=tuple(range(len(arrays)))))
    return lambda s: jax.block_until_ready(gradient(first * s, *rest))


def sparse(by: Any, f: Any, a: Any, *rest: Any) -> Step:
    """f(A, ...) of a matrix in compressed columns."""

    def of_values(v: Any, *others: Any) -> Any:
        return f(ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape), *others)

    return by(of_values, a.data, *rest)  # type: ignore[no-any-return]


def sparse_numpy(n: int, gradient: bool) -> Step:
    a, b = tridiagonal(n), np.ones(n)
    A = ldiv.csc_array((a.data, a.indices, a.indptr), shape=a.shape)
    if gradient:
        return lambda s: ldiv.vjp(ldiv.solve, A.with_data(a.data * s), b)[1](b)
    return lambda s: ldiv.solve(A.with_data(a.data * s), b)


def positive(n: int) -> Any:
    a, _ = dense(n, n)
    return a @ a.T


def tridiagonal(n: int) -> Any:
    a = sp.csc_array(sp.diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)))
    a.sort_indices()
    return a


def held(n: int) -> Step:
    A, b = ldiv.asarray(tridiagonal(n)), np.ones(n)
    F = ldiv.factorized(A)
    return lambda s: F.solve(b * s)


def poisson(*sides: int) -> Any:
    return systems.make("poisson", *sides).a


def ones(n: int) -> Any:
    return np.ones(n)


def in_2d(method: str, assume_a: str = "gen", side: int = 100) -> Step:
    solve = partial(ldiv.solve, method=method, assume_a=assume_a)
    return sparse(by_torch, solve, poisson(side, side), ones(side**2))


def lowest(A: Any) -> Any:
    return ldiv.eigsh(A, 4, sigma=0, which="LM")[0]


CALLS: dict[str, tuple[float, Callable[[], Step]]] = {
    **{
        f"NumPy, solve {n} x {n}": (SMALL, partial(of_numpy, ldiv.solve, (n, n)))
        for n in (4, 16, 64)
    },
    **{
        f"NumPy, solve and gradient {n} x {n}": (SMALL, partial(gradient_of_numpy, (n, n)))
        for n in (4, 16, 64)
    },
    "NumPy, solve 300 x 300": (OTHERS, partial(of_numpy, ldiv.solve, (300, 300))),
    **{
        f"torch, solve {n} x {n}": (SMALL, lambda n=n: by_torch(ldiv.solve, *dense(n, n)))
        for n in (4, 16, 64)
    },
    **{
        f"torch, solve {n} x {n}": (OTHERS, lambda n=n: by_torch(ldiv.solve, *dense(n, n)))
        for n in (130, 300, 600)
    },
    "torch, solve 1000 x 8 x 8": (OTHERS, lambda: by_torch(ldiv.solve, *dense(1000, 8, 8))),
    **{
        f"torch, {f.__name__} 16 x 16": (SMALL, lambda f=f: by_torch(f, positive(16)))
        for f in (ldiv.cholesky, ldiv.logdet, ldiv.inv)
    },
    **{
        f"torch, {f.__name__} 16 x 16": (OTHERS, lambda f=f: by_torch(f, positive(16)))
        for f in (ldiv.eigvalsh, ldiv.svdvals)
    },
    **{
        f"jit, solve {n} x {n}": (OTHERS, lambda n=n: by_jax(ldiv.solve, *dense(n, n)))
        for n in (4, 64)
    },
    **{
        f"NumPy, tridiagonal, n = {n:,}": (SMALL, partial(sparse_numpy, n, False))
        for n in (10, 100, 1000)
    },
    "NumPy, tridiagonal and gradient, n = 100": (SMALL, partial(sparse_numpy, 100, True)),
    **{
        f"torch, tridiagonal, n = {n:,}": (
            SMALL,
            lambda n=n: sparse(by_torch, ldiv.solve, tridiagonal(n), ones(n)),
        )
        for n in (10, 100, 1000)
    },
    "torch, tridiagonal, n = 10,000": (
        OTHERS,
        lambda: sparse(by_torch, ldiv.solve, tridiagonal(10_000), ones(10_000)),
    ),
    "jit, tridiagonal, n = 100": (
        OTHERS,
        lambda: sparse(by_jax, ldiv.solve, tridiagonal(100), ones(100)),
    ),
    "F.solve, tridiagonal, n = 1,000": (OTHERS, partial(held, 1000)),
    **{
        f"2D, n = 10,000, {method}, {assume_a}": (OTHERS, partial(in_2d, method, assume_a))
        for method, assume_a in (
            ("auto", "gen"),
            ("superlu", "gen"),
            ("pardiso", "gen"),
            ("auto", "pos"),
            ("ldl", "pos"),
            ("cg", "pos"),
        )
    },
    "3D, n = 4,096, auto": (
        OTHERS,
        lambda: sparse(by_torch, ldiv.solve, poisson(16, 16, 16), ones(4096)),
    ),
    "2D, n = 10,000, logdet, pos": (
        OTHERS,
        lambda: sparse(by_torch, partial(ldiv.logdet, assume_a="pos"), poisson(100, 100)),
    ),
    "2D, n = 2,500, eigsh": (OTHERS, lambda: sparse(by_torch, lowest, poisson(50, 50))),
}


# -- turns ----------------------------------------------------------------------------------------


def play() -> None:
    """A version in its process: for each name that it reads it writes seconds, or why it cannot."""
    warnings.simplefilter("ignore")
    gc.freeze()  # what the frameworks hold: else a collection takes longer than a turn
    steps: dict[str, tuple[Step, int]] = {}
    for turn, line in enumerate(sys.stdin, 1):
        name = line.rstrip("\n")
        try:
            if name not in steps:
                steps[name] = _begun(CALLS[name][1]())
            step, calls = steps[name]
            print(_seconds(step, calls, turn), flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)


def _begun(step: Step) -> tuple[Step, int]:
    """Return the step, run three times, and the number of its calls in a turn."""
    for i in range(3):
        step(1 + i * 1e-3)
    return step, 1 + int(ENOUGH / max(_seconds(step, 1, 0), 1e-6))


def _seconds(step: Step, calls: int, turn: int) -> float:
    scales = [1 + 1e-2 * turn + 1e-5 * k for k in range(calls)]
    gc.collect()
    start = process_time()
    for s in scales:
        step(s)
    return (process_time() - start) / calls


# glibc gives the top of its heap back after a call, and takes it again page by page, or does not, as
# the heap of a process happens to lie: at 600 x 600 none or 2,000 page faults in every call, 2.5 of
# 7 ms, of either version, and of `torch.linalg.solve` alone. Here it keeps what it has.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}


class Version:
    """A version that takes part, from its folder of sources."""

    def __init__(self, source: str) -> None:
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--inside"],
            env=os.environ | KEEPING | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turn(self, name: str) -> float:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        print(name, file=process.stdin, flush=True)
        answer = process.stdout.readline()
        try:
            return float(answer)
        except ValueError:
            raise RuntimeError(f"{name}: {answer}") from None

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()


def figures(old: str, rounds: int, calls: list[str]) -> list[Figure]:
    versions = {"this": Version(""), "old": Version(old)}
    found = []
    try:
        for name in calls:
            least = dict.fromkeys(versions, np.inf)
            for i in range(rounds):
                for who in list(versions)[:: 1 if i % 2 else -1]:
                    least[who] = min(least[who], versions[who].turn(name))
            this, before = least["this"], least["old"]
            found.append(
                Figure(name, "this / old", this / before, "x", CALLS[name][0], this, before)
            )
            print(f"{name}: {this / before:.3f}", file=sys.stderr, flush=True)
    finally:
        for version in versions.values():
            version.leave()
    return found


def main() -> None:
    old = sys.argv.pop(sys.argv.index("--old") + 1) if "--old" in sys.argv else ""
    sys.argv = [x for x in sys.argv if x != "--old"]
    options = arguments(__doc__ or "")
    if options.inside:
        play()
    else:
        rounds, calls = (2, list(CALLS)[:3]) if options.quick else (9, list(CALLS))
        report("versions", figures(old, rounds, calls), options)


if __name__ == "__main__":
    main()
