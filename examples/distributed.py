"""MPI and PETSc: conductivities of a plate, over several processes
================================================================

The problem of the README with as many unknowns as the memory of all processes holds: linear triangles on
a square, one conductivity for each of them, the mean temperature and its derivative by every conductivity::

    -div(p grad u) = 1,  u = 0 on the boundary;      loss = mean of u;      grad . p = -loss  (Euler)

Each process has a strip of the cells, and brings the entries of all their nodes, also of those on the
seam that its neighbor owns: they add up where they live, and their derivatives come back::

    mpirun -n 2 python examples/distributed.py --size 1000
    mpirun -n 2 python examples/distributed.py --size 200 --solver direct

First the gradient is compared with that of a single process, at a small size. It needs the extra
``petsc``: ``make mpi``. Without it, nothing is computed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ldiv

SOLVERS: dict[str, dict[str, Any]] = {
    "direct": {"method": "direct"},
    "iterative": {"method": "cg", "M": "amg", "rtol": 1e-10},
}
CHECKED = 24  # cells on a side, where one process can tell
ELEMENT = torch.tensor([1, -0.5, -0.5, -0.5, 0.5, 0, -0.5, 0, 0.5], dtype=torch.float64)


@dataclass(frozen=True)
class Strip:
    """The cells of this process: for each triangle the nodes of its entries, inner ones only."""

    rows: np.ndarray[Any, Any]
    cols: np.ndarray[Any, Any]
    free: np.ndarray[Any, Any]  # entries between two inner nodes
    triangles: np.ndarray[Any, Any]  # their numbers in the whole

    @property
    def count(self) -> int:
        return len(self.triangles)


def strip(m: int, first: int, last: int) -> Strip:
    """The rows `first` to `last` of m x m cells."""
    i, j = (x.ravel() for x in np.mgrid[first:last, 0:m])

    def node(di: int, dj: int) -> Any:
        inner = (0 < i + di) & (i + di < m) & (0 < j + dj) & (j + dj < m)
        return np.where(inner, (i + di - 1) * (m - 1) + j + dj - 1, -1)

    sw, se, nw, ne = node(0, 0), node(0, 1), node(1, 0), node(1, 1)
    triangle = np.concatenate([np.stack([sw, se, nw], 1), np.stack([ne, nw, se], 1)])
    rows, cols = np.repeat(triangle, 3, 1).ravel(), np.tile(triangle, 3).ravel()
    cell = i * m + j
    return Strip(
        rows, cols, np.flatnonzero((rows >= 0) & (cols >= 0)), np.concatenate([cell, cell + m * m])
    )


def conductivities(m: int, triangles: Any) -> Any:
    """A soft disc and a hard band, the same on however many processes."""
    y, x = np.divmod(triangles % (m * m), m)
    x, y = (x + 0.5) / m, (y + 0.5) / m
    soft = np.where((x - 0.35) ** 2 + (y - 0.6) ** 2 < 0.04, 0.2, 1.0)
    return soft * np.where(np.abs(x + y - 1.3) < 0.08, 5.0, 1.0)


def gradient(
    part: Strip, p: Any, m: int, array: Callable[..., Any], own: int, total: Any, **options: Any
) -> tuple[float, Any, Any]:
    """The mean temperature, its derivative by the conductivities of a strip, the temperatures."""
    p = torch.tensor(p, requires_grad=True)
    values = torch.outer(p, ELEMENT).ravel()[part.free]
    places = part.rows[part.free], part.cols[part.free]
    K = array((values, places), shape=((m - 1) ** 2,) * 2)
    load = torch.full((own,), 1 / m**2, dtype=torch.float64)
    u = ldiv.solve(K, load, assume_a="pos", **options)
    loss = total(u.sum() / m**2)
    loss.backward()
    return float(loss.detach()), p.grad, u.detach()


def over_processes(m: int, solver: str) -> tuple[float, Any, Any, Strip]:
    """Each process with its strip."""
    from ldiv import distributed

    cells = distributed.owned(m)
    part = strip(m, cells.start, cells.stop)
    own = len(distributed.owned((m - 1) ** 2))
    p = conductivities(m, part.triangles)
    options = SOLVERS[solver]
    return *gradient(part, p, m, distributed.coo_array, own, distributed.sum, **options), part


def error_of_gradient(solver: str) -> float:
    """Against a single process that has the whole, at a small size: the worst of all processes."""
    from mpi4py import MPI

    loss, bar, _, part = over_processes(CHECKED, solver)
    whole = strip(CHECKED, 0, CHECKED)
    p = conductivities(CHECKED, whole.triangles)
    same, all_of_it, _ = gradient(
        whole, p, CHECKED, ldiv.coo_array, (CHECKED - 1) ** 2, lambda x: x
    )
    at = {int(t): e for e, t in enumerate(whole.triangles)}
    mine = all_of_it[[at[int(t)] for t in part.triangles]]
    error = float(abs(bar - mine).max() / abs(all_of_it).max()) if part.count else 0.0
    worst: float = MPI.COMM_WORLD.allreduce(max(error, abs(loss / same - 1)), op=MPI.MAX)
    return worst


def main(argv: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=300, help="cells on a side")
    parser.add_argument("--solver", choices=tuple(SOLVERS), default="iterative")
    parser.add_argument("--out", type=Path, default=Path("out/distributed.png"))
    options = parser.parse_args(argv)
    if importlib.util.find_spec("petsc4py") is None:
        print("This example needs petsc4py: `make mpi` sets it up.")
        return 0.0
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def say(text: str) -> None:
        if world.rank == 0:
            print(text, flush=True)

    error = error_of_gradient(options.solver)
    say(f"gradient against one process, at {CHECKED} x {CHECKED} cells: {error:.1e}")
    if not error < 1e-8:
        sys.exit("The gradient is wrong.")
    m, start = options.size, time.perf_counter()
    say(f"{(m - 1) ** 2:,} unknowns, {2 * m * m:,} conductivities, {world.size} processes")
    loss, bar, u, part = over_processes(m, options.solver)
    euler = world.allreduce(float(bar @ torch.tensor(conductivities(m, part.triangles))))
    say(f"mean {loss:.9f}; Euler says grad . p = -mean: {euler:.9f}")
    say(f"{time.perf_counter() - start:.1f} s for value and gradient")
    parts = world.gather((u.numpy(), part.triangles, bar.numpy()))
    if parts is not None:
        draw(m, parts, options.out)
        say(f"picture in {options.out}")
    return abs(euler / loss + 1)


def draw(m: int, parts: Sequence[Any], out: Path) -> None:
    """Temperatures, and the derivatives by the conductivities of cells."""
    import matplotlib.pyplot as plt

    u = np.concatenate([u for u, _, _ in parts]).reshape(m - 1, m - 1)
    cells = np.zeros(m * m)
    for _, triangles, bar in parts:
        np.add.at(cells, triangles % (m * m), bar)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    step = max(m // 400, 1)  # a picture has no more points
    pictures = {"temperature": u, "derivative of its mean by conductivity": cells.reshape(m, m)}
    for axis, (title, picture) in zip(axes, pictures.items(), strict=True):
        image = axis.imshow(picture[::step, ::step], origin="lower", extent=(0, 1, 0, 1))
        axis.set_title(title)
        figure.colorbar(image, ax=axis, shrink=0.9)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
