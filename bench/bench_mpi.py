"""One system over several processes: setting up, solving, the adjoint, the gradient, and what is
sent for each, counted.

    5 points on a square, N unknowns, MUMPS (L D L^T) and conjugate gradients with gamg
    messages, bytes       those of PETSc's log: its own sends, without those inside of MUMPS
    reductions            those of PETSc's log, and ldiv's agreements

python bench/bench_mpi.py [--quick]           mpirun is called for 1 and 2 processes
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch
from harness.measure import Figure, arguments, report

SOLVERS: dict[str, dict[str, Any]] = {
    "MUMPS": {"method": "direct"},
    "cg, gamg": {"method": "cg", "M": "amg", "rtol": 1e-9},
}
COUNTERS = ("isend_ct", "send_ct", "isend_len", "send_len", "allreduce_ct")
TARGET = 2.1  # solves of communication that value and gradient take, at most
agreements: list[int] = []
TURNS = ["--allow-run-as-root", "--oversubscribe"]


# -- what each process runs ---------------------------------------------------


def counted() -> Any:
    """Messages, bytes and reductions of this process so far."""
    from petsc4py import PETSc

    library = ctypes.CDLL(PETSc.__file__)
    ct, more, size, other, reductions = (
        ctypes.c_double.in_dll(library, f"petsc_{name}").value for name in COUNTERS
    )
    return np.array([ct + more, size + other, reductions + len(agreements)])


def count_agreements() -> None:
    """ldiv's own reductions, which PETSc's log does not see."""
    from ldiv.distributed.communicator import Communicator

    for name in ("agree", "total", "largest", "every"):
        before = getattr(Communicator, name)

        def counting(*args: Any, before: Any = before, **options: Any) -> Any:
            agreements.append(1)
            return before(*args, **options)

        setattr(Communicator, name, counting)


def measured(step: Any) -> dict[str, float]:
    """Seconds of the slowest process; messages and bytes of all, reductions of one."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.barrier()
    before, start = counted(), time.perf_counter()
    step()
    seconds, sent = time.perf_counter() - start, counted() - before
    total = world.allreduce(sent)
    return {
        "seconds": world.allreduce(seconds, op=MPI.MAX),
        "messages": float(total[0]),
        "bytes": float(total[1]),
        "reductions": float(sent[2]),
    }


def worker(side: int, solver: str) -> None:
    """One problem, after a small one that warms up; process 0 prints what was measured."""
    from ldiv import distributed

    count_agreements()
    problem(8, solver)
    found = problem(side, solver)
    if distributed.owned(side).start == 0:
        print("MEASURED", json.dumps(found))


def problem(side: int, solver: str) -> dict[str, dict[str, float]]:
    """Measure each step: its time and its messages."""
    import ldiv
    from ldiv import distributed

    n = side * side
    mine = np.array(distributed.owned(n))
    i, j = np.divmod(mine, side)
    rows, cols, factor = [mine], [mine], [np.full(len(mine), 4.0)]
    for di, dj in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        inside = (0 <= i + di) & (i + di < side) & (0 <= j + dj) & (j + dj < side)
        rows.append(mine[inside])
        cols.append(mine[inside] + di * side + dj)
        factor.append(np.full(int(inside.sum()), -1.0))
    places = np.concatenate(rows), np.concatenate(cols)
    values = torch.tensor(np.concatenate(factor), requires_grad=True)
    b = torch.ones(len(mine), dtype=torch.float64)
    b_bar = torch.tensor(np.cos(mine.astype(float)))
    state: dict[str, Any] = {}

    def set_up() -> None:
        state["A"] = distributed.coo_array((values, places), (n, n))

    def first() -> None:
        state["x"] = ldiv.solve(state["A"], b, assume_a="pos", **SOLVERS[solver])

    def again() -> None:
        with torch.no_grad():
            ldiv.solve(state["A"], 2 * b, assume_a="pos", **SOLVERS[solver])

    def gradient() -> None:
        state["x"].backward(b_bar, retain_graph=True)

    steps = {"places": set_up, "factor and solve": first, "solve": again, "gradient": gradient}
    return {name: measured(step) for name, step in steps.items()}


# -- the table ----------------------------------------------------------------


def figures(side: int, processes: int, solver: str) -> list[Figure]:
    command = ["mpirun", *TURNS, "-n", str(processes), sys.executable, __file__]
    told = os.environ | {"LDIV_BENCH_MPI": f"{side}:{solver}"}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    (line,) = (x for x in done.stdout.splitlines() if x.startswith("MEASURED "))
    found = json.loads(line.removeprefix("MEASURED "))
    problem = f"N = {side * side:,}, {solver}, {processes} processes"
    rows = [
        Figure(problem, f"{step}: {what}", number, "s" if what == "seconds" else "")
        for step, seen in found.items()
        for what, number in seen.items()
    ]
    if processes > 1:
        for what in ("bytes", "messages"):
            whole, one = found["solve"][what] + found["gradient"][what], found["solve"][what] or 1.0
            # by MUMPS a solve has few messages in PETSc's log, and an exchange of ghost values one
            target = None if (what, solver) == ("messages", "MUMPS") else TARGET
            rows.append(
                Figure(problem, f"{what} of solve and gradient / solve", whole / one, "x", target)
            )
    return rows


def main() -> None:
    options = arguments(__doc__)
    if importlib.util.find_spec("petsc4py") is None:
        report("mpi", [], options, "Skipped: petsc4py is not installed. `make mpi` sets it up.")
        return
    sides = [20] if options.quick else [500, 1000]
    rows = [
        row
        for side in sides
        for solver in SOLVERS
        for processes in (1, 2)
        for row in figures(side, processes, solver)
    ]
    note = (
        "Messages and bytes are those that PETSc sends; MUMPS sends its own, which its log lacks. "
        f"Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
        "seconds are one run each."
    )
    report("mpi", rows, options, note)


if __name__ == "__main__":
    if "LDIV_BENCH_MPI" in os.environ:
        size, _, name = os.environ["LDIV_BENCH_MPI"].partition(":")
        worker(int(size), name)
    else:
        main()
