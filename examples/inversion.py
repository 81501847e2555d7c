"""Inverse problems: a nonlinear material found from one measurement
=================================================================

The coefficient field of a p-Laplace problem, by Newton's method and by L-BFGS::

    minimize over m     J(m) = |u(m) - d|^2 / (2 s^2) + a |grad m|^2 / 2                 m: log of the coefficient, at the nodes
    where               -div( exp(m) (|grad u|^2 + e)^((p - 2) / 2) grad u ) = 1,   u = 0 on the boundary of the unit square

linear triangles, assembled by scikit-fem. u(m) is `ldiv.root`: Newton's method with the sparse
Jacobian by coloring, differentiated by the implicit function theorem, twice too. The exact
Hessian-vector products of J serve SciPy's Newton-CG; L-BFGS sees gradients alone.

::

    python examples/inversion.py [--size 16] [--steps 400] [--out out/inversion.png]
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
from scipy.optimize import minimize
from skfem.helpers import dot, grad

import ldiv
import ldiv.skfem

P, EPS = 3.0, 1e-3
NOISE, ALPHA = 0.01, 2e-2  # of the measurement, relative; the weight of the prior
TOLERANCE = 1e-6  # of the gradient and Hessian checks


@dataclass(frozen=True)
class Problem:
    """The data that do not depend on the coefficient."""

    mesh: skfem.MeshTri
    corners: torch.Tensor  # (triangles, 3)
    slopes: torch.Tensor  # (triangles, 2, 3): the gradients of the hat functions
    area: torch.Tensor
    load: torch.Tensor  # at the free nodes
    free: torch.Tensor
    place: torch.Tensor  # of each node among the free ones
    pattern: ldiv.SparseArray  # of the Jacobian
    prior: ldiv.SparseArray  # the Laplacian of all nodes

    def residual(self, u: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        """The forces that are not in balance, at the free nodes."""
        whole = torch.cat([u, u.new_zeros(1)])[self.place]
        slope = torch.einsum("tdk,tk->td", self.slopes, whole[self.corners])
        stiff = torch.exp(m[self.corners].mean(1)) * ((slope**2).sum(1) + EPS) ** ((P - 2) / 2)
        force = torch.einsum("t,tdk,td->tk", self.area * stiff, self.slopes, slope)
        nodes = torch.zeros_like(whole).index_add(0, self.corners.ravel(), force.ravel())
        return nodes[self.free] - self.load

    def state(self, m: torch.Tensor) -> torch.Tensor:
        """u(m)."""
        return ldiv.root(self.residual, self.load, m, pattern=self.pattern, assume_a="pos")


def square(size: int) -> Problem:
    """The unit square with size x size cells."""
    mesh = skfem.MeshTri.init_tensor(*2 * (np.linspace(0, 1, size + 1),))
    basis: Any = skfem.Basis(mesh, skfem.ElementTriP1())

    def slope_product(u: Any, v: Any, _: Any) -> Any:
        return dot(np.asarray(grad(u)), np.asarray(grad(v)))

    laplacian = skfem.BilinearForm(slope_product).elemental(basis)
    # the Laplacian lacks entries that happen to vanish
    touching = skfem.BilinearForm(lambda u, v, _: u * v).assemble(basis)
    load = skfem.LinearForm(lambda v, _: v).assemble(basis)
    free = np.setdiff1d(np.arange(mesh.nvertices), basis.get_dofs().all())
    place = np.full(mesh.nvertices, len(free))
    place[free] = np.arange(len(free))
    slopes = np.stack([basis.basis[k][0].grad[:, :, 0] for k in range(3)])  # (3, 2, triangles)
    return Problem(
        mesh=mesh,
        corners=torch.from_numpy(mesh.t.T.astype(np.int64)),
        slopes=torch.from_numpy(slopes.transpose(2, 1, 0).copy()),
        area=torch.from_numpy(basis.dx.sum(1)),
        load=torch.from_numpy(load[free]),
        free=torch.from_numpy(free),
        place=torch.from_numpy(place),
        pattern=ldiv.skfem.condense(touching, I=free, expand=False),
        prior=ldiv.skfem.Assembly(laplacian)(torch.ones((), dtype=torch.float64)),
    )


@dataclass
class History:
    """The measurements of the run."""

    gradient_error: float = np.inf
    hessian_error: float = np.inf
    values: dict[str, list[float]] = field(default_factory=dict)  # J after each step
    seconds: dict[str, list[float]] = field(default_factory=dict)
    misfit: float = np.inf  # of the coefficient, relative
    picture: Path | None = None


def objective(problem: Problem, data: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    weight = 1 / (NOISE * data.abs().max()) ** 2 / len(data)

    def value(m: torch.Tensor) -> torch.Tensor:
        return (
            weight * ((problem.state(m) - data) ** 2).sum() / 2
            + ALPHA * (m @ (problem.prior @ m)) / 2
        )

    return value


def checked(history: History, value: Callable[[torch.Tensor], torch.Tensor], n: int) -> None:
    """The gradient and a Hessian-vector product against central differences in a random
    direction.
    """
    at, d = (torch.from_numpy(0.3 * x) for x in np.random.default_rng(1).standard_normal((2, n)))
    h, gradient = 1e-4, torch.func.grad(value)
    slope = (
        (
            8 * (value(at + h * d) - value(at - h * d))
            - value(at + 2 * h * d)
            + value(at - 2 * h * d)
        )
        / (12 * h)
    ).item()
    history.gradient_error = abs((gradient(at) @ d).item() / slope - 1)
    turn = (gradient(at + h * d) - gradient(at - h * d)) / (2 * h)
    history.hessian_error = float((ldiv.hvp(value, at, d) - turn).norm() / turn.norm())


def minimized(
    history: History,
    name: str,
    value: Callable[[torch.Tensor], torch.Tensor],
    n: int,
    **options: Any,
) -> torch.Tensor:
    """Minimize by one of SciPy's methods, from a constant coefficient."""
    history.values[name], history.seconds[name] = [], []
    began = time.perf_counter()

    def with_gradient(m: Any) -> tuple[float, Any]:
        at = torch.from_numpy(m.copy()).requires_grad_()
        j = value(at)
        return j.item(), torch.autograd.grad(j, at)[0].numpy()

    def note(m: Any) -> None:
        history.values[name].append(value(torch.from_numpy(m)).item())
        history.seconds[name].append(time.perf_counter() - began)

    note(np.zeros(n))
    return torch.from_numpy(
        minimize(with_gradient, np.zeros(n), jac=True, method=name, callback=note, **options).x
    )


def draw(problem: Problem, history: History, fields: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    low, high = min(map(np.min, fields.values())), max(map(np.max, fields.values()))
    for axis, (name, m) in zip(axes, fields.items(), strict=False):
        figure.colorbar(
            axis.tripcolor(
                *problem.mesh.p, problem.mesh.t.T, m, shading="gouraud", vmin=low, vmax=high
            ),
            ax=axis,
            label=f"log coefficient, {name}",
        )
        axis.set(xticks=[], yticks=[], aspect="equal")
    best = min(min(values) for values in history.values.values())
    for name, values in history.values.items():
        axes[2].semilogy(
            history.seconds[name],
            np.maximum(np.array(values) - best, 1e-12),
            marker=".",
            label=f"{name}, {len(values) - 1} steps",
        )
    axes[2].set(xlabel="seconds", ylabel="J above the least seen")
    axes[2].legend()
    axes[2].grid(alpha=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if a derivative is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=16, help="cells along a side (default: 16)")
    parser.add_argument(
        "--steps", type=int, default=400, help="of each method, at most (default: 400)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/inversion.png"))
    args = parser.parse_args(argv)
    console, history, problem = Console(), History(), square(args.size)
    x, y = torch.from_numpy(problem.mesh.p)
    truth = torch.exp(-30 * ((x - 0.35) ** 2 + (y - 0.6) ** 2)) - 0.8 * torch.exp(
        -40 * ((x - 0.7) ** 2 + (y - 0.35) ** 2)
    )
    n = len(truth)
    data = problem.state(truth)
    data = data + NOISE * data.abs().max() * torch.from_numpy(
        np.random.default_rng(0).standard_normal(len(data))
    )
    value = objective(problem, data)

    checked(history, value, n)
    errors = history.gradient_error, history.hessian_error
    console.print(
        f"{n} coefficients, {len(data)} unknowns; errors of gradient and Hessian: {errors[0]:.0e}, {errors[1]:.0e}"
    )
    if not max(errors) < TOLERANCE:
        raise SystemExit(1)

    def product(m: Any, v: Any) -> Any:
        return ldiv.hvp(value, torch.from_numpy(m.copy()), torch.from_numpy(v.copy())).numpy()

    found = minimized(
        history, "Newton-CG", value, n, hessp=product, options={"maxiter": args.steps, "xtol": 1e-8}
    )
    minimized(
        history, "L-BFGS-B", value, n, options={"maxiter": args.steps, "ftol": 1e-14, "gtol": 1e-8}
    )
    history.misfit = float((found - truth).norm() / truth.norm())
    for name, values in history.values.items():
        console.print(
            f"{name}: J = {values[-1]:.10f} after {len(values) - 1} steps, {history.seconds[name][-1]:.1f} s"
        )
    draw(problem, history, {"true": truth.numpy(), "found": found.numpy()}, args.out)
    history.picture = args.out
    console.print(
        f"the coefficient is {history.misfit:.0%} off, with one measurement and {NOISE:.0%} noise; picture in {args.out}"
    )
    return history


if __name__ == "__main__":
    main()
