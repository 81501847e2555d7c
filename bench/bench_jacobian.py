"""Sparse Jacobians and Hessians: how many products they take, and the time over dense ones and over
asdex.

products    of the coloring, forward and reverse, and of asdex's on the same pattern; seconds of the coloring, which is done once
torch       ldiv.jacobian on a pattern over torch.func.jacrev
pattern     seconds of ldiv.detect_pattern, verified, once the frameworks are loaded and f is compiled; and of asdex's, which is not
jax         over asdex on the same pattern, both compiled, both colored beforehand; and not compiled. Every Jacobian of ldiv is
            checked by one more product; that is counted

asdex takes part where it is installed: pip install asdex==0.5.1

python bench/bench_jacobian.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from statistics import median
from typing import Any

from problems import fields
import jax
import numpy as np
import torch
from problems.fields import Problem
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv
from ldiv.derivatives.coloring import compression
from ldiv.structures.sparse import Sparse
from ldiv.core.frameworks.pattern import Pattern

OURS, DENSE, PEER = "ldiv", "torch.func.jacrev", "asdex"
HERE = find_spec("asdex") is not None
KINDS = ("Jacobian", "Hessian")
MODES = {"Jacobian": "auto", "Hessian": "symmetric"}  # of the coloring
CALLS, FEW = 20, 5  # at a time


def pattern_of(a: Any) -> Any:
    """The pattern as `detect_pattern` would give it, so that the coloring is kept on it."""
    return ldiv.coo_array((np.ones(a.nnz), a.coords), shape=a.shape)


# -- products -----------------------------------------------------------------


def products(title: str, a: Any, targets: dict[str, int | None]) -> list[Figure]:
    """Count the products of the Jacobian and the Hessian on a symmetric pattern."""
    figures = []
    for kind, target in targets.items():
        seconds, how = _timed(
            lambda kind=kind: compression(Sparse(Pattern(*a.coords, a.shape)), MODES[kind])
        )
        count = how.forward.shape[1] + how.reverse.shape[0]
        over, theirs = _timed(lambda kind=kind: colored(a, kind)) if HERE else (None, None)
        figures.append(Figure(title, f"products, {kind}: {OURS}", count, "", target, seconds))
        if theirs is not None:
            figures.append(
                Figure(title, f"products, {kind}: {PEER}", theirs.num_colors, "", None, over)
            )
    return figures


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def colored(a: Any, kind: str) -> Any:
    """asdex's coloring; it warns of as many products as columns."""
    import asdex

    warnings.simplefilter("ignore", asdex.DenseColoringWarning)
    color = {
        "Jacobian": asdex.jacobian_coloring_from_sparsity,
        "Hessian": asdex.hessian_coloring_from_sparsity,
    }[kind]
    return color(asdex.SparsityPattern.from_coo(*a.coords, a.shape))


# -- patterns -----------------------------------------------------------------


def detection(problem: Problem, rounds: int) -> list[Figure]:
    """Detect the pattern in PyTorch, where the function is for both, in JAX, and by asdex."""
    contenders: dict[str, Callable[[Any], Any]] = {
        "torch": lambda x: ldiv.detect_pattern(problem.f, torch.from_numpy(x)),
        "jax": lambda x: ldiv.detect_pattern(problem.f, jax.numpy.asarray(x)),
    }
    if HERE:
        import asdex

        contenders[PEER] = lambda x: asdex.jacobian_sparsity(problem.f, jax.numpy.asarray(x))
    if problem.title.startswith("triangles"):
        del contenders["torch"]
    seconds = side_by_side(contenders, lambda i: start(problem.n) * (1 + i / 1000), rounds)
    return [
        Figure(
            problem.title, f"detect_pattern: {name}", median(s), "s", 0.1 if name != PEER else None
        )
        for name, s in seconds.items()
    ]


# -- times --------------------------------------------------------------------


def over_dense(problem: Problem, rounds: int) -> Figure:
    """PyTorch."""
    pattern, x = pattern_of(problem.pattern), torch.from_numpy(start(problem.n))
    contenders: dict[str, Callable[[Any], Any]] = {
        OURS: lambda x: ldiv.jacobian(problem.f, x, pattern=pattern),
        DENSE: torch.func.jacrev(problem.f),
    }
    found = contenders[OURS](x)
    torch.testing.assert_close(found.toarray(), contenders[DENSE](x))
    return compare(
        side_by_side(contenders, lambda i: x * (1 + i / 1000), rounds),
        problem.title,
        OURS,
        DENSE,
        0.02,
    )


def start(n: int) -> Any:
    return np.random.default_rng(n).standard_normal(n)


def over_asdex(problem: Problem, kind: str, rounds: int, calls: int) -> list[Figure]:
    """JAX, compiled; and not, where `calls` are many, that is for small problems."""
    ours, theirs = by_ldiv(problem, kind), by_asdex(problem, kind)
    x = jax.numpy.asarray(start(problem.n))
    compiled = {OURS: jax.jit(ours), PEER: jax.jit(theirs)}
    _agree(*(run(x) for run in compiled.values()))
    figures = [_turns(f"{kind}, jit", problem, compiled, rounds, calls, 1.0)]
    return figures + (
        [_turns(f"{kind}, not compiled", problem, {OURS: ours, PEER: theirs}, rounds, 1, None)]
        if calls > FEW
        else []
    )


def _turns(
    what: str,
    problem: Problem,
    contenders: Mapping[str, Callable[[Any], Any]],
    rounds: int,
    calls: int,
    target: float | None,
) -> Figure:
    """Seconds of one of several calls: one takes less than the clock and the machine disturb."""
    repeated = {
        name: lambda xs, run=run: [jax.block_until_ready(run(x)) for x in xs][-1]
        for name, run in contenders.items()
    }
    x = start(problem.n)
    seconds = side_by_side(
        repeated,
        lambda i: [jax.numpy.asarray(x * (1 + (i * calls + k) / 1000)) for k in range(calls)],
        rounds,
    )
    each = {name: [s / calls for s in turns] for name, turns in seconds.items()}
    figure = compare(each, problem.title, OURS, PEER, target)
    return replace(figure, what=f"{what}: {figure.what}")


def by_ldiv(problem: Problem, kind: str) -> Callable[[Any], Any]:
    """x -> the values on the pattern."""
    pattern = pattern_of(problem.pattern)
    if kind == "Hessian":
        return lambda x: ldiv.hessian(problem.energy, x, pattern=pattern).data
    return lambda x: ldiv.jacobian(problem.f, x, pattern=pattern).data


def by_asdex(problem: Problem, kind: str) -> Callable[[Any], Any]:
    import asdex

    coloring = colored(problem.pattern, kind)
    if kind == "Hessian":
        matrix = asdex.hessian_from_coloring(problem.energy, coloring)
    else:
        matrix = asdex.jacobian_from_coloring(problem.f, coloring)
    return lambda x: matrix(x).data


def _agree(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10 * float(abs(ours).max()))


# ----------------------------------------------------------------------------------------------------------------------------------------


def all_products(n: int, side: int) -> list[Figure]:
    if HERE:
        for kind in KINDS:
            colored(fields.line(9), kind)  # compiles it
    even, scattered = (
        fields.mesh(points, "").pattern for points in (fields.even(side), fields.scattered(side**2))
    )
    fullest = f"triangles of random points, up to {np.bincount(scattered.row).max()} in a row"
    found: list[tuple[str, Any, list[int | None]]] = [
        ("tridiagonal", fields.line(n), [3, 3]),
        ("five-point stencil", fields.stencil(side), [7, 7]),
        ("triangles", even, [10, 10]),
        (fullest, scattered, [None, None]),
        ("arrow", fields.arrow(400), [4, 4]),
    ]
    return [
        figure
        for title, a, targets in found
        for figure in products(
            f"{title}, n = {a.shape[0]:,}", a, dict(zip(KINDS, targets, strict=True))
        )
    ]


def problems(side: int) -> list[Problem]:
    return [fields.chain(side**2), fields.grid(side), fields.mesh(fields.even(side), "triangles")]


def main() -> None:
    options = arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    n, side, rounds, calls = (50, 8, 2, FEW) if options.quick else (5000, 71, 7, CALLS)
    figures = all_products(n, side)
    figures += [
        over_dense(problem, 2 if options.quick else 3)
        for problem in (fields.chain(n), fields.grid(side))
    ]
    figures += [
        f
        for problem in problems(side if options.quick else 100)
        for f in detection(problem, rounds)
    ]
    sizes = [(side, calls)] if options.quick else [(side, calls), (224, FEW)]
    if HERE:
        figures += [
            f
            for side, calls in sizes
            for problem in problems(side)
            for kind in KINDS
            for f in over_asdex(problem, kind, rounds, calls)
        ]
    report("jacobian", figures, options, "" if HERE else "asdex: not installed.")


if __name__ == "__main__":
    main()
