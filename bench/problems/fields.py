"""Functions whose Jacobians and Hessians are sparse, for PyTorch and JAX alike, and their patterns.

chain       f_i = x_i^3 + 2 x_i - x_{i+1} - x_{i-1}^2;            E = sum (x_{i+1} - x_i)^4 + x_i^3: tridiagonal
grid        4 u - neighbors - exp u, on a square (Bratu);         E = sum over neighbors of sqrt(1 + (u_i - u_j)^2): five-point stencil
mesh        -div((1 + |grad u|^2)^(1/2) grad u) by linear finite elements, E its energy: vertices that share a triangle
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
import scipy.spatial
from array_api_compat import array_namespace

Field = Callable[[Any], Any]
JITTER = 0.25  # of the distance of two points


@dataclass(frozen=True)
class Problem:
    """A function (n,) -> (n,), one (n,) -> (), and where their Jacobian and Hessian may not be
    zero.
    """

    title: str
    f: Field
    energy: Field
    pattern: sp.coo_array

    @property
    def n(self) -> int:
        return int(self.pattern.shape[0])


def chain(n: int) -> Problem:
    return Problem(f"tridiagonal, n = {n:,}", _chain, _chain_energy, line(n))


def _chain(x: Any) -> Any:
    xp, zero = array_namespace(x), 0 * x[:1]
    return x**3 + 2 * x - xp.concat([x[1:], zero]) - xp.concat([zero, x[:-1]]) ** 2


def _chain_energy(x: Any) -> Any:
    return ((x[1:] - x[:-1]) ** 4).sum() + (x**3).sum()


def grid(side: int) -> Problem:
    def bratu(x: Any) -> Any:
        xp, u = array_namespace(x), x.reshape(side, side)
        row, column = 0 * u[:1], 0 * u[:, :1]
        vertical = xp.concat([u[1:], row]) + xp.concat([row, u[:-1]])
        horizontal = xp.concat([u[:, 1:], column], axis=1) + xp.concat([column, u[:, :-1]], axis=1)
        return (4 * u - vertical - horizontal - xp.exp(u)).reshape(-1)

    def energy(x: Any) -> Any:
        u = x.reshape(side, side)
        return sum(((1 + d**2) ** 0.5).sum() for d in (u[1:] - u[:-1], u[:, 1:] - u[:, :-1]))

    return Problem(f"five-point stencil, n = {side**2:,}", bratu, energy, stencil(side))


def mesh(points: Any, kind: str) -> Problem:
    """Linear elements on the Delaunay triangles of points in the plane; for JAX."""
    triangles = scipy.spatial.Delaunay(points).simplices
    corners = points[triangles]
    edges = corners[:, [1, 2]] - corners[:, [0]]
    inverse = np.linalg.inv(edges)  # rows of edges^-T are the gradients of two of the hat functions
    # (triangles, 2, 3)
    gradients = np.concatenate([-inverse.sum(axis=2, keepdims=True), inverse], axis=2)
    areas = np.abs(np.linalg.det(edges)) / 2

    def slopes(u: Any) -> Any:
        return (gradients * u[triangles][:, None]).sum(axis=2)

    def energy(u: Any) -> Any:
        return (areas * (1 + (slopes(u) ** 2).sum(axis=1)) ** 1.5).sum() / 3

    def f(u: Any) -> Any:
        g = slopes(u)
        flow = (areas * (1 + (g**2).sum(axis=1)) ** 0.5)[:, None] * g
        return jax.numpy.zeros_like(u).at[triangles].add((gradients * flow[:, :, None]).sum(axis=1))

    return Problem(f"{kind}, n = {len(points):,}", f, energy, adjacency(triangles, len(points)))


# -- points and patterns ------------------------------------------------------


def even(side: int) -> Any:
    """Points that triangles of a good shape come from: those of equilateral ones, disturbed
    inside.
    """
    i, j = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    points = np.stack([j + 0.5 * (i % 2), i * 0.75**0.5], axis=-1)
    points[1:-1, 1:-1] += JITTER * np.random.default_rng(side).uniform(
        -1, 1, (side - 2, side - 2, 2)
    )
    return points.reshape(-1, 2)


def scattered(n: int) -> Any:
    """Points anywhere."""
    return np.random.default_rng(n).uniform(0, n**0.5, (n, 2))


def line(n: int) -> sp.coo_array:
    return sp.coo_array(
        sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])
    )


def stencil(side: int) -> sp.coo_array:
    neighbors, each = line(side), sp.eye_array(side)
    return sp.coo_array(sp.kron(neighbors, each) + sp.kron(each, neighbors))


def adjacency(triangles: Any, n: int) -> sp.coo_array:
    """Vertices that share a triangle, and each with itself."""
    rows, cols = (np.repeat(triangles, 3, axis=1).ravel(), np.tile(triangles, 3).ravel())
    return sp.coo_array(sp.csr_array((np.ones(len(rows)), (rows, cols)), shape=(n, n)))


def arrow(n: int) -> sp.coo_array:
    """A full row, a full column and the diagonal."""
    a = sp.lil_array(sp.eye_array(n))
    a[0, :], a[:, 0] = 1, 1
    return sp.coo_array(a)
