"""Cliffs, where the cost of a step could jump: programs of JAX that differ from a quick one in a
detail.

hang         runs of a program with independent batches of dense solves, on two threads, each in at most a minute
turns        two patterns, and two engines on one pattern, solved in turn, over the sum of each alone, of the processor;
             how often a warning tells that an analysis was dropped
analyses     the memory that the process keeps of a pattern, over that of its matrix
selected     the selected inverse over the Cholesky factorization, in seconds of the processor: backward and forward
             pass of a determinant
loop         a step under jit with new values, over one with the same values, whose factor is found; the memory of a process
             that makes 200 steps, over one with two raw factors, of SuperLU called by hand
first call   seconds of the processor, of all threads, with compilation, in a process of its own: gradients of `root`, of a
             batch of roots, `detect_pattern`
singular     a ring whose null space is given, over the same one without a row and column by hand
batch        gradients of 64 roots by vmap over those by lax.map, both compiled
systems      1,000 of one pattern, n = 100, vmap(grad): analyses, entries that stay in the cache
pairs        10 eigenpairs of a Laplacian next to 0 and their gradient, the loss a sum of eigenvalues and of squares with
             random weights, over SciPy's `eigsh` alone with the same engine
columns      of a sparse product and a solve with 50 columns, compiled, with the gradient in values and columns: over JAX's own
             BCOO, and over PyTorch not compiled
eager        a sparse solve and its gradient in JAX, not compiled, over PyTorch
Jacobian     `bench_jacobian.py`

python bench/bench_cliffs.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import gc
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Any

import bench_eigen
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side
from jax.experimental.sparse import BCOO
from problems.systems import circuit
from scipy.sparse.linalg import LinearOperator, eigsh, splu

import ldiv
from ldiv.engines.libraries import mkl_pardiso

jax.config.update("jax_enable_x64", True)


# -- matrices -----------------------------------------------------------------


def loss(a: Any, values: Any, b: Any) -> Any:
    matrix = ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape)
    return (ldiv.solve(matrix, b) ** 2).sum()


def bump(x: Any, p: Any) -> Any:
    return x**3 + x - p + 0.1 * jnp.roll(x, 1)


def root_loss(p: Any) -> Any:
    return (ldiv.root(bump, 0 * p, p) ** 2).sum()


def laplacian(*shape: int) -> Any:
    """The sum of the second differences along all axes."""
    lines = [
        sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m), format="csr")
        for m in shape
    ]
    a = lines[0]
    for line in lines[1:]:
        a = sp.kron(a, sp.eye_array(line.shape[0])) + sp.kron(sp.eye_array(a.shape[0]), line)
    return sp.csc_array(a)


# -- two problems in turn -----------------------------------------------------


def turns(n: int, rounds: int) -> list[Figure]:
    """Two patterns: the same ring with other connections. Two engines on one that is symmetric."""
    patterns = [sp.csc_array(circuit(n) + sp.eye_array(n, k=k)) for k in (40, 50)]
    both_ways = sp.csc_array(patterns[0] + patterns[0].T)
    engines = ("pardiso", "ldl") if mkl_pardiso.path() is not None else ("superlu", "ldl")
    pairs = {
        "two patterns": [(a, {}) for a in patterns],
        f"{', '.join(engines)} on one": [
            (both_ways, {"method": engine, "assume_a": "sym"}) for engine in engines
        ],
    }
    figures = []
    for what, pair in pairs.items():
        alone = sum(_turn(n, rounds, [one])[0] for one in pair)
        seconds, told = _turn(n, rounds, pair)
        title = f"{what}, n = {n:,}, in turn"
        figures += [
            Figure(title, "over each alone", seconds / alone, "x", 1.1),
            Figure(title, "warnings of a dropped analysis", told, "", 0),
        ]
    return figures


def _turn(n: int, rounds: int, problems: list[tuple[Any, Any]]) -> tuple[float, int]:
    """Seconds of the quickest round after the one that analyses, and the warnings of all."""
    ldiv.clear_cache()
    each = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(rounds + 1):
            start = process_time()
            for a, options in problems:
                values = a.data * (1 + i / 1e3)
                A = ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape)
                ldiv.solve(A, np.ones(n), **options)
            each.append(process_time() - start)
    return min(each[1:]), sum("is repeated" in str(w.message) for w in told)


def analyses(n: str) -> float:
    """Resident memory that stays after patterns of a process's own, over that of their matrices."""
    count, each = 8, []
    for k in range(2 * count):
        a = sp.csc_array(circuit(int(n)) + sp.eye_array(int(n), k=40 + k))
        ldiv.solve(ldiv.csc_array((a.data, a.indices, a.indptr), shape=a.shape), np.ones(int(n)))
        each.append(_resident())
    matrix = a.data.nbytes + a.indices.nbytes + a.indptr.nbytes
    return (each[-1] - each[count - 1]) / count / matrix


def _resident() -> int:
    """Bytes, after what waits to be freed is."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def selected(side: int, rounds: int, target: float | None) -> Figure:
    a = laplacian(side, side, side)
    forward, backward = [], []
    for i in range(rounds + 1):
        values = torch.from_numpy(a.data * (1 + i / 1e3)).requires_grad_()
        A = ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape)
        start = process_time()
        logdet = ldiv.logdet(A, assume_a="pos")
        middle = process_time()
        torch.autograd.grad(logdet, values)
        forward.append(middle - start)
        backward.append(process_time() - middle)
    title = f"3D Poisson, n = {a.shape[0]:,}"
    ratio = min(backward[1:]) / min(forward[1:])
    return Figure(title, "selected inverse over its Cholesky", ratio, "x", target)


# -- eigenpairs ---------------------------------------------------------------


def pairs(shape: tuple[int, ...], target: float | None, rounds: int) -> Figure:
    a, engine = laplacian(*shape), "pardiso" if mkl_pardiso.path() is not None else "superlu"
    n, rng = a.shape[0], np.random.default_rng(0)
    weights, start = torch.from_numpy(rng.random((n, 10))), rng.random(n)
    factor, values = bench_eigen.FACTORS[engine](a), torch.from_numpy(a.data)

    def scipy(scale: float) -> Any:
        inverse = LinearOperator((n, n), factor(scale), dtype=a.dtype)
        return eigsh(a * scale, 10, sigma=0, OPinv=inverse, v0=start)

    def ours(scale: float) -> Any:
        v = (values * scale).requires_grad_()
        A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
        lam, x = ldiv.eigsh(A, 10, sigma=0)
        return torch.autograd.grad(lam.sum() + (x**2 * weights).sum(), v)

    with bench_eigen.alone(engine):
        seconds = side_by_side(
            {"SciPy alone": scipy, "eigsh + gradient": ours}, lambda i: 1 + i / 1e3, rounds
        )
    title = f"10 pairs, {len(shape)}D, n = {n:,}, {engine}"
    return compare(seconds, title, "eigsh + gradient", "SciPy alone", target)


# -- a step with new values ---------------------------------------------------


def loop(n: int, steps: int) -> list[Figure]:
    a, title = circuit(n), f"circuit, n = {n:,}, jit, value and gradient"
    step, b = jax.jit(jax.value_and_grad(partial(loss, a))), jnp.ones(n)
    values = jnp.asarray(a.data)
    contenders = {
        "new values": lambda v: jax.block_until_ready(step(v, b)),
        "the same": lambda v: jax.block_until_ready(step(values, b)),
    }
    seconds = side_by_side(contenders, lambda i: jax.block_until_ready(values * (1 + i / 1e4)), 40)
    peak = {who: float(_apart(f"memory {who} {n} {steps}")) for who in ("ldiv", "raw")}
    over = f"memory of {steps} steps / of two raw factors"
    figure = Figure(title, over, peak["ldiv"] / peak["raw"], "x", 1.3)
    return [
        Figure(title, "a step", median(seconds["new values"]) * 1e3, "ms", 1.8),
        compare(seconds, title, "new values", "the same"),
        figure,
    ]


def memory(who: str, n: str, steps: str) -> float:
    """The most that the process of a loop takes, megabytes."""
    a, b = circuit(int(n)), np.ones(int(n))
    if who == "raw":
        run = _raw_steps(a, b)
    else:
        compiled = jax.jit(jax.value_and_grad(partial(loss, a)))
        run = lambda v: jax.block_until_ready(compiled(jnp.asarray(v), jnp.asarray(b)))
    run(a.data)
    for k in range(int(steps)):
        run(a.data * (1 + k / 1e4))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _raw_steps(a: Any, b: Any) -> Callable[[Any], Any]:
    kept = []

    def step(values: Any) -> Any:
        kept[:] = [*kept[-1:], splu(sp.csc_array((values, a.indices, a.indptr), shape=a.shape))]
        x = kept[-1].solve(b)
        return kept[-1].solve(2 * x, "T")

    return step


# -- a null space that is given ----------------------------------------------------


def singular(n: int, rounds: int) -> Figure:
    ring = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    ring[0, -1] = ring[-1, 0] = -1.0
    a, b, one = sp.csc_array(ring), np.sin(np.arange(n)), np.ones(n)
    b -= b.mean()
    rest = a[1:, 1:]
    contenders = {
        "null_space": lambda t: ldiv.solve(t * a, b, null_space=one),
        "by hand": lambda t: ldiv.solve(t * rest, b[1:]),
    }
    seconds = side_by_side(contenders, lambda i: 1 + i / 1e3, rounds)
    return compare(seconds, f"ring, n = {n:,}, singular", "null_space", "by hand")


# -- first calls, each in a process of its own ---------------------------------


def _apart(task: str, timeout: float = 600) -> str:
    """Run this file for a task in a process of its own, and return its last word."""
    command = [sys.executable, __file__, "--task", *task.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout)
    return done.stdout.split()[-1]


def first(work: Callable[[], Any]) -> float:
    jax.block_until_ready(jnp.ones(3) + 1)  # the framework is loaded
    start = process_time()
    jax.block_until_ready(work())
    return process_time() - start


def root(n: str) -> float:
    p = jnp.ones(int(n))
    return first(lambda: jax.jit(jax.grad(root_loss))(p))


def roots(how: str, members: str, n: str) -> float:
    p = _parameters(int(members), int(n))
    return first(lambda: _batched(how)(p))


def detect(side: str) -> float:
    side_ = int(side)

    def f(x: Any) -> Any:
        u = x.reshape(side_, side_)
        p = jnp.pad(u, 1)
        near = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
        return (4 * u - near - jnp.exp(u)).ravel()

    x = jnp.asarray(np.random.default_rng(0).random(side_**2))
    return first(lambda: ldiv.detect_pattern(f, x).data)


def hang(runs: str) -> float:
    """Seconds of runs of independent chains of batches."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 16, 40, 40))
    a = jnp.asarray(a @ np.swapaxes(a, -1, -2) + 40 * np.eye(40))

    @jax.jit
    def chains(bs: Any) -> Any:
        for _ in range(2):
            bs = [40 * ldiv.solve(a, b) for b in bs]
        return bs

    start = perf_counter()
    for _ in range(int(runs)):
        jax.block_until_ready(chains([jnp.asarray(b + i) for i in range(4)]))
    return perf_counter() - start


TASKS: dict[str, Callable[..., float]] = {
    task.__name__: task for task in (memory, analyses, root, roots, detect, hang)
}


def first_calls(quick: bool) -> list[Figure]:
    n, members, sides = (20, 8, (20,)) if quick else (500, 64, (100, 1000))
    seconds = lambda task: float(_apart(task))
    return [
        Figure(f"root, n = {n}", "first jitted gradient", seconds(f"root {n}"), "s", 1.0),
        *(
            Figure(
                f"{members} roots, n = 20",
                f"first jitted gradient, {how}",
                seconds(f"roots {how} {members} 20"),
                "s",
                5.0 if how == "vmap" else None,
            )
            for how in ("vmap", "map")
        ),
        *(
            Figure(
                f"five-point stencil, n = {side**2:,}",
                "first detect_pattern",
                seconds(f"detect {side}"),
                "s",
                {100: 0.4, 1000: 3.0}.get(side),
            )
            for side in sides
        ),
    ]


# -- batches ------------------------------------------------------------------


def _parameters(members: int, n: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).random((members, n)) + 1)


def _batched(how: str) -> Callable[[Any], Any]:
    gradient = jax.value_and_grad(root_loss)
    return jax.jit(jax.vmap(gradient) if how == "vmap" else partial(jax.lax.map, gradient))


def batch_of_roots(members: int, rounds: int) -> Figure:
    runs = {how: _batched(how) for how in ("vmap", "map")}
    contenders = {
        f"{how}": lambda p, run=run: jax.block_until_ready(run(p)) for how, run in runs.items()
    }
    p = _parameters(members, 20)
    seconds = side_by_side(contenders, lambda i: p * (1 + i / 100), rounds)
    return compare(seconds, f"{members} roots, n = 20, compiled", "vmap", "map", 1.0)


def systems(members: int, rounds: int) -> list[Figure]:
    a = sp.csc_array(
        sp.diags_array([-1.0, 4.0, -1.2, 0.3], offsets=[-1, 0, 1, 9], shape=(100, 100))
    )
    values = a.data * (1 + 0.1 * np.random.default_rng(0).random((members, a.nnz)))
    title = f"{members} systems, n = 100, vmap(grad)"
    in_jax = jax.jit(jax.vmap(jax.grad(lambda v: loss(a, v, jnp.ones(100)))))
    ones = torch.ones(100, dtype=torch.float64)
    in_torch = torch.func.vmap(torch.func.grad(lambda v: loss(a, v, ones)))
    runs: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "JAX": (jnp.asarray, lambda v: jax.block_until_ready(in_jax(v))),
        "torch": (torch.tensor, in_torch),
    }
    figures = []
    for name, (asarray, run) in runs.items():
        ldiv.clear_cache()
        seconds = side_by_side(
            {name: run}, lambda i, asarray=asarray: asarray(values * (1 + i / 1e3)), rounds
        )
        info = ldiv.cache_info()
        # batches, whose factors are one entry of the store
        kept = info.entries / members
        figures += [
            Figure(title, f"{name}: a member", median(seconds[name]) / members * 1e6, "us"),
            Figure(title, f"{name}: analyses", info.analyses, "", 1),
            Figure(title, f"{name}: batches that stay", kept, "", 2 if name == "JAX" else 0),
        ]
    return figures


# -- not compiled -------------------------------------------------------------


def eager(n: int, rounds: int) -> list[Figure]:
    a = sp.csc_array(sp.diags_array([-1.0, 4.0, -1.2], offsets=[-1, 0, 1], shape=(n, n)))
    title, v, b = f"tridiagonal, n = {n:,}, not compiled", a.data, np.ones(n)
    jb, tb = jnp.asarray(b), torch.from_numpy(b)

    def solved(v: Any, b: Any) -> Any:
        return ldiv.solve(ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape), b)

    def gradient(v: Any) -> Any:
        v = v.requires_grad_()
        return torch.autograd.grad(solved(v, tb).sum(), v)

    by_jax = jax.grad(lambda v: solved(v, jb).sum())
    of_square = jax.grad(lambda v: (v * v).sum())
    pairs: dict[str, dict[str, Callable[[Any], Any]]] = {
        "solve": {
            "JAX": lambda v: jax.block_until_ready(solved(jnp.asarray(v), jb)),
            "PyTorch": lambda v: solved(torch.from_numpy(v), tb),
        },
        "gradient": {
            "JAX": lambda v: jax.block_until_ready(by_jax(jnp.asarray(v))),
            "PyTorch": lambda v: gradient(torch.from_numpy(v)),
            "JAX's own of sum(v * v)": lambda v: jax.block_until_ready(of_square(jnp.asarray(v))),
        },
    }
    figures = []
    for what, contenders in pairs.items():
        seconds = side_by_side(contenders, lambda i: v * (1 + i / 1e3), rounds)
        figures += [
            compare(seconds, f"{title}: {what}", "JAX", other, 2.0 if other == "PyTorch" else None)
            for other in list(contenders)[1:]
        ]
    return figures


def columns(side: int, k: int, rounds: int) -> list[Figure]:
    a, b = (
        sp.csr_array(laplacian(side, side)),
        np.random.default_rng(0).standard_normal((side**2, k)),
    )
    A, rows = ldiv.asarray(a), np.repeat(np.arange(side**2), np.diff(a.indptr))
    places = jnp.asarray(np.stack([rows, a.indices], axis=1))

    def of_jax(f: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        run = jax.jit(jax.grad(lambda v, x: (f(v, x) ** 2).sum(), (0, 1)))
        return lambda v: jax.block_until_ready(run(jnp.asarray(v), jnp.asarray(b)))

    def of_torch(f: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        def run(v: Any) -> Any:
            leaves = [torch.from_numpy(x).requires_grad_() for x in (v, b)]
            return torch.autograd.grad((f(*leaves) ** 2).sum(), leaves)

        return run

    def own(v: Any, x: Any) -> Any:
        return BCOO((v, places), shape=a.shape, indices_sorted=True, unique_indices=True) @ x

    def product(v: Any, x: Any) -> Any:
        return A.with_data(v) @ x

    def solve(v: Any, x: Any) -> Any:
        return ldiv.solve(A.with_data(v), x, assume_a="pos")

    every = {
        "product": {"ldiv": of_jax(product), "BCOO": of_jax(own)},
        "solve": {"ldiv": of_jax(solve), "PyTorch": of_torch(solve)},
    }
    figures = []
    for (what, contenders), goal in zip(every.items(), (1.0, 1.2), strict=True):
        seconds = side_by_side(contenders, lambda i: a.data * (1 + i / 1e6), rounds)
        title = f"2D Poisson, n = {side**2:,}, {k} columns, jit: {what}"
        figures.append(compare(seconds, title, *contenders, goal))
    return figures


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        print(TASKS[sys.argv[2]](*sys.argv[3:]))
        return
    options = arguments(__doc__ or "")
    quick = options.quick
    runs, many = (20, 500) if quick else (200, 20_000)
    figures = [
        Figure(
            "4 chains of batches (16, 40, 40), two threads",
            f"seconds of {runs} runs",
            float(_apart(f"hang {runs}", timeout=60)),
            "s",
            60.0,
        ),
        *turns(2000 if quick else 700_000, 2 if quick else 3),
        Figure(
            f"circuits, n = {many:,}, one pattern after the other",
            "memory that stays of a pattern / of its matrix",
            float(_apart(f"analyses {many}")),
            "x",
        ),
        selected(8 if quick else 39, 2 if quick else 5, None if quick else 1.6),
        *loop(500 if quick else 5000, 20 if quick else 200),
        singular(500 if quick else 40_000, 3 if quick else 21),
        *first_calls(quick),
        batch_of_roots(8 if quick else 64, 3 if quick else 9),
        *systems(20 if quick else 1000, 2 if quick else 5),
        *(
            pairs(shape, None if quick else target, 2 if quick else 5)
            for shape, target in (
                [((12, 15), None)]
                if quick
                else [((95, 105), 2.0), ((295, 305), 1.6), ((27, 28, 29), 1.4)]
            )
        ),
        *columns(20 if quick else 170, 50, 3 if quick else 11),
        *eager(100 if quick else 1000, 5 if quick else 31),
    ]
    report("cliffs", figures, options)


if __name__ == "__main__":
    main()
