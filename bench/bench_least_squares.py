"""Nonlinear least squares at the size of a map: points from distances to their neighbors and rough positions; and of a bundle
of bearings, cameras and points.

value        seconds of the processor (one thread) of the minimum, the first time (coloring, index sets and symbolic analysis included) and again
gradient     seconds of the gradient in the weights of all distances, or in all bearings: a Hessian and a solve with the last factor
memory       the most that the process has taken so far, frameworks and data included
scipy        the minimum by scipy.optimize.least_squares (trf, lsmr) with the exact sparse Jacobian, without a gradient in the weights:
             where it is not larger than 20,000 unknowns

python bench/bench_least_squares.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import resource
import time
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
import torch
from harness.measure import Figure, arguments, report
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


def main() -> None:
    options = arguments(__doc__)
    torch.set_num_threads(1)
    figures = []
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
