"""`fronts` over `cholesky` on one core of the host, with new values on a known pattern: seconds of the
processor for a solve, and for its gradient too; and the numbers in L.

bare operations    the calls of PyTorch alone, without any of ours: what is assembled, Cholesky factors,
                   triangular solves and products of all batches, and the two solves of a checked one

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
from ldiv.frontends.torch.dense import ROWS
from ldiv.structures.symmetric import Symmetric

# sides; over cholesky: seconds, numbers
PROBLEMS = [((300, 300), 2.5, 1.5), ((30, 30, 30), 3.0, 1.8)]
ROUNDS = 9


def bare_operations(found: Any, v: Any) -> Callable[[], None]:
    """F = values + updates, L = chol(F11), X = L^-1 F12, F22 - X^T X of each batch by blocks of rows, then
    L^-1, X^T, X and L^-T of one column, twice; with numbers for which nothing can fail.
    """
    batches, sources, owners, *_ = found.on(v)
    work = torch.from_numpy(np.zeros(found.work))
    ones = torch.ones(sources.numel() + owners.numel() + work.numel(), dtype=v.dtype)
    y, u = ones[: owners.numel(), None], ones[: batches[-1].below.stop + 1]
    identities = [torch.eye(b.k, dtype=v.dtype).expand(b.count, -1, -1) for b in batches]

    def run() -> None:
        factors = []
        for b, f11 in zip(batches, identities, strict=True):
            own, m = b.count * b.k * (b.k + b.r), b.k + b.r
            f = work[b.work].zero_()
            f.scatter_add_(0, b.places, ones[b.values])
            for kid in b.kids:
                at = (kid.first + kid.to).view(-1)
                f.scatter_add_(0, at, ones[: at.numel()])
            l, _ = torch.linalg.cholesky_ex(f11)
            f12 = f[:own].view(b.count, b.k, m)[..., b.k :]
            x = torch.linalg.solve_triangular(l, f12, upper=False)
            f22 = f[own:].view(b.count, b.r, b.r)
            for start in range(0, b.r, ROWS):
                part = f22[:, start : start + ROWS, start:]
                part.baddbmm_(x[..., start : start + ROWS].mT, x[..., start:], alpha=-1)
                part[..., : part.shape[-2]].triu_()
            factors.append((b, l, x))
        for _ in range(2):
            for b, l, x in factors:
                z = y[b.own].view(b.count, b.k, 1)
                for _, terms in b.sums:
                    u.index_select(0, terms.view(-1)).view(terms.shape).sum(-1)
                torch.bmm(x.mT, torch.linalg.solve_triangular(l, z, upper=False))
            for b, l, x in reversed(factors):
                z = y[b.own].view(b.count, b.k, 1)
                below = y[:, 0].index_select(0, b.column.view(-1))
                z = torch.baddbmm(z, x, below.view(b.count, b.r, 1))
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

    alone = bare_operations(batches, values)
    contenders: dict[str, Callable[[Any], Any]] = {
        "fronts": lambda p: solve(p, "fronts"),
        "cholesky": lambda p: solve(p, "cholesky"),
        "gradient, fronts": lambda p: gradient(p, "fronts"),
        "gradient, cholesky": lambda p: gradient(p, "cholesky"),
        "bare operations": lambda p: alone(),
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
        compare(seconds, title, "bare operations", "cholesky"),
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
