"""`fronts` over `cholesky` on one core of the host, with new values on a known pattern: seconds of the
processor for a solve, and for its gradient too; and the numbers in L.

dense operations    what PyTorch takes for the Cholesky factors, triangular solves and products of all
                    batches, and of the two solves of a checked one, when nothing has to be assembled

    python bench/bench_fronts.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from harness.measure import Figure, arguments, compare, report
from problems import systems

import ldiv
from ldiv.engines.direct import cholesky, fronts
from ldiv.structures.symmetric import Symmetric

# sides; over cholesky: seconds, numbers
PROBLEMS = [((300, 300), 2.5, 1.5), ((30, 30, 30), 3.0, 1.8)]
ROUNDS = 9


def dense_operations(batches: Any) -> Callable[[], None]:
    """L = chol(F11), X = L^-1 F12 and X^T X of each batch, then L^-1, X^T, X and L^-T of one column, twice."""
    made: dict[str, Any] = {"dtype": torch.float64}
    given = [
        (
            torch.eye(b.k, **made).repeat(b.count, 1, 1),
            torch.ones((b.count, b.k, b.r), **made),
            torch.ones((b.count, b.k, 1), **made),
            torch.ones((b.count, b.r, 1), **made),
        )
        for b in batches
    ]

    def run() -> None:
        for f11, f12, own, below in given:
            l, _ = torch.linalg.cholesky_ex(f11)
            x = torch.linalg.solve_triangular(l, f12, upper=False)
            torch.bmm(x.mT, x)
            for _ in range(2):
                z = torch.linalg.solve_triangular(l, own, upper=False)
                torch.bmm(x.mT, z)
                torch.baddbmm(z, x, below)
                torch.linalg.solve_triangular(l.mT, z, upper=True)

    return run


def over_cholesky(sides: tuple[int, ...], goal: float, memory: float, rounds: int) -> list[Figure]:
    K = ldiv.asarray(systems.poisson(*sides))
    values, b = torch.from_numpy(np.array(K.data)), torch.ones(K.shape[0], dtype=torch.float64)
    structure = Symmetric(K.structure, "H")
    batches, compiled = fronts.analyze(structure).batches, cholesky.analyze(structure)

    def solve(p: Any, method: str) -> Any:
        return ldiv.solve(K.with_data(p), b, assume_a="pos", method=method)

    def gradient(p: Any, method: str) -> Any:
        p = p.requires_grad_()
        return torch.autograd.grad(solve(p, method).sum(), p)[0]

    alone = dense_operations(batches.batches)
    contenders: dict[str, Callable[[Any], Any]] = {
        "fronts": lambda p: solve(p, "fronts"),
        "cholesky": lambda p: solve(p, "cholesky"),
        "gradient, fronts": lambda p: gradient(p, "fronts"),
        "gradient, cholesky": lambda p: gradient(p, "cholesky"),
        "dense operations": lambda p: alone(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(rounds + 1):
        for name in list(contenders)[:: 1 if i % 2 else -1]:
            new = values * (1 + i / 1000)
            gc.collect()
            start = time.process_time()
            result = contenders[name](new)
            if i:  # the first round makes the analysis
                seconds[name].append(time.process_time() - start)
            del result
    title = systems.title(*sides)
    return [
        compare(seconds, title, "fronts", "cholesky", goal),
        compare(seconds, title, "gradient, fronts", "gradient, cholesky"),
        compare(seconds, title, "dense operations", "cholesky"),
        Figure(title, "numbers in L / cholesky", batches.entries / compiled.entries, "x", memory),
    ]


def main() -> None:
    options = arguments(__doc__)
    problems = [((20, 20), 2.5, 1.5)] if options.quick else PROBLEMS
    rounds = 2 if options.quick else ROUNDS
    figures = [figure for one in problems for figure in over_cholesky(*one, rounds)]
    report("fronts", figures, options)


if __name__ == "__main__":
    main()
