"""Conjugate gradients with multigrid, value and gradient, over one raw solve by pyamg; and the
price of other preconditioners.

raw         pyamg.smoothed_aggregation_solver, then its own conjugate gradients with one V-cycle a step, to the same tolerance
ldiv        solve(A, b, assume_a="pos", M="amg"), and the gradient in the values and in b: the hierarchy is built once

python bench/bench_iterative.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import resource
from typing import Any

from peers import by_torch
import numpy as np
from problems import systems
import pyamg
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

RAW, OURS, TOLERANCE = "raw pyamg", "value + gradient", 1e-8


def ratios(sides: tuple[int, ...], rounds: int) -> list[Figure]:
    """The time, and the peak of memory at its end."""
    a, (b, c) = systems.poisson(*sides), systems.vectors(int(np.prod(sides)))
    b_torch, c_torch = torch.from_numpy(b), torch.from_numpy(c)
    pattern = by_torch.array(a)

    def raw(scale: float) -> Any:
        levels = pyamg.smoothed_aggregation_solver((a * scale).tocsr())
        x = levels.solve(b, tol=TOLERANCE, accel="cg", cycle="V")
        assert np.linalg.norm(b - scale * (a @ x)) <= 10 * TOLERANCE * np.linalg.norm(b)
        return x

    def ours(scale: float) -> Any:
        ldiv.clear_cache()
        values, rhs = (pattern.data * scale).requires_grad_(), b_torch.clone().requires_grad_()
        x = ldiv.solve(
            pattern.with_data(values), rhs, assume_a="pos", method="cg", M="amg", rtol=TOLERANCE
        )
        return (x.detach(), *torch.autograd.grad(x, (values, rhs), c_torch))

    seconds = side_by_side({RAW: raw, OURS: ours}, lambda i: 1 + i / 1000, rounds)
    title = systems.title(*sides)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        compare(seconds, title, OURS, RAW, 2.2),
        Figure(title, "peak memory of this process", peak, "GiB", 8),
    ]


def main() -> None:
    options = arguments(__doc__)
    sizes = [((300, 300), 5), ((1000, 1000), 3), ((100, 100, 100), 2)]
    if options.quick:
        sizes = [((20, 20), 2)]
    report(
        "iterative",
        [figure for sides, rounds in sizes for figure in ratios(sides, rounds)],
        options,
    )


if __name__ == "__main__":
    main()
