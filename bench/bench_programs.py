"""Quadratic programs with gradients, side by side with the packages that have them.

value + gradient   seconds of x and of the gradient of c^T x in q and in the sides of the constraints, for new data of the same pattern:
                   the shortest of some calls, in a process for each; what is compiled or set up at the first call is not in it, and
                   stands beside it
error              of that gradient, over its largest entry, against 50 digits (problems/programs.py), which show the active rows, too
gradient           over one factorization of the system of the active rows: the same call without its derivative subtracted

A package takes part where it is installed; one that fails, or takes more than 60 s, has a row that says so.

python bench/bench_programs.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from harness.alone import inside, measured
from harness.measure import Figure, arguments, report
from peers.of_programs import PEERS
from problems import programs
from problems.programs import Program

TURNS = 1
PROBLEMS: dict[str, Callable[[], Program]] = {
    "obstacle, n = 100": lambda: programs.obstacle(10, 10),
    "obstacle, n = 1,000": lambda: programs.obstacle(25, 40),
    "obstacle, n = 40,000": lambda: programs.obstacle(200, 200),
    "dense, n = 100": lambda: programs.dense(100),
    "dense, n = 200": lambda: programs.dense(200),
    "dense, n = 1,000": lambda: programs.dense(1_000),
}
QUICK = ("obstacle, n = 100",)
RATIO = ("obstacle, n = 40,000", "dense, n = 200")


def side_by_side(title: str) -> list[Figure]:
    """All who are here, in turns."""
    program, here = PROBLEMS[title](), [name for name in PEERS if find_spec(name.split(",")[0])]
    seen: dict[str, dict[str, Any]] = {}
    for _ in range(TURNS):
        for name in here:
            if "failed" in seen.get(name, {}):
                continue
            found = measured(__file__, title, name)
            found["seconds"] += seen.get(name, {}).get("seconds", [])
            seen[name] = found
    expected = programs.reference(program, _active(program))
    figures = []
    for name, found in seen.items():
        if "failed" in found:
            figures.append(Figure(title, f"{name}: {found['failed']}", None, ""))
            continue
        seconds, ours = min(found["seconds"]), min(seen["ldiv"]["seconds"])
        figures.append(Figure(title, f"{name}: value + gradient", seconds, "s"))
        if not name.startswith("ldiv"):
            target = 1.0 if program.n >= 1_000 else None
            figures.append(
                Figure(title, f"ldiv / {name}", ours / seconds, "x", target, ours, seconds)
            )
        figures.append(Figure(title, f"{name}: first call", found["first"], "s"))
        error = max(
            float(abs(found["found"][k] - expected[k]).max(initial=0)) for k in ("q", "h", "b")
        ) / float(max(abs(expected[k]).max(initial=0) for k in ("q", "h", "b")))
        figures.append(
            Figure(title, f"{name}: error", error, "", 1e-6 if name.startswith("ldiv") else None)
        )
    return figures


def _active(p: Program) -> Any:
    import ldiv

    if p.bounds:
        found = ldiv.solve_qp(p.P, p.q, lb=-p.h[p.n :], ub=p.h[: p.n], full=True)
    else:
        found = ldiv.solve_qp(p.P, p.q, p.G, p.h, p.A, p.b, full=True)
    return np.asarray(found.active)


def gradient_over_factorization(title: str, rounds: int) -> Figure:
    """All derivatives of a solution that is there, over a factorization of its system by itself."""
    import torch

    import ldiv

    p = PROBLEMS[title]()
    P, G, A = (M if p.bounds else M.toarray() for M in (p.P, p.G, p.A))
    gradients, factorizations = [], []
    for i in range(rounds):
        m = p.moved(i)
        q, h, b = (torch.from_numpy(v).requires_grad_() for v in (m.q, m.h, m.b))
        if p.bounds:
            x = ldiv.solve_qp(P, q, lb=-h[p.n :], ub=h[: p.n])
        else:
            x = ldiv.solve_qp(P, q, G, h, A, b)
        loss = x @ torch.from_numpy(p.c)
        start = time.perf_counter()
        loss.backward()
        gradients.append(time.perf_counter() - start)
        del x, loss
        K = _system(m)
        if not i:
            ldiv.factorized(K)  # its analysis
        K = K * (1 + 1e-9 * i)
        start = time.perf_counter()
        ldiv.factorized(K)
        factorizations.append(time.perf_counter() - start)
    ours, one = min(gradients), min(factorizations)
    return Figure(title, "gradient / factorization", ours / one, "x", 0.5, ours, one)


def _system(p: Program) -> Any:
    import scipy.sparse as sp

    import ldiv

    C = sp.vstack([p.A, p.G.tocsr()[np.flatnonzero(_active(p))]])
    return ldiv.asarray(sp.csc_array(sp.block_array([[p.P, C.T], [C, None]])))


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        title, name, out = sys.argv[2:]
        inside(PEERS[name], PROBLEMS[title](), out)
        return
    options = arguments(__doc__)
    figures: list[Figure] = []
    for title in QUICK if options.quick else PROBLEMS:
        if title not in RATIO or title.startswith("obstacle"):
            figures += side_by_side(title)
        if title in RATIO:
            figures.append(gradient_over_factorization(title, 5))
    report("programs", figures, options)


if __name__ == "__main__":
    main()
