"""Geostatistics: a Matern field from noisy points, by Newton's method
===================================================================

A Matern field on a mesh by its stochastic differential equation, and its hyperparameters by the
exact Hessian of the marginal likelihood::

    tau (kappa^2 - div grad) x = white noise          on the unit square, linear triangles
    Q = tau^2 K C^-1 K,    K = kappa^2 C + G          C: lumped masses, G: stiffness
    y = P x + e,    e ~ N(0, I / s)                   P: values at the places of the data
    log p(y) = (log|Q| - log|Q + s P^T P| + m log s - s y^T (y - P mu)) / 2 - m/2 log 2 pi
    mu = s (Q + s P^T P)^-1 P^T y

The range is sqrt(8) / kappa, the variance of the field 1 / (4 pi kappa^2 tau^2). Everything is
sparse, nothing is inverted: the derivative of a log-determinant takes the entries of an inverse on
the pattern, the second derivative their tangent. Standard deviations are `ldiv.inverse_diagonal`.
Reference: Lindgren, Rue, Lindstrom, J. R. Statist. Soc. B 73 (2011).

::

    python examples/gmrf.py [--size 199] [--points 4000] [--steps 30] [--out out/gmrf.png]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
import skfem
import torch
from rich.console import Console
from scipy.spatial import cKDTree
from skfem.models.poisson import laplace, mass

import ldiv

TRUTH = 0.25, 1.0, 0.2  # range, standard deviations of the field and of the noise
START = 0.5, 0.5, 0.5
TOLERANCE = 1e-6  # of the gradient and Hessian checks
CONVERGED = 1e-6  # of the Newton decrement


@dataclass(frozen=True)
class Problem:
    """The data that do not depend on the hyperparameters: values on two patterns."""

    mesh: skfem.MeshTri
    places: Any  # (2, m), of the data
    interpolation: ldiv.SparseArray  # P
    narrow: ldiv.SparseArray  # the pattern of K
    masses: torch.Tensor  # C, in the places of `narrow`
    stiffness: torch.Tensor  # G
    wide: ldiv.SparseArray  # the pattern of K C^-1 K
    products: tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # C, 2 G and G C^-1 G
    observed: torch.Tensor  # P^T P
    diagonal: torch.Tensor  # of C

    def operator(self, kappa: torch.Tensor) -> ldiv.SparseArray:
        """K."""
        return self.narrow.with_data(kappa**2 * self.masses + self.stiffness)

    def precision(self, kappa: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """The values of Q."""
        c, g, gcg = self.products
        return tau**2 * (kappa**4 * c + kappa**2 * g + gcg)


def strengths(theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(kappa, tau, s) from the logarithms of range, standard deviation and noise."""
    extent, deviation, noise = theta.exp()
    kappa = math.sqrt(8) / extent
    return kappa, 1 / (math.sqrt(4 * math.pi) * kappa * deviation), noise**-2


def square(size: int, points: int, seed: int = 0) -> Problem:
    """The unit square with size x size cells, and data at random points of it."""
    mesh = skfem.MeshTri.init_tensor(*2 * (np.linspace(0, 1, size + 1),))
    basis: Any = skfem.Basis(mesh, skfem.ElementTriP1())
    masses = mass.assemble(basis).sum(axis=0)
    c, inverse = sp.diags_array(np.ravel(masses)), sp.diags_array(1 / np.ravel(masses))
    g = sp.csc_array(laplace.assemble(basis))
    places = np.random.default_rng(seed).random((2, points))
    p = interpolation(mesh, places)
    touching = abs(g) + sp.csc_array(mass.assemble(basis))  # all pairs of neighbors
    narrow, wide = (_pattern(a) for a in (touching, touching @ touching))
    return Problem(
        mesh=mesh,
        places=places,
        interpolation=ldiv.csc_array(
            (torch.from_numpy(p.data), p.indices, p.indptr), shape=p.shape
        ),
        narrow=narrow,
        masses=_values(narrow, c),
        stiffness=_values(narrow, g),
        wide=wide,
        products=(_values(wide, c), _values(wide, 2 * g), _values(wide, g @ inverse @ g)),
        observed=_values(wide, p.T @ p),
        diagonal=torch.from_numpy(np.ravel(masses)),
    )


def interpolation(mesh: Any, places: Any) -> Any:
    """P: the barycentric coordinates of each place in its triangle, among those that are near."""
    corners = mesh.p[:, mesh.t]  # (2, 3, triangles)
    near = cKDTree(corners.mean(1).T).query(places.T, 6)[1].T  # (6, m)
    a, b, c = (corners[:, k][:, near] for k in range(3))  # (2, 6, m)
    (u1, u2), (v1, v2), (w1, w2) = b - a, c - a, places[:, None] - a
    of_b, of_c = w1 * v2 - w2 * v1, u1 * w2 - u2 * w1
    weights = np.stack([u1 * v2 - u2 * v1 - of_b - of_c, of_b, of_c]) / (u1 * v2 - u2 * v1)
    best, every = weights.min(0).argmax(0), np.arange(places.shape[1])
    weights, columns = weights[:, best, every], mesh.t[:, near[best, every]]
    assert weights.min() > -1e-9
    rows = np.tile(every, (3, 1))
    shape = places.shape[1], mesh.nvertices
    return sp.csc_array((weights.ravel(), (rows.ravel(), columns.ravel())), shape=shape)


def _pattern(a: Any) -> ldiv.SparseArray:
    a = sp.coo_array(a)
    order = np.lexsort((a.row, a.col))
    ones = torch.ones(a.nnz, dtype=torch.float64)
    return ldiv.coo_array((ones, (a.row[order], a.col[order])), shape=a.shape)


def _values(pattern: ldiv.SparseArray, a: Any) -> torch.Tensor:
    """The entries of a in the places of a pattern, sorted by columns."""
    a, n = sp.coo_array(sp.csc_array(a)), pattern.shape[0]
    keys = pattern.col.astype(np.int64) * n + pattern.row
    values = np.zeros(len(keys))
    values[np.searchsorted(keys, a.col.astype(np.int64) * n + a.row)] = a.data
    return torch.from_numpy(values)


# -- the marginal likelihood ----------------------------------------------------------------------


def posterior(problem: Problem, theta: torch.Tensor) -> ldiv.SparseArray:
    """The precision Q + s P^T P."""
    kappa, tau, s = strengths(theta)
    return problem.wide.with_data(problem.precision(kappa, tau) + s * problem.observed)


def expected(
    problem: Problem, theta: torch.Tensor, y: torch.Tensor, precision: ldiv.SparseArray
) -> torch.Tensor:
    """The mean mu, with the factor of the precision's determinant."""
    s = strengths(theta)[2]
    return ldiv.solve(precision, s * (problem.interpolation.T @ y), assume_a="pos")


def log_likelihood(problem: Problem, theta: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """log p(y); |Q| = tau^2n |K|^2 / |C|, of a matrix that is sparser."""
    (kappa, tau, s), (m, n) = strengths(theta), problem.interpolation.shape
    of_prior = (
        2 * n * tau.log()
        + 2 * ldiv.logdet(problem.operator(kappa), assume_a="pos")
        - problem.diagonal.log().sum()
    )
    precision = posterior(problem, theta)
    of_posterior = ldiv.logdet(precision, assume_a="pos")
    misfit = s * y @ (y - problem.interpolation @ expected(problem, theta, y, precision))
    return (of_prior - of_posterior + m * s.log() - misfit - m * math.log(2 * math.pi)) / 2


def derivatives(
    problem: Problem, theta: torch.Tensor, y: torch.Tensor
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """log p(y), its gradient and its Hessian, from two factorizations."""
    theta = theta.detach().requires_grad_()
    value = log_likelihood(problem, theta, y)
    (gradient,) = torch.autograd.grad(value, theta, create_graph=True)
    rows = [torch.autograd.grad(g, theta, retain_graph=True)[0] for g in gradient]
    return value.item(), gradient.detach(), torch.stack(rows)


def sampled(problem: Problem, theta: torch.Tensor, seed: int = 1) -> tuple[torch.Tensor, Any]:
    """(A field, data): x = K^-1 C^(1/2) z / tau."""
    (kappa, tau, s), rng = strengths(theta), np.random.default_rng(seed)
    z = torch.from_numpy(rng.standard_normal(len(problem.diagonal)))
    x = ldiv.solve(problem.operator(kappa), problem.diagonal.sqrt() * z, assume_a="pos") / tau
    values = problem.interpolation @ x
    return x, values + torch.from_numpy(rng.standard_normal(len(values))) / s.sqrt()


# -- Newton's method ------------------------------------------------------------------------------


@dataclass
class History:
    """The measurements of the run."""

    gradient_error: float = np.inf
    hessian_error: float = np.inf
    likelihood: list[float] = field(default_factory=list)  # after each step
    decrement: list[float] = field(default_factory=list)
    found: tuple[float, ...] = ()  # range, standard deviations of the field and of the noise
    deviations: tuple[float, ...] = ()  # of their logarithms
    covered: float = 0.0  # the part of the nodes whose true value is within two deviations
    picture: Path | None = None


def checked(history: History, problem: Problem, theta: torch.Tensor, y: torch.Tensor) -> None:
    """Gradient and Hessian against central differences in one direction."""
    d, h = torch.tensor([0.6, -0.5, 0.4], dtype=torch.float64), 1e-3
    _, gradient, hessian = derivatives(problem, theta, y)
    at = {k: derivatives(problem, theta + k * h * d, y) for k in (-2, -1, 1, 2)}

    def slope(i: int) -> Any:
        return (8 * (at[1][i] - at[-1][i]) - (at[2][i] - at[-2][i])) / (12 * h)

    history.gradient_error = abs(float(gradient @ d) / float(slope(0)) - 1)
    history.hessian_error = float((hessian @ d - slope(1)).norm() / slope(1).norm())


def maximized(
    history: History, problem: Problem, y: torch.Tensor, steps: int, console: Console
) -> tuple[torch.Tensor, torch.Tensor]:
    """(theta, the Hessian there): steps uphill in every eigendirection, of at most 1, halved until
    the likelihood grows.
    """
    theta = torch.tensor(START, dtype=torch.float64).log()
    value, gradient, hessian = derivatives(problem, theta, y)
    for step in range(steps):
        lam, vectors = torch.linalg.eigh(hessian)
        move = vectors @ ((vectors.T @ gradient) / lam.abs())
        decrement = float(gradient @ move)
        history.likelihood.append(value)
        history.decrement.append(decrement)
        shown = ", ".join(f"{x:.4f}" for x in theta.exp())
        console.print(f"step {step}: log p = {value:.6f}, decrement {decrement:.1e}, at {shown}")
        if decrement < CONVERGED:
            break
        move = move / max(1.0, float(move.abs().max()))
        there = derivatives(problem, theta + move, y)
        for _ in range(20):
            if there[0] > value:
                break
            move = move / 2
            there = derivatives(problem, theta + move, y)
        theta, (value, gradient, hessian) = theta + move, there
    return theta, hessian


def draw(
    problem: Problem, history: History, fields: dict[str, Any], y: torch.Tensor, path: Path
) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9, 7.6), layout="constrained")
    (low, high), x = np.percentile(y, [1, 99]), problem.mesh.p
    for axis, (name, values) in zip(axes.flat, fields.items(), strict=False):
        limits = {} if "deviation" in name else {"vmin": low, "vmax": high}
        drawn = axis.tripcolor(*x, problem.mesh.t.T, values, shading="gouraud", **limits)
        figure.colorbar(drawn, ax=axis, label=name)
    drawn = axes[1, 1].scatter(*problem.places, c=y, s=2, vmin=low, vmax=high)
    figure.colorbar(drawn, ax=axes[1, 1], label="data")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[], aspect="equal")
    figure.suptitle(
        "range {:.3f}, field {:.3f}, noise {:.4f}".format(*history.found)
        + " (true: {}, {}, {})".format(*TRUTH)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if a derivative is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=199, help="cells along a side (default: 199)")
    parser.add_argument("--points", type=int, default=4000, help="data (default: 4000)")
    parser.add_argument("--steps", type=int, default=30, help="at most (default: 30)")
    parser.add_argument("--out", type=Path, default=Path("out/gmrf.png"))
    args = parser.parse_args(argv)
    console, history = Console(), History()

    small = square(12, 60)
    start = torch.tensor(START, dtype=torch.float64).log()
    checked(history, small, start, sampled(small, start)[1])
    errors = history.gradient_error, history.hessian_error
    console.print(f"errors of gradient and Hessian: {errors[0]:.0e}, {errors[1]:.0e}")
    if not max(errors) < TOLERANCE:
        raise SystemExit(1)

    problem = square(args.size, args.points)
    truth, y = sampled(problem, torch.tensor(TRUTH, dtype=torch.float64).log())
    console.print(f"{len(truth):,} nodes, {len(y):,} data")
    theta, hessian = maximized(history, problem, y, args.steps, console)
    history.found = tuple(theta.exp().tolist())
    history.deviations = tuple(torch.linalg.inv(-hessian).diagonal().sqrt().tolist())
    precision = posterior(problem, theta)
    mean = expected(problem, theta, y, precision)
    deviation = ldiv.inverse_diagonal(precision, assume_a="pos").sqrt()
    history.covered = float(((truth - mean).abs() < 2 * deviation).double().mean())
    fields = {"true": truth, "posterior mean": mean, "posterior standard deviation": deviation}
    draw(problem, history, {k: v.numpy() for k, v in fields.items()}, y, args.out)
    history.picture = args.out
    console.print(
        f"{history.covered:.1%} of the field within two standard deviations; picture in {args.out}"
    )
    return history


if __name__ == "__main__":
    main()
