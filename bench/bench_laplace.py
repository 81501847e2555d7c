"""Laplace's approximation of large integrals: value and gradient, beside the factorizations that they cannot do without.

volatility   a stochastic volatility series, a chain; the gradient in three hyperparameters
counts       a Poisson field on a grid; the gradient in two hyperparameters and in the coefficients of the covariates
value        seconds of the processor (one thread) of the log marginal likelihood, the first time (coloring, index sets and symbolic
             analysis included) and again
gradient     of all parameters
over         value and gradient, again, over one factorization for each step and two more, and one selected inverse: what is
             beyond them is the function and its derivatives
evaluations  calls of the function for a value with its gradient, and the seconds of all of them, without the reverse passes

python bench/bench_laplace.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import math
import resource
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, report

import ldiv

torch.set_num_threads(1)


class Problem(NamedTuple):
    """-log p(y, x | p), the places of its Hessian, and p."""

    title: str
    n: int
    joint: Callable[[Any, Any], Any]
    pattern: tuple[Any, Any]
    at: tuple[Any, ...]


def tensor(x: Any) -> Any:
    return torch.as_tensor(x, dtype=torch.float64)


def volatility(n: int) -> Problem:
    random, h = np.random.default_rng(0), np.zeros(n)
    for t in range(1, n):
        h[t] = 0.96 * h[t - 1] + 0.3 * random.standard_normal()
    returns = tensor(np.exp(h / 2) * random.standard_normal(n))

    def joint(h: Any, p: Any) -> Any:
        m, phi, sigma = p[0][0], torch.tanh(p[0][1]), p[0][2].exp()
        steps = (h[1:] - m) - phi * (h[:-1] - m)
        first = (1 - phi**2) * (h[0] - m) ** 2
        prior = ((steps**2).sum() + first) / (2 * sigma**2) + n * sigma.log()
        return prior - (1 - phi**2).log() / 2 + (h + returns**2 * torch.exp(-h)).sum() / 2

    i = np.arange(n - 1)
    pattern = np.concatenate([i, i + 1]), np.concatenate([i + 1, i])
    at = (tensor([0.0, math.atanh(0.96), math.log(0.3)]),)
    return Problem(f"volatility, n = {n:,}", n, joint, pattern, at)


def counts(side: int, covariates: int) -> Problem:
    n, random = side**2, np.random.default_rng(0)
    line = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    W = sp.kronsum(line, line).tocoo()
    i, j = (torch.from_numpy(x[W.row < W.col].astype(np.int64)) for x in (W.row, W.col))
    X = tensor(random.standard_normal((n, covariates)) / math.sqrt(covariates))
    y = tensor(random.poisson(np.exp(1 + 0.3 * random.standard_normal(n))))

    def joint(x: Any, p: Any) -> Any:
        (scale, level), beta = p[0].exp(), p[1]
        eta = 1 + x + X @ beta
        prior = scale * (((x[i] - x[j]) ** 2).sum() + level * (x**2).sum()) / 2
        return (eta.exp() - y * eta).sum() + prior

    at = tensor([1.0, 0.0]), torch.zeros(covariates, dtype=torch.float64)
    title = f"counts, n = {n:,}, {covariates:,} covariates"
    return Problem(title, n, joint, (W.row, W.col), at)


def figures(problem: Problem) -> list[Figure]:
    seconds: list[tuple[float, float]] = []
    calls: list[float] = []

    def timed(x: Any, p: Any) -> Any:
        start = time.process_time()
        value = problem.joint(x, p)
        calls.append(time.process_time() - start)
        return value

    ldiv.clear_cache()
    for scale in (1.0, 1.01, 1.02, 1.03):
        p = tuple((scale * x).requires_grad_() for x in problem.at)
        calls.clear()
        start = time.process_time()
        x0 = torch.zeros(problem.n, dtype=torch.float64)
        found = ldiv.laplace(timed, x0, p, pattern=problem.pattern, info=True)
        between = time.process_time()
        torch.autograd.grad(found.value, p)
        seconds.append((between - start, time.process_time() - between))
    steps = len(found.info.costs) - 1
    once, entries = pieces(found.factor.matrix)
    least = (steps + 2) * once + entries
    value, gradient = (median(times) for times in zip(*seconds[1:], strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        Figure(problem.title, "value, first", seconds[0][0], "s"),
        Figure(problem.title, "value, again", value, "s"),
        Figure(problem.title, "gradient, again", gradient, "s"),
        Figure(problem.title, "steps", steps, ""),
        Figure(problem.title, "evaluations", len(calls), ""),
        Figure(problem.title, "in evaluations", sum(calls), "s"),
        Figure(
            problem.title,
            "value + gradient / factorizations",
            (value + gradient) / least,
            "x",
            1.3,
            value + gradient,
            least,
        ),
        Figure(problem.title, "memory", peak, "GiB"),
    ]


def pieces(H: ldiv.SparseArray) -> tuple[float, float]:
    """Seconds of a factorization, and of the selected inverse beyond it."""
    data, factored, inverted = H.data.detach(), [], []
    for i in range(5):
        for times, f in ((factored, ldiv.logdet), (inverted, ldiv.selected_inverse)):
            A = H.with_data(data * (1 + 1e-6 * len(factored) + 1e-9 * i))
            start = time.process_time()
            f(A, assume_a="pos")
            times.append(time.process_time() - start)
    return median(factored), max(median(inverted) - median(factored), 0.0)


def main() -> None:
    options = arguments(__doc__)
    quick = options.quick
    problems = volatility(1_000 if quick else 100_000), counts(20 if quick else 200, 1_000)
    report("laplace", [figure for problem in problems for figure in figures(problem)], options)


if __name__ == "__main__":
    main()
