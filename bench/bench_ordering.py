"""Nested dissection and minimum degree of ldiv's own over METIS through pymetis: the entries of L, and
the seconds of the processor; and the first call of a million unknowns.

    python bench/bench_ordering.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from peers import raw
from problems import fields, systems
import scipy.sparse as sp
from harness.measure import Figure, arguments, report

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import ordering, work

FILL, TIME = 1.10, 1.0  # over METIS
FIRST_CALL = 5.0  # seconds
PROBLEMS: dict[str, Callable[[], Any]] = {
    "2D grid, n = 90,000": lambda: systems.poisson(300, 300),
    "2D grid, n = 1,000,000": lambda: systems.poisson(1000, 1000),
    "3D grid, n = 27,000": lambda: systems.poisson(30, 30, 30),
    "2D mesh, n = 50,000": lambda: fields.mesh(fields.scattered(50_000), "").pattern,
    "3D elasticity, n = 10,800": lambda: systems.elasticity(15),
    "circuit, n = 30,000": lambda: systems.circuit(30_000),
    "optimality system, n = 40,000": lambda: systems.program(30_000, 10_000),
    **{
        name: lambda name=name: systems.real(name)
        for name in ("bcsstk13", "hangGlider_2", "watt_2", "adder_dcop_05")
    },
}


def timed(order: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = order()
    return time.process_time() - start, found


def over_metis(title: str, a: Any, rounds: int) -> list[Figure]:
    a = systems.by_rows(abs(a) + abs(a).T + sp.eye_array(a.shape[0]))
    pattern = Pattern(*a.tocoo().coords, a.shape)
    graph = pattern.csc(np.ones(pattern.slots))
    seconds = []
    for _ in range(rounds):
        took, ours = timed(lambda: ordering.of_sum(pattern))
        over, theirs = timed(lambda: raw.nested_dissection(graph))
        seconds.append((took, over))
    fill, least = (work.counted(pattern, order).entries for order in (ours, theirs))
    each = [median(some) for some in zip(*seconds, strict=True)]
    ratio = median(took / over for took, over in seconds)
    return [
        Figure(title, "entries / METIS", fill / least, "x", FILL),
        Figure(title, "seconds / METIS", ratio, "x", TIME, *each),
    ]


def first_call(side: int) -> Figure:
    a = ldiv.csc_array(systems.poisson(side, side))
    took, _ = timed(lambda: ldiv.solve(a, np.ones(side**2), assume_a="pos", method="cholesky"))
    title = systems.title(side, side)
    return Figure(title, "first call, seconds of the processor", took, "s", FIRST_CALL)


def main() -> None:
    options = arguments(__doc__)
    problems = {"2D grid, n = 900": lambda: systems.poisson(30, 30)} if options.quick else PROBLEMS
    figures, missing = [], []
    for title, make in problems.items():
        try:
            figures += over_metis(title, make(), 3)
        except (FileNotFoundError, ImportError) as error:
            missing.append(f"Skipped {title}: {error}.")
    figures.append(first_call(20 if options.quick else 1000))
    report("ordering", figures, options, "\n".join(missing))


if __name__ == "__main__":
    main()
