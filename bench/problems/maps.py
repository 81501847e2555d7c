"""A map: points from distances to their neighbors and rough positions, which each point has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

import ldiv

NEAR, NOISE, ROUGH = 8, 0.05, 0.3


@dataclass(frozen=True)
class Map:
    """Points on a disturbed lattice, the links to their neighbors, and what was measured."""

    place: Any
    links: Any
    distances: Any
    rough: Any

    @property
    def title(self) -> str:
        return (
            f"{2 * len(self.place):,} unknowns, {len(self.links) + 2 * len(self.place):,} residuals"
        )

    @property
    def start(self) -> Any:
        return torch.from_numpy(self.rough)

    def data(self, scale: float) -> Any:
        """The weights of all distances."""
        return torch.full((len(self.links),), scale, dtype=torch.float64, requires_grad=True)

    @property
    def pattern(self) -> Any:
        m, n = len(self.links), len(self.place)
        first, second = 2 * self.links.T
        cols = np.stack([first, first + 1, second, second + 1], axis=1).ravel()
        own = np.arange(2 * n)
        rows = np.concatenate([np.repeat(np.arange(m), 4), m + own])
        cols = np.concatenate([cols, own])
        return ldiv.coo_array((np.ones(len(rows)), (rows, cols)), shape=(m + 2 * n, 2 * n))

    def residual(self) -> Callable[[Any, Any], Any]:
        i, j = torch.from_numpy(self.links.T.copy())
        rough, distances = torch.from_numpy(self.rough), torch.from_numpy(self.distances)

        def f(x: Any, weights: Any) -> Any:
            at = x.reshape(-1, 2)
            ranges = (at[i] - at[j]).norm(dim=1) - distances
            return torch.cat([weights * ranges / NOISE, (x - rough) / ROUGH])

        return f


def made(side: int, seed: int = 0) -> Map:
    random = np.random.default_rng(seed)
    lattice = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    place = lattice + random.uniform(-0.25, 0.25, lattice.shape)
    near = cKDTree(place).query(place, NEAR + 1)[1]
    pairs = np.stack([np.repeat(near[:, 0], NEAR), near[:, 1:].ravel()], axis=1)
    links = np.unique(np.sort(pairs), axis=0)
    distances = np.linalg.norm(place[links[:, 0]] - place[links[:, 1]], axis=1)
    distances += NOISE * random.standard_normal(len(links))
    rough = (place + ROUGH * random.standard_normal(place.shape)).ravel()
    return Map(place, links, distances, rough)
