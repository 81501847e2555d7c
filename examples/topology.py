"""Structural mechanics: the stiffest shape that a given amount of material can take
=================================================================================

Minimum-compliance topology optimization of a cantilever::

    minimize    c(x) = f^T u            compliance: the work of the load, the inverse of stiffness
    where       K(rho) u = f            K = sum_e E(rho_e) K_e, assembled from the elemental matrices K_e of scikit-fem
                E(rho) = E_min + rho^p (E_0 - E_min)                                             SIMP: half a material does not pay
                rho = H x,  H_ij ~ max(0, r - |centre_i - centre_j|),  rows sum to 1             density filter: no checkerboards
    subject to  mean(rho) = share,  0 <= x <= 1

The pattern of K is made once and its values change in each iteration; JAX differentiates c
through assembly, solve and filter. Method: optimality criteria. Reference: Andreassen, Clausen,
Schevenels, Lazarov, Sigmund, Struct. Multidisc. Optim. 43 (2011).

::

    python examples/topology.py [--size 200 100] [--iterations 60] [--out out/topology.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import skfem
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogFormatter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from scipy.spatial import KDTree
from skfem.models.elasticity import lame_parameters, linear_elasticity

import ldiv
import ldiv.skfem

Assumption = Literal["gen", "pos"]

Numbers = np.ndarray[Any, Any]

E_0, E_MIN, POISSON = 1.0, 1e-6, 0.3
PENALTY = 3  # p
SHARE = 0.35  # of the domain, that may be filled
RADIUS = 2.0  # r, in elements
MOVE = 0.2  # how much a density may change in an iteration
TOLERANCE = 1e-6  # of the gradient check


@dataclass(frozen=True)
class Cantilever:
    """The data that do not change with the design: clamped on the left, pulled down in the middle
    of the right edge.
    """

    size: tuple[int, int]
    cell: Numbers  # (2, m) column and row of every element
    stiffness: ldiv.skfem.Assembly  # K(E) of all unknowns, for a modulus of every element
    free: Numbers  # (n,) the unknowns that are not clamped
    load: jax.Array  # f, (n,)
    filter: ldiv.SparseArray  # H, (m, m)

    def image(self, rho: jax.Array | Numbers) -> Numbers:
        """The densities (m,) as an array of (rows, columns)."""
        picture = np.empty(self.size[::-1])
        picture[self.cell[1], self.cell[0]] = rho
        return picture


@dataclass
class History:
    """The record of each iteration."""

    gradient_error: float
    compliance: list[float] = field(default_factory=list)
    volume: list[float] = field(default_factory=list)
    designs: list[Numbers] = field(default_factory=list)
    picture: Path | None = None


class Clock:
    """Seconds of every call of every stage."""

    def __init__(self) -> None:
        self.stages: dict[str, list[float]] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.stages.setdefault(stage, []).append(time.perf_counter() - start)

    def split_first(self, stage: str, first: str) -> None:
        """Book what the first call took beyond the median of the later ones as a stage of its
        own.
        """
        calls = self.stages[stage]
        usual = median(calls[1:])
        self.stages[first] = [calls[0] - usual]
        calls[0] = usual


# -- the problem --------------------------------------------------------------


def cantilever(nx: int, ny: int) -> Cantilever:
    """nx x ny bilinear squares on a domain of height 1."""
    mesh = skfem.MeshQuad.init_tensor(np.linspace(0, nx / ny, nx + 1), np.linspace(0, 1, ny + 1))
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementQuad1()))
    free = basis.complement_dofs(basis.get_dofs(lambda x: x[0] == 0))
    centre = mesh.p[:, mesh.t].mean(axis=1)
    elemental = linear_elasticity(*lame_parameters(E_0, POISSON)).elemental(basis)
    tip = mesh.facets_satisfying(
        lambda x: (x[0] == nx / ny) & (abs(x[1] - 0.5) < 0.04 + 0.55 / ny), boundaries_only=True
    )
    weight = skfem.LinearForm(lambda v, w: -v[1]).assemble(
        skfem.FacetBasis(mesh, basis.elem, facets=tip)
    )
    return Cantilever(
        size=(nx, ny),
        cell=np.rint(centre * ny - 0.5).astype(int),
        stiffness=ldiv.skfem.Assembly(elemental),
        free=free,
        load=jnp.asarray(weight[free] / abs(weight.sum())),
        filter=density_filter(centre, RADIUS / ny),
    )


def density_filter(centre: Numbers, radius: float) -> ldiv.SparseArray:
    """H_ij = max(0, r - |centre_i - centre_j|), each row divided by its sum."""
    tree = KDTree(centre.T)
    near = tree.sparse_distance_matrix(tree, radius, output_type="ndarray")
    weight = radius - near["v"]
    total = np.bincount(near["i"], weight)
    m = centre.shape[1]
    return ldiv.coo_array(
        (jnp.asarray(weight / total[near["i"]]), (near["i"], near["j"])), shape=(m, m)
    )


def compliance(part: Cantilever, x: jax.Array, assume_a: Assumption, clock: Clock) -> jax.Array:
    """c(x) = f^T u with K(H x) u = f."""
    with clock("assembly"):
        rho = part.filter @ x
        modulus = E_MIN + rho**PENALTY * (E_0 - E_MIN)
        K = ldiv.skfem.condense(part.stiffness(modulus), I=part.free, expand=False)
    with clock("factor"):  # apart from the solve only to be timed alone
        factor = ldiv.factorized(K, assume_a=assume_a)
    with clock("solve"):
        u = factor.solve(part.load)
    return part.load @ u


def with_gradient(
    part: Cantilever, x: jax.Array, assume_a: Assumption, clock: Clock
) -> tuple[float, jax.Array]:
    """c(x) and its gradient."""
    c, pullback = jax.vjp(lambda x: compliance(part, x, assume_a, clock), x)
    with clock("adjoint"):
        (gradient,) = pullback(jnp.ones_like(c))
        gradient.block_until_ready()
    return float(c), gradient


def gradient_error(part: Cantilever, x: jax.Array, assume_a: Assumption, clock: Clock) -> float:
    """Relative error of the gradient along a random direction, against fourth-order differences."""
    direction = jnp.asarray(np.random.default_rng(0).standard_normal(x.shape))
    gradient = with_gradient(part, x, assume_a, clock)[1]

    def slope(h: float) -> float:
        ahead, behind = (
            float(compliance(part, x + s * direction, assume_a, clock)) for s in (h, -h)
        )
        return (ahead - behind) / (2 * h)

    reference = (4 * slope(5e-4) - slope(1e-3)) / 3
    return abs(float(gradient @ direction) - reference) / abs(reference)


# -- the optimization ---------------------------------------------------------


def improved(x: Numbers, c_bar: Numbers, v_bar: Numbers) -> Numbers:
    """Optimality criteria: x sqrt(-c_bar / (lam v_bar)) within the bounds; the multiplier lam,
    by bisection, fills the share.
    """
    low, high = np.clip(x - MOVE, 0, None), np.clip(x + MOVE, None, 1)
    pull = x * np.sqrt(np.clip(-c_bar / v_bar, 0, None))
    a, b, y = 0.0, 1e6 * pull.max(), x  # sqrt(lam) lies between a and b
    while b - a > 1e-12 * b:
        root = (a + b) / 2
        y = np.clip(pull / root, low, high)
        a, b = (root, b) if v_bar @ y > SHARE else (a, root)
    return y


def optimized(
    part: Cantilever,
    history: History,
    iterations: int,
    assume_a: Assumption,
    clock: Clock,
    console: Console,
) -> None:
    """Iterate from a uniform grey."""
    m = part.filter.shape[0]
    x = np.full(m, SHARE)
    v_bar = np.asarray(part.filter.T @ jnp.full(m, 1 / m))
    say = TextColumn("compliance {task.fields[c]:.2f}  volume {task.fields[v]:.3f}")
    with Progress(
        TextColumn("optimizing"),
        BarColumn(),
        MofNCompleteColumn(),
        say,
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        task = progress.add_task("", total=iterations, c=float("nan"), v=SHARE)
        for _ in range(iterations):
            c, c_bar = with_gradient(part, jnp.asarray(x), assume_a, clock)
            history.compliance.append(c)
            history.volume.append(float(v_bar @ x))
            history.designs.append(part.image(part.filter @ x))
            with clock("update"):
                x = improved(x, np.asarray(c_bar), v_bar)
            progress.update(task, advance=1, c=c, v=history.volume[-1])


# -- what it says, and draws --------------------------------------------------

STAGES = {
    "setup": "mesh, elements, filter",
    "assembly": "filter, moduli, values of K",
    "ordering": "first call - a usual one",
    "factor": "numeric factorization",
    "solve": "K u = f, factors at hand",
    "adjoint": "pullback, same factors",
    "update": "optimality criteria",
}


def report(clock: Clock, console: Console) -> None:
    """Print the time of each part."""
    total = sum(map(sum, clock.stages.values()))
    table = Table("stage", box=SIMPLE_HEAD, title="where the time went", title_justify="left")
    for name in ("calls", "median ms", "total s", "share"):
        table.add_column(name, justify="right")
    table.add_column("what it contains", style="dim")
    for stage in STAGES:
        calls = clock.stages[stage]
        table.add_row(
            stage,
            f"{len(calls)}",
            f"{1e3 * median(calls):.1f}",
            f"{sum(calls):.2f}",
            f"{sum(calls) / total:.0%}",
            STAGES[stage],
        )
    console.print(table)
    info = ldiv.cache_info()
    gradients = len(clock.stages["adjoint"])
    console.print(
        f"{info.analyses} ordering, {info.factorizations} factorizations and {info.solves} solves for {gradients} gradients"
    )


def draw(part: Cantilever, history: History, clock: Clock, path: Path) -> None:
    """The design, how it came about, the convergence, and the time."""
    figure = plt.figure(
        figsize=(11, 10.5), layout=ConstrainedLayoutEngine(rect=(0.015, 0.01, 0.97, 0.98))
    )
    grid = figure.add_gridspec(3, 4, height_ratios=(5, 1.5, 2.6))
    final = figure.add_subplot(grid[0, :])
    show(final, history.designs[-1])
    decorate(final, part.size)
    count = len(history.designs)
    for k, i in enumerate(sorted({0, count // 20, count // 8, count // 3})):
        axes = figure.add_subplot(grid[1, k])
        show(axes, history.designs[i])
        axes.set_title(f"iteration {i}", fontsize=9)
    draw_convergence(figure.add_subplot(grid[2, :2]), history)
    draw_times(figure.add_subplot(grid[2, 2:]), clock)
    n = len(part.free)
    figure.suptitle(
        f"The stiffest cantilever from {SHARE:.0%} of the material   ({n:,} unknowns, {count} iterations)",
        fontsize=13,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def show(axes: Axes, design: Numbers) -> None:
    axes.imshow(design, cmap="bone_r", vmin=0, vmax=1.15, origin="lower", interpolation="nearest")
    axes.set(xticks=[], yticks=[])


def decorate(axes: Axes, size: tuple[int, int]) -> None:
    """The wall on the left, the load on the right."""
    nx, ny = size
    axes.axvspan(-0.035 * nx, -0.5, facecolor="none", edgecolor="0.4", hatch="////", linewidth=0)
    axes.plot([-0.5, -0.5], [-0.5, ny - 0.5], color="0.2", linewidth=2)
    axes.annotate(
        "",
        (nx + 0.01 * nx, 0.32 * ny),
        (nx + 0.01 * nx, 0.54 * ny),
        arrowprops={"color": "crimson", "width": 2.5, "headwidth": 9},
    )
    axes.text(1.022 * nx, 0.43 * ny, "f", color="crimson", fontsize=14, style="italic", va="center")
    axes.set_xlim(-0.035 * nx, 1.05 * nx)
    axes.spines[:].set_visible(False)


def draw_convergence(axes: Axes, history: History) -> None:
    start = history.compliance[0]
    axes.semilogy(history.compliance, color="#1f4e79", linewidth=2)
    axes.axhline(start / 3, color="0.6", linestyle="--", linewidth=1)
    axes.text(
        len(history.compliance) - 1,
        start / 3 * 1.04,
        "a third of the start",
        ha="right",
        fontsize=8,
        color="0.4",
    )
    axes.set(
        xlabel="iteration",
        title=f"compliance  {start:.1f} $\\rightarrow$ {history.compliance[-1]:.1f}",
    )
    axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.grid(True, which="both", alpha=0.2)


def draw_times(axes: Axes, clock: Clock) -> None:
    seconds = [sum(clock.stages[stage]) for stage in STAGES]
    bars = axes.barh(list(STAGES), seconds, color="#8aa9c4")
    axes.bar_label(bars, [f"{s:.2f} s" for s in seconds], padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(title="where the time went", xlabel="seconds")
    axes.spines[["top", "right"]].set_visible(False)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if the gradient is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--size",
        type=int,
        nargs=2,
        default=(200, 100),
        metavar=("NX", "NY"),
        help="elements along and across (default: 200 100)",
    )
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument(
        "--assume-a",
        choices=("gen", "pos"),
        default="gen",
        help="gen is the faster one here; pos also checks that K is definite",
    )
    parser.add_argument("--out", type=Path, default=Path("out/topology.png"))
    args = parser.parse_args(argv)
    console, clock, began = Console(), Clock(), time.perf_counter()
    jax.config.update("jax_enable_x64", True)

    ldiv.clear_cache()
    with clock("setup"):
        part = cantilever(*args.size)
    console.print(f"{args.size[0]} x {args.size[1]} elements, {len(part.free):,} unknowns")

    start = jnp.full(part.filter.shape[0], SHARE)
    history = History(gradient_error(part, start, args.assume_a, clock))
    console.print(
        f"gradient against differences along a random direction: relative error {history.gradient_error:.1e}"
    )
    if not history.gradient_error < TOLERANCE:
        raise SystemExit(1)

    optimized(part, history, args.iterations, args.assume_a, clock, console)
    clock.split_first("factor", "ordering")
    first, last = history.compliance[0], history.compliance[-1]
    console.print(
        f"compliance {first:.3f} -> {last:.3f}, {last / first:.3f} of its start, at a volume of {history.volume[-1]:.4f}"
    )
    report(clock, console)
    draw(part, history, clock, args.out)
    history.picture = args.out
    console.print(f"picture in {args.out}; {time.perf_counter() - began:.0f} s in all")
    return history


if __name__ == "__main__":
    main()
