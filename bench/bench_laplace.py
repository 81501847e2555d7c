"""Laplace's approximation of large integrals: value and gradient, beside the factorizations that they cannot do without.

volatility   a stochastic volatility series, a chain; the gradient in three hyperparameters
counts       a Poisson field on a grid; the gradient in two hyperparameters and in the coefficients of the covariates
value        seconds of the processor (one thread) of the log marginal likelihood, the first time (coloring, index sets and symbolic
             analysis included) and again
gradient     of all parameters
over         value and gradient, again, over one factorization for each step and two more, and one selected inverse
by hand      the same calculation without checks in plain PyTorch, with ldiv's factors: at as many points f, its gradient, a
             product with its Hessian for each color, the factor and a step; then the determinant and the gradient of all.
             In JAX a jitted function of these derivatives, beside the factorizations of PyTorch
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

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, report

import ldiv

torch.set_num_threads(1)
jax.config.update("jax_enable_x64", True)


class Problem(NamedTuple):
    """-log p(y, x | p) with the functions of a framework, the places of its Hessian, colors of columns that no row
    shares, and p.
    """

    title: str
    n: int
    joint: Callable[[Any, Any, Any], Any]
    pattern: tuple[Any, Any]
    color: Any
    at: tuple[Any, ...]


def volatility(n: int) -> Problem:
    random, h = np.random.default_rng(0), np.zeros(n)
    for t in range(1, n):
        h[t] = 0.96 * h[t - 1] + 0.3 * random.standard_normal()
    returns = of_both(np.exp(h / 2) * random.standard_normal(n))

    def joint(xp: Any, h: Any, p: Any) -> Any:
        m, phi, sigma = p[0][0], xp.tanh(p[0][1]), xp.exp(p[0][2])
        steps = (h[1:] - m) - phi * (h[:-1] - m)
        first = (1 - phi**2) * (h[0] - m) ** 2
        prior = ((steps**2).sum() + first) / (2 * sigma**2) + n * xp.log(sigma)
        return prior - xp.log(1 - phi**2) / 2 + (h + returns[xp] ** 2 * xp.exp(-h)).sum() / 2

    i = np.arange(n - 1)
    pattern = np.concatenate([i, i + 1]), np.concatenate([i + 1, i])
    at = (np.array([0.0, math.atanh(0.96), math.log(0.3)]),)
    return Problem(f"volatility, n = {n:,}", n, joint, pattern, np.arange(n) % 3, at)


def counts(side: int, covariates: int) -> Problem:
    n, random = side**2, np.random.default_rng(0)
    line = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    W = sp.kronsum(line, line).tocoo()
    i, j = (of_both(x[W.row < W.col].astype(np.int64)) for x in (W.row, W.col))
    X = of_both(random.standard_normal((n, covariates)) / math.sqrt(covariates))
    y = of_both(random.poisson(np.exp(1 + 0.3 * random.standard_normal(n))).astype(float))

    def joint(xp: Any, x: Any, p: Any) -> Any:
        (scale, level), beta = xp.exp(p[0]), p[1]
        eta = 1 + x + X[xp] @ beta
        prior = scale * (((x[i[xp]] - x[j[xp]]) ** 2).sum() + level * (x**2).sum()) / 2
        return (xp.exp(eta) - y[xp] * eta).sum() + prior

    at = np.array([1.0, 0.0]), np.zeros(covariates)
    title = f"counts, n = {n:,}, {covariates:,} covariates"
    rows, cols = np.indices((side, side)).reshape(2, -1)
    return Problem(title, n, joint, (W.row, W.col), (rows + 2 * cols) % 5, at)


def of_both(x: Any) -> dict[Any, Any]:
    return {torch: torch.from_numpy(x), jnp: jnp.asarray(x)}


class Measured(NamedTuple):
    figures: list[Figure]
    mode: Any
    points: int
    least: float  # seconds of the factorizations and of the selected inverse


def of_torch(problem: Problem) -> Measured:
    seconds: list[tuple[float, float]] = []
    calls: list[float] = []

    def timed(x: Any, p: Any) -> Any:
        start = time.process_time()
        value = problem.joint(torch, x, p)
        calls.append(time.process_time() - start)
        return value

    ldiv.clear_cache()
    for scale in (1.0, 1.01, 1.02, 1.03):
        p = tuple(torch.from_numpy(scale * x).requires_grad_() for x in problem.at)
        calls.clear()
        start = time.process_time()
        x0 = torch.zeros(problem.n, dtype=torch.float64)
        found = ldiv.laplace(timed, x0, p, pattern=problem.pattern, info=True)
        between = time.process_time()
        gradient = torch.autograd.grad(found.value, p)
        seconds.append((between - start, time.process_time() - between))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    points, mode = len(found.info.costs) + 1, found.mode.detach()
    once, entries = pieces(found.factor.matrix)
    least, floor = points * once + entries, in_torch(problem, found, p, gradient, points)
    value, further = (median(times) for times in zip(*seconds[1:], strict=True))
    whole, title = value + further, problem.title
    figures = [
        Figure(title, "value, first", seconds[0][0], "s"),
        Figure(title, "value, again", value, "s"),
        Figure(title, "gradient, again", further, "s"),
        Figure(title, "steps", points - 2, ""),
        Figure(title, "evaluations", len(calls), ""),
        Figure(title, "in evaluations", sum(calls), "s"),
        Figure(title, "value + gradient / factorizations", whole / least, "x", 1.3, whole, least),
        Figure(title, "value + gradient / by hand", whole / floor, "x", 1.3, whole, floor),
        Figure(title, "memory", peak, "GiB"),
    ]
    return Measured(figures, mode, points, least)


def of_jax(problem: Problem, found: Measured) -> list[Figure]:
    mode = jnp.asarray(found.mode.numpy())
    whole, floor = compiled(problem), found.least + in_jax(problem, mode, found.points)
    what = "value + gradient / factorizations and derivatives by hand, jax.jit"
    return [
        Figure(problem.title, "value + gradient, jax.jit", whole, "s"),
        Figure(problem.title, what, whole / floor, "x", None, whole, floor),
    ]


def in_torch(problem: Problem, found: Any, p: Any, gradient: Any, points: int) -> float:
    """Seconds by hand: the gradient's graph gives the products, one after the other."""
    seeds = torch.from_numpy(np.eye(problem.color.max() + 1)[problem.color].T.copy())
    H, mode, grad = found.factor.matrix, found.mode.detach(), torch.autograd.grad
    rows, cols = H.structure.pattern.places
    index = torch.from_numpy(problem.color[cols] * problem.n + rows)
    fixed = tuple(leaf.detach() for leaf in p)

    def derivatives(x: Any, p: Any, further: bool) -> Any:
        c = problem.joint(torch, x, p)
        (g,) = grad(c, x, create_graph=True)
        products = [grad(g, x, s, retain_graph=True, create_graph=further)[0] for s in seeds]
        return c, g, H.with_data(torch.stack(products).reshape(-1)[index])

    def by_hand() -> None:
        for k in range(1, points):
            _, g, A = derivatives((mode * (1 - 0.3**k)).requires_grad_(), fixed, False)
            ldiv.solve(A, -g.detach(), assume_a="pos")
        x = mode.clone().requires_grad_()
        c, g, A = derivatives(x, p, True)
        F = ldiv.cholesky(A)
        x_bar, *p_bar = grad(-c - F.logdet() / 2, (x, *p), retain_graph=True)
        # dx/dp = -H^-1 dg/dp
        moved = grad(g, p, -F.solve(x_bar))
        for ours, one, other in zip(gradient, p_bar, moved, strict=True):
            torch.testing.assert_close(ours, one + other, rtol=1e-8, atol=1e-8)

    return typical(by_hand)


def in_jax(problem: Problem, x: Any, points: int) -> float:
    seeds = jnp.asarray(np.eye(problem.color.max() + 1)[problem.color].T)

    def products(p: Any) -> Any:
        g = jax.grad(lambda x: problem.joint(jnp, x, p))
        c, (slope, columns) = problem.joint(jnp, x, p), jax.vjp(g, x)
        return c, slope, jax.vmap(columns)(seeds)[0]

    def third(p: Any) -> Any:
        _, slope, columns = products(p)
        return (columns * seeds).sum() + (slope * x).sum()

    p = tuple(map(jnp.asarray, problem.at))
    once, again = jax.jit(products), jax.jit(jax.grad(third))
    seconds = [typical(lambda f=f: jax.block_until_ready(f(p))) for f in (once, again)]
    return points * seconds[0] + seconds[1]


def compiled(problem: Problem) -> float:
    """Seconds of value and gradient in one compiled program, at new parameters."""

    def value(p: Any) -> Any:
        f, x0 = (lambda x, p: problem.joint(jnp, x, p)), jnp.zeros(problem.n)
        return ldiv.laplace(f, x0, p, pattern=problem.pattern).value

    run, scales = jax.jit(jax.value_and_grad(value)), iter((1.0, 1.01, 1.02, 1.03, 1.04, 1.05))

    def once() -> None:
        scale = next(scales)
        jax.block_until_ready(run(tuple(jnp.asarray(scale * x) for x in problem.at)))

    return typical(once)


def typical(f: Callable[[], Any]) -> float:
    """The median of the seconds of the processor, the first time apart."""
    seconds = []
    for _ in range(6):
        start = time.process_time()
        f()
        seconds.append(time.process_time() - start)
    return median(seconds[1:])


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
    found = [of_torch(problem) for problem in problems]
    jitted = [of_jax(*both) for both in zip(problems, found, strict=True)]
    figures = [f for one, two in zip(found, jitted, strict=True) for f in one.figures + two]
    report("laplace", figures, options)


if __name__ == "__main__":
    main()
