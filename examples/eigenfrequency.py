"""Vibration: a plate tuned by its thickness
=========================================

The highest first eigenfrequency that a given volume can have, while the next two coincide::

    maximize    omega_1(h) = sqrt(lam_1)
    where       K(h) x_i = lam_i M(h) x_i       a clamped square plate after Kirchhoff, by the elements of Morley in scikit-fem
                K(h) = sum_e h_e^3 K_e,  M(h) = sum_e h_e M_e                                thickness h_e of every triangle
    subject to  sum_e |e| h_e = 1,  0.5 <= h_e <= 2

Eigenvalues 2 and 3 belong to one wave, along and across the plate: as long as the plate keeps the
symmetry of the square they are equal. Neither has a gradient then, and to ask for one raises; their
mean has. Lengths are in sides of the plate, and frequencies in those of a plate of thickness 1,
bending stiffness 1 and density 1, whose first is 35.99. Method: projected gradients with a bounded
step.

::

    python examples/eigenfrequency.py [--refine 4] [--steps 60] [--out out/eigenfrequency.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import skfem
import torch
from rich.console import Console
from skfem.helpers import dd, ddot, trace

import ldiv
import ldiv.skfem

POISSON = 0.3
THIN, THICK = 0.5, 2.0
MOVE = 0.1  # how much a thickness may change in a step
TOLERANCE = 1e-6  # of the gradient checks


@dataclass(frozen=True)
class Plate:
    """The data that do not change with the thickness."""

    mesh: skfem.MeshTri
    stiffness: ldiv.skfem.Assembly  # K(h^3) of all unknowns
    mass: ldiv.skfem.Assembly  # M(h)
    free: Any  # the unknowns that are not clamped
    area: torch.Tensor  # |e|
    vertices: Any  # where the vertices are among the free unknowns, -1 on the edge

    def pencil(self, h: torch.Tensor) -> tuple[ldiv.SparseArray, ldiv.SparseArray]:
        """K(h), M(h)."""
        K, M = ldiv.skfem.condense(self.stiffness(h**3), self.mass(h), I=self.free, expand=False)
        return K, M


@dataclass
class History:
    """The three lowest frequencies in each step; relative errors of the gradients of lam_1 and
    of (lam_2 + lam_3) / 2, before and after.
    """

    frequencies: list[Any] = field(default_factory=list)
    volume: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    refusal: str = ""
    picture: Path | None = None

    def gap(self, step: int) -> float:
        """The relative gap of the pair."""
        _, second, third = self.frequencies[step]
        return float((third - second) / second)


def clamped(refine: int) -> Plate:
    """Triangles with all the symmetries of the square, 2^(refine + 1) a side."""
    mesh: Any = skfem.MeshTri.init_sqsymmetric().refined(refine)
    basis: Any = skfem.Basis(mesh, skfem.ElementTriMorley(), intorder=4)

    def bent(u: Any, v: Any, w: Any) -> Any:
        U, V = (np.asarray(dd(z)) for z in (u, v))
        return (1 - POISSON) * ddot(U, V) + POISSON * trace(U) * trace(V)

    bending = skfem.BilinearForm(bent)
    inertia = skfem.BilinearForm(lambda u, v, w: u * v)
    number, free = np.full(basis.N, -1), basis.complement_dofs(basis.get_dofs())
    number[free] = np.arange(len(free))
    return Plate(
        mesh,
        ldiv.skfem.Assembly(bending.elemental(basis)),
        ldiv.skfem.Assembly(inertia.elemental(basis)),
        free,
        torch.as_tensor(basis.dx.sum(axis=1)),
        number[basis.nodal_dofs[0]],
    )


# -- what is differentiated ---------------------------------------------------


def eigenvalues(plate: Plate, h: torch.Tensor) -> torch.Tensor:
    """lam_1 < lam_2 = lam_3."""
    K, M = plate.pencil(h)
    lam: torch.Tensor = ldiv.eigsh(K, 3, M=M, sigma=0, return_eigenvectors=False)
    return lam


def first(plate: Plate, h: torch.Tensor) -> torch.Tensor:
    return eigenvalues(plate, h)[0]


def mean_of_pair(plate: Plate, h: torch.Tensor) -> torch.Tensor:
    """(lam_2 + lam_3) / 2, from the sum of all three: smooth, whether they are equal or not."""
    K, M = plate.pencil(h)
    total: torch.Tensor = ldiv.spectral_sum(lambda lam: lam, K, 3, M=M, sigma=0)
    return (total - first(plate, h)) / 2


def gradient(
    value: Callable[[Plate, torch.Tensor], torch.Tensor], plate: Plate, h: torch.Tensor
) -> torch.Tensor:
    h = h.clone().requires_grad_()
    return torch.autograd.grad(value(plate, h), h)[0]


def gradient_error(
    value: Callable[[Plate, torch.Tensor], torch.Tensor], plate: Plate, h: torch.Tensor
) -> float:
    """Relative, along a random direction that splits the pair, against fourth-order differences."""
    direction = torch.randn(h.shape, dtype=h.dtype, generator=torch.Generator().manual_seed(0))

    def slope(t: float) -> float:
        return (value(plate, h + t * direction) - value(plate, h - t * direction)).item() / (2 * t)

    reference = (4 * slope(1e-3) - slope(2e-3)) / 3
    return abs((gradient(value, plate, h) @ direction).item() - reference) / abs(reference)


def refusal(plate: Plate, h: torch.Tensor) -> str:
    """The error for the gradient of lam_2 alone."""
    try:
        gradient(lambda plate, h: eigenvalues(plate, h)[1], plate, h)
    except ldiv.NotDifferentiableError as error:
        return str(error)
    return ""


# -- the optimization ---------------------------------------------------------


def improved(plate: Plate, h: torch.Tensor, h_bar: torch.Tensor) -> torch.Tensor:
    """A step up the gradient per area, moved by mu into the bounds; mu, by bisection, keeps the
    volume.
    """
    slope = h_bar / plate.area
    step, low, high = (
        MOVE * slope / slope.abs().max(),
        (h - MOVE).clamp(min=THIN),
        (h + MOVE).clamp(max=THICK),
    )
    a, b, y = -1.0, 1.0, h
    while b - a > 1e-14:
        mu = (a + b) / 2
        y = torch.clamp(h + step - mu, low, high)
        a, b = (mu, b) if plate.area @ y > 1 else (a, mu)
    return y


def optimized(plate: Plate, history: History, steps: int) -> torch.Tensor:
    """Optimize, from a plate of thickness 1."""
    h = torch.ones(len(plate.area), dtype=torch.float64)
    for step in range(steps + 1):
        h.requires_grad_()
        lam = eigenvalues(plate, h)
        history.frequencies.append(lam.detach().sqrt().numpy())
        history.volume.append((plate.area @ h).item())
        h, h_bar = h.detach(), torch.autograd.grad(lam[0], h)[0]
        if step < steps:
            h = improved(plate, h, h_bar)
    return h


def draw(plate: Plate, history: History, h: torch.Tensor, path: Path) -> None:
    """The thickness, the first mode, and how the frequencies grew."""
    K, M = plate.pencil(h)
    mode = np.append(ldiv.eigsh(K, 1, M=M, sigma=0)[1][:, 0].numpy(), 0.0)[plate.vertices]
    triangles = (*plate.mesh.p, plate.mesh.t.T)
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    figure.colorbar(
        axes[0].tripcolor(*triangles, facecolors=h.numpy(), cmap="YlGnBu", vmin=0, vmax=THICK),
        ax=axes[0],
        label="thickness",
    )
    figure.colorbar(
        axes[1].tricontourf(*triangles, mode / mode[abs(mode).argmax()], levels=20, cmap="magma"),
        ax=axes[1],
        label="first mode",
    )
    for axis in axes[:2]:
        axis.set(xticks=[], yticks=[], aspect="equal")
    for name, line in zip(
        ("first", "second", "third"), np.transpose(history.frequencies), strict=True
    ):
        axes[2].plot(
            line,
            label=f"{name}: {line[0]:.2f} $\\rightarrow$ {line[-1]:.2f}",
            linestyle="--" if name == "third" else "-",
            linewidth=2,
        )
    axes[2].set(
        xlabel="step",
        ylabel="eigenfrequency",
        ylim=(0, None),
        title="the second and the third coincide throughout",
    )
    axes[2].legend(loc="lower right")
    axes[2].grid(alpha=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if a gradient is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--refine", type=int, default=4, help="2^(refine + 1) triangles along a side (default: 4)"
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("out/eigenfrequency.png"))
    args = parser.parse_args(argv)
    console, began, history = Console(), time.perf_counter(), History()

    plate = clamped(args.refine)
    console.print(f"{len(plate.area):,} triangles, {len(plate.free):,} unknowns")
    h = optimized(plate, history, args.steps)
    for step, state in ((0, torch.ones_like(h)), (-1, h)):
        history.errors += [gradient_error(value, plate, state) for value in (first, mean_of_pair)]
        shown = "  ".join(f"{omega:.4f}" for omega in history.frequencies[step])
        console.print(
            f"{'after' if step else 'before'}: frequencies {shown}, gap of the pair {history.gap(step):.0e}, volume {history.volume[step]:.6f}"
        )
        console.print(
            "  errors of the gradients of the first, and of the mean of the pair: {:.0e}, {:.0e}".format(
                *history.errors[-2:]
            )
        )
    history.refusal = refusal(plate, h)
    console.print(f"the second alone: {history.refusal}", markup=False)
    if not max(history.errors) < TOLERANCE or not history.refusal:
        raise SystemExit(1)
    draw(plate, history, h, args.out)
    history.picture = args.out
    rise = history.frequencies[-1][0] / history.frequencies[0][0]
    console.print(
        f"the first frequency rose {rise:.2f}-fold; picture in {args.out}; {time.perf_counter() - began:.0f} s in all"
    )
    return history


if __name__ == "__main__":
    main()
