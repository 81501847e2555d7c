"""Robotics: a map from distances, and how it depends on the noise of the sensor
=============================================================================

Robots measure the distances to their neighbors, and know their own positions roughly. Where are they?
Some of the distances are echoes, far too long, so that the loss is robust::

    minimize over x     sum rho((|x_i - x_j| - d_ij)^2 / s^2) + sum |x_i - rough_i|^2 / S^2

s is the noise of the distances, S that of the rough positions. How much should the map trust the
distances? The gradient in s of the error at a few surveyed points says it: by the implicit function
theorem, without a second fit, on a Hessian that is as sparse as the graph of the neighbors.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.spatial import cKDTree

import ldiv

# %%
# The truth and the measurements
# ------------------------------
# 400 robots on a disturbed lattice; every twentieth distance is an echo.

random = np.random.default_rng(0)
side, noise, rough_noise = 20, 0.02, 0.15
lattice = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
place = lattice + random.uniform(-0.25, 0.25, lattice.shape)
n = len(place)
near = cKDTree(place).query(place, 7)[1]
pairs = np.stack([np.repeat(near[:, 0], 6), near[:, 1:].ravel()], axis=1)
links = np.unique(np.sort(pairs), axis=0)
m = len(links)
distances = np.linalg.norm(place[links[:, 0]] - place[links[:, 1]], axis=1)
distances += noise * random.standard_normal(m)
echoes = random.uniform(size=m) < 0.05
distances[echoes] += random.uniform(0.3, 1.0, echoes.sum())
rough = torch.from_numpy((place + rough_noise * random.standard_normal(place.shape)).ravel())
seen = torch.from_numpy(distances)
i, j = torch.from_numpy(links.T.copy())


def residual(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """Distances in units of their noise, then rough positions in units of theirs."""
    at = x.reshape(-1, 2)
    return torch.cat([((at[i] - at[j]).norm(dim=1) - seen) / s, (x - rough) / rough_noise])


# %%
# The pattern
# -----------
# A distance has four coordinates in it, a rough position one.

first, second = 2 * links.T
of_links = np.stack([first, first + 1, second, second + 1], axis=1).ravel()
own = np.arange(2 * n)
rows = np.concatenate([np.repeat(np.arange(m), 4), m + own])
pattern = ldiv.coo_array(
    (np.ones(4 * m + 2 * n), (rows, np.concatenate([of_links, own]))), shape=(m + 2 * n, 2 * n)
)


def fit(s: torch.Tensor, robust: bool = True) -> torch.Tensor:
    return ldiv.least_squares(
        residual, rough, s, pattern=pattern, loss="cauchy" if robust else "linear", f_scale=2.0
    )


# %%
# The map
# -------

s = torch.tensor(noise, dtype=torch.float64, requires_grad=True)
x = fit(s)


def error(x: torch.Tensor) -> float:
    """The root mean square distance to the truth."""
    off = x.detach().numpy().reshape(-1, 2) - place
    return float(np.sqrt((off**2).sum(1).mean()))


print(f"{2 * n} unknowns, {m + 2 * n} residuals, {echoes.sum()} echoes")
print(f"error: rough {error(rough):.4f}, without a robust loss {error(fit(s, robust=False)):.4f}")
print(f"       cauchy {error(x):.4f}")

# %%
# How much to trust the sensor
# ----------------------------
# The mean square error at 40 surveyed points, and its derivative in s; beside it differences of two fits.

surveyed = random.choice(n, 40, replace=False)
known = torch.from_numpy(place[surveyed])


def survey(x: torch.Tensor) -> torch.Tensor:
    return ((x.reshape(-1, 2)[surveyed] - known) ** 2).sum(1).mean()


(slope,) = torch.autograd.grad(survey(x), s)
step = 1e-5
above, below = (survey(fit(s.detach() + h)).item() for h in (step, -step))
difference = (above - below) / (2 * step)
print(f"d error / d s: {slope.item():.6e}, by differences {difference:.6e}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
found = {"rough positions": rough, "from distances": x}
for axis, (title, positions) in zip(axes, found.items(), strict=True):
    at = positions.detach().numpy().reshape(-1, 2)
    axis.plot(*np.stack([place, at], axis=0).transpose(2, 0, 1), "C1-", linewidth=1.5)
    axis.plot(*place.T, "k.", markersize=3)
    axis.set(title=f"{title}: error {error(positions):.3f}", xticks=[], yticks=[], aspect="equal")
for a, b in links[echoes]:
    axes[1].plot(*place[[a, b]].T, "C3:", linewidth=0.8)
Path("out").mkdir(exist_ok=True)
figure.savefig("out/range_map.png", dpi=110)
