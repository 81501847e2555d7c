"""2D Poisson with a million unknowns: value and gradient in a process of its own, seconds of the
processor and the peak of its memory.

The peak is all that the process ever held, PyTorch and the making of the problem included.

    python bench/bench_large.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import json
import resource
import subprocess
import sys
import time
from typing import Any

from problems import systems
from harness.measure import Figure, arguments, report

GIB = 12.0
SECONDS = 5.0


def inside(side: int) -> dict[str, Any]:
    """The measured process."""
    from peers import by_torch
    import torch

    import ldiv

    a, (b, c) = systems.poisson(side, side), map(torch.from_numpy, systems.vectors(side**2))
    seconds = []
    A = by_torch.array(a)
    for scale in (1.0, 1.01):
        start = time.process_time()
        _, gradient, _ = by_torch.value_and_gradient(A, A.data * scale, b, c, "pos", "auto")
        seconds.append(time.process_time() - start)
    assert len(gradient) == a.nnz
    assert ldiv.cache_info().factorizations == 2, ldiv.cache_info()
    return {
        "first": seconds[0],
        "next": seconds[1],
        "gib": peak_gib(),
        "analyses": ldiv.cache_info().analyses,
    }


def peak_gib() -> float:
    """Linux counts kilobytes, macOS bytes."""
    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / 2**30
    )


def main() -> None:
    options = arguments(__doc__)
    side = 30 if options.quick else 1000
    if options.inside:
        print(json.dumps(inside(side)))
        return
    command = [sys.executable, __file__, "--inside", *["--quick"][: options.quick]]
    seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    problem = systems.title(side, side)
    figures = [
        Figure(problem, "peak memory of the process", seen["gib"], "GiB", GIB),
        Figure(problem, "value and gradient, ordering included", seen["first"], "s", SECONDS),
        Figure(problem, "value and gradient, new values", seen["next"], "s"),
        Figure(problem, "analyses of the pattern", seen["analyses"], "", 1),
    ]
    report("large", figures, options)


if __name__ == "__main__":
    main()
