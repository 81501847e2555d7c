"""The marginal likelihood of a Gaussian Markov random field with a million nodes: one evaluation
with its gradient in three hyperparameters, its time and the peak of its memory.

The field, the data and the likelihood are those of `examples/gmrf.py`: two log-determinants, of
matrices with 7 and 19 entries in a row, and one solve. The peak is all that the process ever held,
PyTorch and the making of the problem included.

    python bench/bench_gmrf.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench_large import peak_gib
from harness.measure import Figure, arguments, report

EXAMPLES = Path(__file__).parents[1] / "examples"


def inside(size: int) -> dict[str, Any]:
    """The measured process."""
    sys.path.insert(0, str(EXAMPLES))
    import gmrf
    import torch

    import ldiv

    torch.set_num_threads(1)
    start = time.perf_counter()
    problem = gmrf.square(size, (size + 1) ** 2 // 10)
    theta = torch.tensor(gmrf.TRUTH, dtype=torch.float64).log()
    _, y = gmrf.sampled(problem, theta)
    seconds = [time.perf_counter() - start]
    for step in range(2):
        start = time.perf_counter()
        before = ldiv.cache_info().factorizations
        at = (theta + 0.01 * step).requires_grad_()
        value = gmrf.log_likelihood(problem, at, y)
        torch.autograd.grad(value, at)
        del value
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds,
        "gib": peak_gib(),
        "factorizations": ldiv.cache_info().factorizations - before,
    }


def main() -> None:
    options = arguments(__doc__)
    size = 19 if options.quick else 999
    if options.inside:
        print(json.dumps(inside(size)))
        return
    command = [sys.executable, __file__, "--inside", *["--quick"][: options.quick]]
    seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    problem = f"Matern field, n = {(size + 1) ** 2:,}"
    made, first, following = seen["seconds"]
    figures = [
        Figure(problem, "peak memory of the process", seen["gib"], "GiB"),
        Figure(problem, "mesh, matrices and data", made, "s"),
        Figure(problem, "value and gradient, orderings included", first, "s"),
        Figure(problem, "value and gradient, new hyperparameters", following, "s"),
        Figure(problem, "factorizations of an evaluation", seen["factorizations"], ""),
    ]
    report("gmrf", figures, options)


if __name__ == "__main__":
    main()
