"""Nonlinear least squares at the size of a map: points from distances to their neighbors and rough positions; and of a bundle
of bearings, cameras and points.

value        seconds of the processor (one thread) of the minimum, the first time (coloring, index sets and symbolic analysis included) and again
gradient     seconds of the gradient in the weights of all distances, or in all bearings: a Hessian and a solve with the last factor
memory       the most that the process has taken so far, frameworks and data included
scipy        the minimum by scipy.optimize.least_squares (trf, lsmr) with the exact sparse Jacobian, without a gradient in the weights:
             where it is not larger than 20,000 unknowns
few unknowns a root of 3 equations and a fit of 4 parameters, value and gradient, beside the derivatives that no method can do
             without, in plain PyTorch: as often as there are steps the function and the rows of its Jacobian (of the Hessian,
             for Newton's method), and an empty autograd.Function with a gradient

python bench/bench_least_squares.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, compare, report
from problems.bundles import Bundle, bundle
from problems.maps import NOISE, ROUGH, Map, made

import ldiv

LARGEST_OF_SCIPY = 20_000


def memory() -> float:
    """GiB, the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def ours(problem: Map | Bundle, loss: str) -> list[Figure]:
    f, pattern = problem.residual(), problem.pattern  # which keeps what is made once
    ldiv.clear_cache()
    seconds, found = [], []
    for scale in (1.0, 1.01):
        data, at = problem.data(scale), problem.start
        start = time.process_time()
        x = ldiv.least_squares(f, at, data, pattern=pattern, loss=loss, f_scale=2.0)
        between = time.process_time()
        (x**2).sum().backward()
        seconds.append((between - start, time.process_time() - between))
        found.append(ldiv.cache_info().factorizations)
    title = f"{problem.title}, {loss}"
    figures = []
    for when, (value, gradient) in zip(("first", "again"), seconds, strict=True):
        figures.append(Figure(title, f"value, {when}", value, "s"))
        figures.append(Figure(title, f"gradient, {when}", gradient, "s"))
        figures.append(Figure(title, f"both, {when}", value + gradient, "s", 20.0))
    figures.append(Figure(title, "factorizations of the first", found[0], ""))
    figures.append(Figure(title, "memory", memory(), "GiB"))
    return figures


def of_scipy(problem: Map, loss: str) -> Figure:
    i, j = problem.links.T
    m, n = len(problem.links), len(problem.place)
    rows, cols = problem.pattern.row, problem.pattern.col

    def residual(x: Any) -> Any:
        at = x.reshape(-1, 2)
        ranges = np.linalg.norm(at[i] - at[j], axis=1) - problem.distances
        return np.concatenate([ranges / NOISE, (x - problem.rough) / ROUGH])

    def jacobian(x: Any) -> Any:
        at = x.reshape(-1, 2)
        along = (at[i] - at[j]) / np.linalg.norm(at[i] - at[j], axis=1)[:, None] / NOISE
        values = np.concatenate([np.hstack([along, -along]).ravel(), np.full(2 * n, 1 / ROUGH)])
        return sp.csr_matrix((values, (rows, cols)), shape=(m + 2 * n, 2 * n))

    start = time.process_time()
    scipy.optimize.least_squares(
        residual, problem.rough, jacobian, loss=loss, f_scale=2.0, tr_solver="lsmr", xtol=1e-10
    )
    elapsed = time.process_time() - start
    return Figure(f"{problem.title}, {loss}", "value: scipy", elapsed, "s")


def circle(x: Any, p: Any) -> Any:
    a, b, c = x.unbind()
    return torch.stack([a * a + b * b + c * c - p[0], a * b - p[1], c.exp() - p[2] + a])


TIMES = torch.linspace(0, 3, 30, dtype=torch.float64)


def decay(x: Any, y: Any) -> Any:
    return x[0] * torch.exp(-x[1] * TIMES) + x[2] * torch.cos(x[3] * TIMES) - y


class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Any) -> Any:
        return p.clone()

    @staticmethod
    def backward(ctx: Any, p_bar: Any) -> Any:
        return p_bar


def rows(f: Callable[[Any], Any], x: Any) -> Any:
    """The Jacobian of f at x, by one backward pass for all rows."""
    x = x.detach().requires_grad_()
    y, grad = f(x), torch.autograd.grad
    return grad(y, x, torch.eye(len(y), dtype=y.dtype), is_grads_batched=True)[0]


def slope(f: Callable[[Any], Any], x: Any) -> Any:
    r = f(x)
    return torch.autograd.grad(r, x, r, create_graph=True)[0]


def of_few(rounds: int) -> list[Figure]:
    """A root and a fit of few unknowns, by ldiv and by hand."""
    x = torch.tensor([1.2, 0.9, 0.2], dtype=torch.float64)
    q = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    z = torch.tensor([1.5, 1.0, 0.4, 0.9], dtype=torch.float64)
    noise = 0.01 * torch.from_numpy(np.random.default_rng(0).standard_normal(30))
    data = decay(torch.tensor([2.0, 1.3, 0.5, 1.0], dtype=torch.float64), -noise)
    steps = ldiv.root(circle, x, q, info=True)[1].steps
    fit = ldiv.least_squares(decay, z, data, info=True)[1]

    def gradient(solve: Any, f: Any, start: Any) -> Callable[[Any], Any]:
        return lambda p: torch.autograd.grad(solve(f, start, p).sum(), p)

    def by_hand(f: Any, x: Any, p: Any, jacobians: int, hessians: int) -> None:
        at_p = lambda x: f(x, p.detach())
        for _ in range(jacobians):
            rows(at_p, x)
        for _ in range(hessians):
            rows(lambda x: slope(at_p, x), x)
        y = f(x.requires_grad_(), Empty.apply(p))
        g = y if not hessians else torch.autograd.grad(y, x, y, create_graph=True)[0]
        torch.autograd.grad(g.sum(), p)
        x.requires_grad_(False)

    tasks = {
        "a root of 3 unknowns": (
            q,
            0.002,
            gradient(ldiv.root, circle, x),
            lambda p: by_hand(circle, x, p, steps + 1, 0),
        ),
        "a fit of 4 unknowns": (
            data,
            0.005,
            gradient(ldiv.least_squares, decay, z),
            lambda p: by_hand(decay, z, p, fit.steps, fit.newton.steps + 1),
        ),
    }
    figures = []
    for title, (p, target, ours, floor) in tasks.items():
        seconds: dict[str, list[float]] = {"ldiv": [], "by hand": []}
        for _ in range(rounds):
            for name, task in (("ldiv", ours), ("by hand", floor)):
                given, start = p.clone().requires_grad_(), time.process_time()
                task(given)
                seconds[name].append(time.process_time() - start)
        figures += [
            Figure(title, "value + gradient", min(seconds["ldiv"]), "s", target),
            Figure(title, "derivatives by hand", min(seconds["by hand"]), "s"),
            compare(seconds, title, "ldiv", "by hand"),
        ]
    return figures


def main() -> None:
    options = arguments(__doc__)
    torch.set_num_threads(1)
    figures = of_few(3 if options.quick else 100)
    for side in (12,) if options.quick else (70, 223):
        problem = made(side)
        for loss in ("linear", "huber"):
            figures += ours(problem, loss)
            if 2 * len(problem.place) <= LARGEST_OF_SCIPY:
                figures.append(of_scipy(problem, loss))
    figures += ours(bundle(*((10, 100) if options.quick else (1_000, 100_000))), "linear")
    report("least_squares", figures, options)


if __name__ == "__main__":
    main()
