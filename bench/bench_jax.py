"""Value and gradient under jit against the other solvers of JAX, and against ldiv's own front end
for PyTorch; small systems, one after another and many at a time under `vmap`, which are compiled calls
here, beside the same made by hand with SciPy's SuperLU.

Every side solves the same problems, compiled, in float64, with new values in every round;
compilation is not counted. One figure is what a solve under jit costs more than the same solve
through NumPy, at n = 100. Of other packages, only those that are installed take part: `peers/of_jax.py`
says how to make an environment for them.

    python bench/bench_jax.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable, Collection, Mapping
from statistics import median
from typing import Any

from peers import by_torch
import jax
import numpy as np
from peers import of_jax
from problems import systems
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

LDIV, TORCH, SUPERLU = "ldiv in jax", "ldiv in torch", "SuperLU by hand"
SMALL = ("sparsax KLU", "klujax")
# for the large problems: klujax took 52 s for a call at n = 250,000
TOO_SLOW = {"klujax", "lineax CG"}
DIRECT_LU = {"jax spsolve", "sparsax KLU", "klujax", "solvax"}  # the same class of engine as ldiv's


def solver(a: Any) -> of_jax.Solve:
    """ldiv's; columns serve as rows, like for the others."""
    return lambda values, b: ldiv.solve(
        ldiv.csr_array((values, a.indices, a.indptr), shape=a.shape), b, method="superlu"
    )


def step(solve: of_jax.Solve, b: Any, c: Any) -> Callable[[Any], Any]:
    """values -> (x, gradient of c . x in the values and in b), compiled."""

    @jax.jit
    def run(values: Any, b: Any, c: Any) -> Any:
        x, pull = jax.vjp(solve, values, b)
        return x, *pull(c)

    given = jax.numpy.asarray(b), jax.numpy.asarray(c)
    return lambda values: jax.block_until_ready(run(values, *given))


def against(sides: tuple[int, ...], rounds: int, without: Collection[str] = ()) -> list[Figure]:
    """ldiv in torch within 5 %, and none of the same class faster."""
    a, (b, c) = systems.poisson(*sides), systems.vectors(int(np.prod(sides)))
    A, b_torch, c_torch = by_torch.array(a), torch.from_numpy(b), torch.from_numpy(c)
    solvers = {LDIV: solver(a)} | of_jax.installed(a)
    steps = {name: step(solve, b, c) for name, solve in solvers.items() if name not in without}
    found = {name: run(jax.numpy.asarray(a.data)) for name, run in steps.items()}
    for name in found:
        _agree(name, found[LDIV], found[name])

    def fresh(i: int) -> Any:
        values = a.data * (1 + (i + 1) / 1000)
        return jax.numpy.asarray(values), torch.from_numpy(values)

    contenders = {name: lambda new, run=run: run(new[0]) for name, run in steps.items()}
    contenders[TORCH] = lambda new: by_torch.value_and_gradient(A, new[1], b_torch, c_torch)
    ldiv.clear_cache()
    seconds = side_by_side(contenders, fresh, rounds)
    # jax and torch: one each, none for an adjoint
    assert ldiv.cache_info().factorizations == rounds + 1 + (rounds + 1)
    targets = {TORCH: 1.05} | dict.fromkeys(DIRECT_LU, 1.0)
    return [
        compare(seconds, systems.title(*sides), LDIV, name, targets.get(name))
        for name in seconds
        if name != LDIV
    ]


def _agree(name: str, ours: Any, theirs: Any) -> None:
    """All compute the same thing. CHOLMOD reads one triangle, whose entries count twice: its
    gradient in the values is another.
    """
    for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if not (i == 1 and "CHOLMOD" in name):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6 * np.abs(x).max(), err_msg=name)


def overhead(sides: tuple[int, ...], rounds: int, calls: int = 50) -> Figure:
    """Microseconds of a solve under jit that are not those of the same solve through NumPy."""
    a, (b, _) = systems.poisson(*sides), systems.vectors(int(np.prod(sides)))
    A = ldiv.csr_array((a.data, a.indices, a.indptr), shape=a.shape)
    compiled, b_jax = jax.jit(solver(a)), jax.numpy.asarray(b)
    np.testing.assert_allclose(
        compiled(jax.numpy.asarray(a.data), b_jax), ldiv.solve(A, b, method="superlu"), rtol=1e-12
    )

    def fresh(i: int) -> Any:
        first, second = (
            [a.data * (1 + (2 * (i * calls + k) + s) / 1000) for k in range(calls)] for s in (1, 2)
        )
        # other values, or one finds the factors of the other
        return first, [jax.numpy.asarray(v) for v in second]

    def by_numpy(new: Any) -> Any:
        return [ldiv.solve(A.with_data(v), b, method="superlu") for v in new[0]][-1]

    def by_jax(new: Any) -> Any:
        return [compiled(v, b_jax).block_until_ready() for v in new[1]][-1]

    ldiv.clear_cache()
    under_jit, through_numpy = "solve, jit", "NumPy"
    seconds = side_by_side({through_numpy: by_numpy, under_jit: by_jax}, fresh, rounds)
    assert ldiv.cache_info().factorizations == 2 * (rounds + 1) * calls
    times, over = (median(seconds[name]) / calls for name in (under_jit, through_numpy))
    extra = (
        median(t - o for t, o in zip(seconds[under_jit], seconds[through_numpy], strict=True))
        / calls
    )
    return Figure(
        systems.title(*sides), f"{under_jit} - {through_numpy}", 1e6 * extra, "us", 250, times, over
    )


def single(
    title: str, a: Any, rounds: int, calls: int, targets: Mapping[str, float]
) -> list[Figure]:
    """A small system, one after another; engines as ldiv chooses them."""
    b, c = systems.vectors(a.shape[0])
    solvers = {LDIV: chosen(a)} | small_ones(a)
    steps = {name: step(solve, b, c) for name, solve in solvers.items()}
    found = {name: run(jax.numpy.asarray(a.data)) for name, run in steps.items()}
    for name in found:
        _agree(name, found[LDIV], found[name])

    def fresh(i: int) -> Any:
        values = [a.data * (1 + (i * calls + k + 1) / 1000) for k in range(calls)]
        return values, [jax.numpy.asarray(v) for v in values]

    contenders: dict[str, Any] = {
        name: lambda new, run=run: [run(v) for v in new[1]] for name, run in steps.items()
    }
    contenders[SUPERLU] = lambda new: [by_hand(a, v, b, c) for v in new[0]]
    seconds = side_by_side(contenders, fresh, rounds)
    return [
        compare(seconds, f"{title}, {calls} calls", LDIV, name, targets.get(name))
        for name in seconds
        if name != LDIV
    ]


def tridiagonal(n: int, rounds: int, calls: int) -> list[Figure]:
    target = {10: 1.2, 100: 1.1, 1000: 1.0}.get(n, 1.2)
    a = systems.poisson(n)
    return single(f"tridiagonal, n = {n:,}", a, rounds, calls, {"sparsax KLU": target})


def unsymmetric(rounds: int, calls: int, *sizes: int) -> list[Figure]:
    """Circuits, and a Newton matrix of chemistry; the best of the others is not faster."""
    problems = [(f"circuit, n = {n:,}", systems.circuit(n)) for n in sizes]
    problems.append(("chemistry, n = 60", systems.chemistry(60)))
    found = []
    for title, a in problems:
        some = max(calls // 10, calls * 100 // a.shape[0])
        found += single(title, systems.by_rows(a), rounds, some, dict.fromkeys(SMALL, 1.0))
    return found


def batch(n: int, count: int, rounds: int) -> list[Figure]:
    """Value and gradient of so many tridiagonal systems at once, over the same of others, and over
    a loop of SuperLU by hand.
    """
    a, (b, c) = systems.poisson(n), systems.vectors(n)
    steps = {
        name: jax.jit(jax.vmap(lambda v, b, c, f=f: jax.vjp(f, v, b)[1](c), (0, None, None)))
        for name, f in ({LDIV: chosen(a)} | small_ones(a)).items()
    }

    def fresh(i: int) -> Any:
        values = a.data * (1 + (np.arange(count)[:, None] + i * count + 1) / 1e5)
        return values, jax.numpy.asarray(values)

    def one_by_one(new: Any) -> Any:
        return [by_hand(a, v, b, c)[1] for v in new[0]]

    contenders: dict[str, Any] = {
        name: lambda new, run=run: jax.block_until_ready(run(new[1], b, c))
        for name, run in steps.items()
    }
    for run in contenders.values():
        np.testing.assert_allclose(run(fresh(0))[0], one_by_one(fresh(0)), rtol=1e-6)
    seconds = side_by_side(contenders | {SUPERLU: one_by_one}, fresh, rounds)
    title = f"{count:,} tridiagonal, n = {n:,}, vmap(grad)"
    targets = {SUPERLU: 0.35, "klujax": 0.9}
    return [
        compare(seconds, title, LDIV, name, targets.get(name)) for name in seconds if name != LDIV
    ]


def small_ones(a: Any) -> dict[str, of_jax.Solve]:
    return {name: solve for name, solve in of_jax.installed(a).items() if name in SMALL}


def chosen(a: Any) -> of_jax.Solve:
    return lambda values, b: ldiv.solve(
        ldiv.csr_array((values, a.indices, a.indptr), shape=a.shape), b
    )


def by_hand(a: Any, values: Any, b: Any, c: Any) -> Any:
    """x, and the cotangents of the values and of b, of a symmetric pattern by rows."""
    lu = splu(csc_array((values, a.indices, a.indptr), shape=a.shape).T.tocsc())
    x, lam = lu.solve(b), lu.solve(c, "T")
    rows = np.repeat(np.arange(len(b)), np.diff(a.indptr))
    return x, -lam[rows] * x[a.indices], lam


def main() -> None:
    options = arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    if options.quick:
        figures = [*against((20, 20), 2), *against((6, 6, 6), 2), overhead((10, 10), 3, 10)]
        figures += [*tridiagonal(10, 2, 3), *unsymmetric(2, 1, 50), *batch(20, 4, 2)]
    else:
        figures = [overhead((10, 10), 30), *against((100, 100), 7), *against((16, 16, 16), 7)]
        figures += [f for n in (10, 100, 1000) for f in tridiagonal(n, 15, 50)]
        figures += unsymmetric(15, 50, 200, 5000)
        figures += [f for n, k in ((100, 256), (500, 256), (100, 1000)) for f in batch(n, k, 7)]
        figures += [*against((500, 500), 2, TOO_SLOW), *against((30, 30, 30), 2, TOO_SLOW)]
    here = [name for name in of_jax.ALL if any(name in f.what for f in figures)]
    report("jax", figures, options, f"Side by side with {', '.join(here)}.")


if __name__ == "__main__":
    main()
