"""Cameras and points in a plane: bearings of points from the cameras that see them, and a rough place for each camera.

The unknowns are x, y and the direction of each camera, then x, y of each point. Cameras stand in a row; a point is seen by
three neighbors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import ldiv

SEEN, ROUGH = 3, 10.0


@dataclass(frozen=True)
class Bundle:
    """The places of cameras and points, and which camera sees which point."""

    cameras: Any
    points: Any
    camera: Any
    point: Any
    noise: Any

    @property
    def title(self) -> str:
        return f"{len(self.cameras):,} cameras and {len(self.points):,} points"

    @property
    def start(self) -> Any:
        return torch.from_numpy(np.concatenate([self.cameras.ravel(), self.points.ravel()]))

    @property
    def pattern(self) -> Any:
        k, own = self.cameras.size, np.arange(self.cameras.size)
        of_camera = 3 * self.camera[:, None] + np.arange(3)
        of_point = k + 2 * self.point[:, None] + np.arange(2)
        columns, m = np.concatenate([of_camera, of_point], axis=1), len(self.camera)
        rows = np.concatenate([np.repeat(np.arange(m), 5), m + own])
        columns = np.concatenate([columns.ravel(), own])
        shape = m + k, k + self.points.size
        return ldiv.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape)

    def bearings(self, x: Any) -> Any:
        k, camera, point = self.cameras.size, *map(torch.from_numpy, (self.camera, self.point))
        c = x[:k].reshape(-1, 3)[camera]
        q = x[k:].reshape(-1, 2)[point] - c[:, :2]
        return torch.atan2(q[:, 0], q[:, 1]) - c[:, 2]

    def data(self, scale: float) -> Any:
        """The measured bearings, with noise of this scale."""
        return (self.bearings(self.start) + scale * torch.from_numpy(self.noise)).requires_grad_()

    def residual(self) -> Callable[[Any, Any], Any]:
        rough = self.start[: self.cameras.size]

        def f(x: Any, measured: Any) -> Any:
            return torch.cat([self.bearings(x) - measured, (x[: len(rough)] - rough) / ROUGH])

        return f


def bundle(cameras: int, points: int) -> Bundle:
    random = np.random.default_rng(1)
    first = random.integers(0, cameras - SEEN, points)
    stand = np.stack([np.arange(cameras), np.zeros(cameras), np.zeros(cameras)], axis=1)
    place = np.stack([first + random.uniform(0, SEEN, points), random.uniform(2, 6, points)], 1)
    camera = (first[:, None] + np.arange(SEEN)).ravel()
    noise = 1e-3 * random.standard_normal(len(camera))
    return Bundle(stand, place, camera, np.repeat(np.arange(points), SEEN), noise)
