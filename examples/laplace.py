"""Experimental design: where to measure, from the curvature of an inverse problem
===============================================================================

The source of a nonlinear diffusion problem from a few measurements of its solution, the uncertainty
that they leave, and how it changes with the places of the sensors::

    F(u) = -div grad u + u^3 = f      on the unit square, u = 0 on its boundary; f ~ N(f_0, s_f^2 / h^2)
    d_i = u(x_i) + noise              bilinear between the nodes of the grid
    J(u, x) = h^2 |F(u) - f_0|^2 / (2 s_f^2) + |u(x) - d|^2 / (2 s_d^2)
    u(x) = argmin J                   the most probable state
    H(x) = d^2 J / du^2               sparse, by coloring
    N(u(x), H(x)^-1)                  Laplace's approximation of the posterior (`ldiv.laplace`)
    D(x) = mean of diag H(x)^-1       what is still unknown

D has kinks only where a sensor leaves its cell. It is differentiated in x through everything: the state, by the implicit function theorem; the
Hessian, which takes third derivatives of J; and the entries of its inverse. Steps downhill move the
sensors to where they tell most (A-optimal design). The data at a new place are those that the true
state would give there.
Reference: Alexanderian, Optimal experimental design for infinite-dimensional Bayesian inverse
problems, Inverse Problems 37 (2021).

::

    python examples/laplace.py [--size 32] [--sensors 6] [--steps 15] [--out out/laplace.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
import torch
from rich.console import Console

import ldiv

PRIOR, NOISE = 3.0, 0.01  # deviations of the source, and of a measurement
STRENGTH = 40.0  # of the source: u^3 counts
TOLERANCE = 1e-6  # of the gradient check
REACH = 0.08  # a sensor's longest step


@dataclass(frozen=True)
class Problem:
    """The grid of size x size inner nodes, h = 1 / (size + 1)."""

    size: int
    laplacian: ldiv.SparseArray
    pattern: ldiv.SparseArray  # of H: neighbors of neighbors
    expected: torch.Tensor  # f_0
    truth: torch.Tensor  # u for the true source

    @property
    def h(self) -> float:
        return 1 / (self.size + 1)

    def source(self, u: torch.Tensor) -> torch.Tensor:
        """F(u)."""
        return self.laplacian @ u + u**3

    def at(self, u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """u at the places x (k, 2): bilinear in the cell of each, differentiable in both."""
        whole = torch.nn.functional.pad(u.reshape(self.size, self.size), (1, 1, 1, 1))
        scaled = x / self.h
        cell = scaled.detach().floor().long().clamp(0, self.size)
        (i, j), (s, t) = cell.T, (scaled - cell).T
        return (
            (1 - s) * (1 - t) * whole[i, j]
            + s * (1 - t) * whole[i + 1, j]
            + (1 - s) * t * whole[i, j + 1]
            + s * t * whole[i + 1, j + 1]
        )

    def misfit(self, u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """J(u, x)."""
        prior = (self.h / PRIOR) ** 2 * ((self.source(u) - self.expected) ** 2).sum()
        data = ((self.at(u, x) - self.at(self.truth, x)) ** 2).sum() / NOISE**2
        return (prior + data) / 2

    def posterior(self, x: torch.Tensor) -> ldiv.LaplaceApproximation:
        """N(u(x), H^-1)."""
        return ldiv.laplace(self.misfit, 0 * self.expected, x, pattern=self.pattern)

    def unknown(self, x: torch.Tensor) -> torch.Tensor:
        """D(x)."""
        return self.posterior(x).variances().mean()


def square(size: int) -> Problem:
    h = 1 / (size + 1)
    line = sp.diags_array(
        [np.full(size, 2.0), -np.ones(size - 1), -np.ones(size - 1)], offsets=[0, 1, -1]
    )
    a = sp.csc_array(sp.kronsum(line, line) / h**2)
    laplacian = ldiv.csc_array((torch.from_numpy(a.data), a.indices, a.indptr), shape=a.shape)
    two = sp.csc_array(abs(a) @ abs(a))
    pattern = ldiv.csc_array((torch.from_numpy(two.data), two.indices, two.indptr), shape=a.shape)
    x, y = torch.meshgrid(*2 * [torch.linspace(h, 1 - h, size, dtype=torch.float64)], indexing="ij")
    expected = STRENGTH * torch.ones(size**2, dtype=torch.float64)
    true = expected + (2 * STRENGTH * torch.exp(-40 * ((x - 0.3) ** 2 + (y - 0.65) ** 2))).ravel()

    def residual(u: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        return laplacian @ u + u**3 - f

    truth = ldiv.root(residual, 0 * true, true, pattern=laplacian, assume_a="pos")
    return Problem(size, laplacian, pattern, expected, truth)


@dataclass
class History:
    """The measurements of the run."""

    gradient_error: float = np.inf
    unknown: list[float] = field(default_factory=list)  # D before the first step and after each
    places: list[Any] = field(default_factory=list)  # of the sensors
    inside: float = 0.0  # the part of the true state within two deviations
    picture: Path | None = None


def with_gradient(problem: Problem, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    x = x.detach().requires_grad_()
    value = problem.unknown(x)
    return value.item(), torch.autograd.grad(value, x)[0]


def gradient_error(problem: Problem, x: torch.Tensor) -> float:
    """Against central differences in a random direction, short enough to stay in each cell."""
    d = torch.from_numpy(np.random.default_rng(2).standard_normal(x.shape))
    h, (_, gradient) = 0.004 * problem.h, with_gradient(problem, x)
    value = {k: problem.unknown(x + k * h * d).item() for k in (-2, -1, 1, 2)}
    slope = (8 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12 * h)
    return abs(float((gradient * d).sum()) / slope - 1)


def designed(
    history: History, problem: Problem, x: torch.Tensor, steps: int, console: Console
) -> torch.Tensor:
    """Steps downhill, halved until less is unknown."""
    value, gradient = with_gradient(problem, x)
    history.unknown, history.places = [value], [x.numpy()]
    reach = REACH
    for step in range(steps):
        direction = -gradient / gradient.abs().max()
        while reach > 1e-4:
            there = (x + reach * direction).clamp(0.02, 0.98)
            found, slope = with_gradient(problem, there)
            if found < value:
                break
            reach = reach / 2
        else:
            break
        x, value, gradient, reach = there, found, slope, min(REACH, 1.5 * reach)
        history.unknown.append(value)
        history.places.append(x.numpy())
        console.print(
            f"step {step + 1}: mean variance {value:.3e}, {value / history.unknown[0]:.1%}"
        )
    return x


def draw(
    problem: Problem, history: History, before: torch.Tensor, after: torch.Tensor, path: Path
) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    size, paths = problem.size, np.array(history.places)
    deviations = [x.sqrt().reshape(size, size).numpy() for x in (before, after)]
    fields = [(problem.truth.reshape(size, size).numpy(), "true state")]
    names = ("standard deviation before", "standard deviation after")
    fields += list(zip(deviations, names, strict=True))
    for axis, (values, name) in zip(axes, fields, strict=True):
        limits = {"vmin": 0.0, "vmax": deviations[0].max()} if "deviation" in name else {}
        drawn = axis.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), **limits)
        figure.colorbar(drawn, ax=axis, label=name)
        axis.set(xticks=[], yticks=[])
    axes[1].plot(*paths[0].T, "wo", markeredgecolor="k")
    for k in range(paths.shape[1]):
        axes[2].plot(*paths[:, k].T, "w-", linewidth=1)
    axes[2].plot(*paths[-1].T, "wo", markeredgecolor="k")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if the gradient is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=32, help="inner nodes a side (default: 32)")
    parser.add_argument("--sensors", type=int, default=6, help="how many (default: 6)")
    parser.add_argument("--steps", type=int, default=15, help="at most (default: 15)")
    parser.add_argument("--out", type=Path, default=Path("out/laplace.png"))
    args = parser.parse_args(argv)
    console, history, problem = Console(), History(), square(args.size)
    start = torch.from_numpy(0.15 + 0.3 * np.random.default_rng(0).random((args.sensors, 2)))
    start = ((start / problem.h).floor() + 0.5) * problem.h  # within the cells, where D is smooth

    history.gradient_error = gradient_error(problem, start)
    console.print(f"{args.size**2} unknowns; error of the gradient: {history.gradient_error:.0e}")
    if not history.gradient_error < TOLERANCE:
        raise SystemExit(1)

    x = designed(history, problem, start, args.steps, console)
    last = problem.posterior(x)
    before, after = problem.posterior(start).variances(), last.variances()
    away = (last.mode - problem.truth).abs()
    history.inside = float((away < 2 * after.sqrt()).double().mean())
    draw(problem, history, before, after, args.out)
    history.picture = args.out
    console.print(
        f"{history.inside:.0%} of the true state within two standard deviations; picture in {args.out}"
    )
    return history


if __name__ == "__main__":
    main()
