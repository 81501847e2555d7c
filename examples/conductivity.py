"""Inverse problems: a plate's conductivity from a few thermometers
================================================================

The conductivity in every element of a plate from temperatures under several heaters::

    minimize    J(p) = misfit + alpha |D p|^2         p_e = log conductivity of element e;  D p: its jumps from element to element
    where       misfit = |S U - T|^2 / |T|^2          S reads the sensors;  T (sensors, heaters) was measured
                K(p) U = F                            K = sum_e exp(p_e) K_e on P1 triangles;  a column of U and F for each heater

K is assembled by `ldiv.coo_array`, whose duplicates add up: nine entries for each triangle, in JAX,
inside `jit`. One factorization of K serves all heaters, and the adjoint for the gradient finds it
again. Method: L-BFGS of optax. The measurements come from a mesh twice as fine, with noise.
Reference: Vogel, Computational Methods for Inverse Problems (SIAM, 2002), chapters 1 and 6.

::

    python examples/conductivity.py [--size 48] [--iterations 50] [--out out/conductivity.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import optax
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import ldiv

Numbers = np.ndarray[Any, Any]
Loss = Callable[[jax.Array], jax.Array]

HEATERS = [(x, y) for x in (0.2, 0.5, 0.8) for y in (0.2, 0.5, 0.8)]
WIDTH = 0.08  # of a heater
NOISE = 1e-3  # of the measurements, in their root mean square
ALPHA = 2e-6
TOLERANCE = 1e-6  # of the gradient check


@dataclass(frozen=True)
class Plate:
    """The unit square, held at temperature 0 on the left and on the right, insulated above and
    below.
    """

    node: Numbers  # (nodes, 2) where they are
    triangle: Numbers  # (m, 3) nodes of every element
    sensor: Numbers  # nodes where the temperature is measured
    free: Numbers  # which nodes are not held
    entry: Numbers  # (nnz,) which of the 9 m elemental entries are between free nodes
    at: tuple[Numbers, Numbers]  # their rows and columns in K
    elemental: jax.Array  # (nnz,) their values for conductivity 1
    load: jax.Array  # F (n, heaters)
    jumps: ldiv.SparseArray  # D (inner edges, m)

    @property
    def centre(self) -> Numbers:
        return self.node[self.triangle].mean(axis=1)

    def stiffness(self, p: jax.Array) -> ldiv.SparseArray:
        """K(p) = sum_e exp(p_e) K_e."""
        n = self.load.shape[0]
        return ldiv.coo_array((jnp.exp(p)[self.entry // 9] * self.elemental, self.at), shape=(n, n))

    def temperatures(self, p: jax.Array) -> jax.Array:
        """(nodes, heaters), all from one factorization."""
        u = ldiv.solve(self.stiffness(p), self.load, assume_a="pos")
        return jnp.zeros((len(self.node), u.shape[1])).at[self.free].set(u)

    def misfit(self, p: jax.Array, measured: jax.Array) -> jax.Array:
        return jnp.sum((self.temperatures(p)[self.sensor] - measured) ** 2) / jnp.sum(measured**2)

    def objective(self, p: jax.Array, measured: jax.Array) -> jax.Array:
        """J(p)."""
        return self.misfit(p, measured) + self.roughness(p)

    def roughness(self, p: jax.Array) -> jax.Array:
        return ALPHA * jnp.sum((self.jumps @ p) ** 2)


@dataclass
class History:
    """The record of each iteration; the error is that of p, relative to that of the start."""

    gradient_error: float
    misfit: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    correlation: float = 0.0
    picture: Path | None = None


# -- the problem --------------------------------------------------------------


def plate(n: int, sensors: int) -> Plate:
    """2 n^2 triangles, their diagonals in alternating directions; sensors^2 sensors, at the same
    places on every mesh.
    """
    side = np.linspace(0, 1, n + 1)
    node = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    triangle = triangles(n)
    free = np.flatnonzero((node[:, 0] > 0) & (node[:, 0] < 1))
    number = np.full(len(node), -1)
    number[free] = np.arange(len(free))
    rows, cols = (
        np.repeat(number[triangle], 3, axis=1).ravel(),
        np.tile(number[triangle], 3).ravel(),
    )
    entry = np.flatnonzero((rows >= 0) & (cols >= 0))
    every = n // (sensors + 1)
    inner = every * np.arange(1, sensors + 1)
    return Plate(
        node=node,
        triangle=triangle,
        sensor=np.add.outer(inner * (n + 1), inner).ravel(),
        free=free,
        entry=entry,
        at=(rows[entry], cols[entry]),
        elemental=jnp.asarray(elemental(node[triangle]).ravel()[entry]),
        load=jnp.asarray(loads(node, triangle)[free]),
        jumps=jumps(triangle),
    )


def triangles(n: int) -> Numbers:
    """Two for each square, corners counterclockwise."""
    i, j = (x.ravel() for x in np.indices((n, n)))
    a, b, c, d = (k * (n + 1) + l for k, l in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)))
    even = ((i + j) % 2 == 0)[:, None, None]
    falling = np.stack([np.stack([a, b, d], -1), np.stack([b, c, d], -1)], 1)
    rising = np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)], 1)
    return np.where(even, rising, falling).reshape(-1, 3)


def elemental(corner: Numbers) -> Numbers:
    """K_e = |e| G G^T, row i of G the gradient of the hat function of corner i, which is the
    opposite edge, turned, over 2 |e|.
    """
    edge = np.roll(corner, -2, axis=1) - np.roll(corner, -1, axis=1)
    twice = edge[:, 0, 0] * edge[:, 1, 1] - edge[:, 0, 1] * edge[:, 1, 0]
    return edge @ edge.transpose(0, 2, 1) / (2 * twice)[:, None, None]


def loads(node: Numbers, triangle: Numbers) -> Numbers:
    """A third of every triangle's heat for each of its corners, (nodes, heaters)."""
    corner = node[triangle]
    (x, y), (z, w) = (corner[:, 1] - corner[:, 0]).T, (corner[:, 2] - corner[:, 0]).T
    far = ((corner.mean(axis=1)[:, None] - np.array(HEATERS)) ** 2).sum(axis=-1)
    heat = np.exp(-far / (2 * WIDTH**2)) / (2 * np.pi * WIDTH**2) * (x * w - y * z)[:, None] / 2
    f = np.zeros((len(node), len(HEATERS)))
    np.add.at(f, triangle, heat[:, None] / 3)
    return f


def jumps(triangle: Numbers) -> ldiv.SparseArray:
    """D: one row for each pair of triangles that share an edge."""
    m = len(triangle)
    edge = np.sort(
        np.stack([triangle, np.roll(triangle, -1, axis=1)], axis=-1).reshape(-1, 2), axis=1
    )
    order = np.lexsort(edge.T)
    shared = np.flatnonzero((edge[order[1:]] == edge[order[:-1]]).all(axis=1))
    pairs = np.stack([order[shared], order[shared + 1]]) // 3
    k = len(shared)
    values = jnp.concatenate([jnp.ones(k), -jnp.ones(k)])
    return ldiv.coo_array((values, (np.tile(np.arange(k), 2), pairs.ravel())), shape=(k, m))


def truth(centre: Numbers) -> Numbers:
    """log conductivity: a disc that conducts well, and a bar that hardly does."""
    x, y = centre.T
    disc = np.hypot(x - 0.34, y - 0.63) - 0.17
    bar = np.maximum(abs(x - 0.68) - 0.08, abs(y - 0.42) - 0.24)
    good, bad = (np.log(k) / (1 + np.exp(d / 0.015)) for k, d in ((5.0, disc), (0.25, bar)))
    return good + bad


def measurements(n: int, sensors: int) -> jax.Array:
    """The readings of the sensors on the finer mesh."""
    fine = plate(2 * n, sensors)
    exact = fine.temperatures(jnp.asarray(truth(fine.centre)))[fine.sensor]
    noise = np.random.default_rng(0).standard_normal(exact.shape)
    return exact + NOISE * jnp.sqrt(jnp.mean(exact**2)) * noise


def gradient_error(loss: Loss, p: jax.Array) -> float:
    """Relative error of the gradient along a random direction, against fourth-order differences."""
    along = jnp.asarray(np.random.default_rng(1).standard_normal(p.shape))
    value = jax.jit(loss)

    def slope(h: float) -> float:
        return float(value(p + h * along) - value(p - h * along)) / (2 * h)

    reference = (4 * slope(1e-3) - slope(2e-3)) / 3
    return abs(float(jax.jit(jax.grad(loss))(p) @ along) - reference) / abs(reference)


# -- the recovery -------------------------------------------------------------


def recovered(
    model: Plate, measured: jax.Array, history: History, iterations: int, console: Console
) -> jax.Array:
    """L-BFGS from a uniform plate; the values and gradients of its line search are kept for the
    next iteration.
    """
    loss = partial(model.objective, measured=measured)
    value = jax.jit(loss)(jnp.zeros(len(model.triangle)))
    lbfgs = optax.lbfgs(memory_size=20)
    value_and_grad = optax.value_and_grad_from_state(loss)

    @jax.jit
    def step(p: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        value, gradient = value_and_grad(p, state=state)
        update, state = lbfgs.update(gradient, state, p, value=value, grad=gradient, value_fn=loss)
        return jnp.asarray(optax.apply_updates(p, update)), state

    exact = truth(model.centre)
    p = jnp.zeros(len(model.triangle))
    # no weak types: they would compile the step twice
    state = jax.tree.map(lambda x: x.astype(x.dtype), lbfgs.init(p))
    say = TextColumn("misfit {task.fields[misfit]:.1e}  error {task.fields[error]:.3f}")
    with Progress(
        TextColumn("recovering"),
        BarColumn(),
        MofNCompleteColumn(),
        say,
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        task = progress.add_task("", total=iterations, misfit=float("nan"), error=1.0)
        for i in range(iterations + 1):
            if i:
                p, state = step(p, state)
                value = optax.tree_utils.tree_get(state, "value")  # of the line search, at p
            history.misfit.append(float(value - model.roughness(p)))
            history.error.append(float(np.linalg.norm(p - exact) / np.linalg.norm(exact)))
            progress.update(task, completed=i, misfit=history.misfit[-1], error=history.error[-1])
            if i in {0, 1} or i % max(iterations // 8, 1) == 0:
                console.print(
                    f"iteration {i:3}: misfit {history.misfit[-1]:.2e}, error of the field {history.error[-1]:.3f}"
                )
    history.correlation = float(np.corrcoef(p, exact)[0, 1])
    return p


# -- the picture --------------------------------------------------------------


def draw(model: Plate, p: jax.Array, history: History, path: Path) -> None:
    """The true field, the recovered one, and the convergence."""
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(14.5, 4.7), layout="constrained", width_ratios=(1, 1, 1.05)
    )
    exact = truth(model.centre)
    show(figure, left, model, exact, "true, with heaters (red) and sensors")
    left.plot(*model.node[model.sensor].T, ".", color="0.15", markersize=2.5)
    left.plot(
        *np.array(HEATERS).T,
        "o",
        color="crimson",
        markersize=9,
        fillstyle="none",
        markeredgewidth=1.5,
    )
    show(
        figure,
        middle,
        model,
        np.asarray(p),
        f"recovered: correlation {history.correlation:.3f}",
        bar=True,
    )
    draw_convergence(right, history)
    what = f"{len(model.triangle):,} elements from {len(model.sensor)} thermometers under {len(HEATERS)} heaters"
    figure.suptitle(f"Conductivity of {what}", fontsize=13)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def show(
    figure: Figure, axes: Axes, model: Plate, p: Numbers, title: str, bar: bool = False
) -> None:
    """The conductivity exp(p), on a logarithmic scale that both fields share."""
    x, y = model.node.T
    mesh = Triangulation(x, y, model.triangle)
    colors = axes.tripcolor(mesh, facecolors=p, cmap="PuOr", vmin=-np.log(6), vmax=np.log(6))
    axes.set(aspect="equal", xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1), title=title)
    if bar:
        ticks = [0.2, 0.5, 1, 2, 5]
        scale = figure.colorbar(
            colors, ax=axes, ticks=np.log(ticks), shrink=0.85, label="conductivity"
        )
        scale.ax.set_yticklabels([f"{t:g}" for t in ticks])


def draw_convergence(axes: Axes, history: History) -> None:
    axes.semilogy(history.misfit, color="#1f4e79", linewidth=2, label="misfit")
    axes.semilogy(history.error, color="#b35806", linewidth=2, label="error of the field, relative")
    axes.axhline(NOISE**2, color="0.6", linestyle="--", linewidth=1)
    axes.text(
        len(history.misfit) - 1, 1.15 * NOISE**2, "the noise", ha="right", fontsize=8, color="0.4"
    )
    axes.set(
        xlabel="iteration of L-BFGS",
        title=f"misfit {history.misfit[0]:.1e} $\\rightarrow$ {history.misfit[-1]:.1e}",
    )
    axes.legend(frameon=False)
    axes.grid(True, which="major", alpha=0.25)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if the gradient is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--size",
        type=int,
        default=48,
        help="squares along a side, of two triangles each (default: 48)",
    )
    parser.add_argument(
        "--sensors",
        type=int,
        default=15,
        help="along a side; one more must divide the size (default: 15)",
    )
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("out/conductivity.png"))
    args = parser.parse_args(argv)
    if args.size % (args.sensors + 1):
        parser.error(
            f"{args.sensors} sensors along a side need a size that {args.sensors + 1} divides, not {args.size}"
        )
    console, began = Console(), time.perf_counter()
    jax.config.update("jax_enable_x64", True)

    ldiv.clear_cache()
    model, measured = plate(args.size, args.sensors), measurements(args.size, args.sensors)
    n, heaters = model.load.shape
    console.print(
        f"{len(model.triangle):,} elements, {n:,} temperatures, {heaters} heaters, {len(model.sensor)} sensors"
    )

    start = jnp.asarray(0.1 * np.random.default_rng(2).standard_normal(len(model.triangle)))
    history = History(gradient_error(partial(model.objective, measured=measured), start))
    console.print(
        f"gradient against differences along a random direction: relative error {history.gradient_error:.1e}"
    )
    if not history.gradient_error < TOLERANCE:
        raise SystemExit(1)

    p = recovered(model, measured, history, args.iterations, console)
    info = ldiv.cache_info()
    console.print(
        f"misfit {history.misfit[0]:.2e} -> {history.misfit[-1]:.2e}; correlation of the field with the true one {history.correlation:.3f}"
    )
    console.print(
        f"{info.analyses} orderings (two meshes), {info.factorizations} factorizations, {info.solves} solves of {heaters} columns"
    )
    draw(model, p, history, args.out)
    history.picture = args.out
    console.print(f"picture in {args.out}; {time.perf_counter() - began:.0f} s in all")
    return history


if __name__ == "__main__":
    main()
