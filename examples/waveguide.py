"""Photonics: a bend for light in a waveguide, by the adjoint
==========================================================

A waveguide turns a corner of a few wavelengths. Which distribution of glass around the corner loses
the least light? The field E of a wave exp(-i w t) solves a complex Helmholtz equation, by finite
differences in a box whose walls absorb (a perfectly matched layer)::

    d/dx (1/s) d/dx E + d/dy (1/s) d/dy E + k^2 eps E = f       s = 1 + i sigma: stretched lengths in the wall

The figure of merit is the share of the power that leaves in the mode of the second guide. Its
gradient in 2,304 permittivities costs one more solve with the factors of the field; those are
complex, and the adjoint is the solve with the conjugate transpose, which no line here mentions.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
import torch
from rich.progress import track

import ldiv

# %%
# The box
# -------
# Twenty cells a wavelength, five wavelengths wide. Lengths are in wavelengths in vacuum.

h, n, wall = 1 / 20, 104, 16
k = 2 * np.pi
glass, air = 2.25, 1.0


slopes = sp.diags_array([np.ones(n), -np.ones(n)], offsets=[0, -1], shape=(n + 1, n)) / h


def stretching(i: Any) -> Any:
    """1/s at the place i, in cells."""
    depth = np.clip(np.maximum(wall - i, i - (n - wall)), 0, None) / wall
    return sp.diags_array(1 / (1 + 5j * depth**2))


second = -stretching(np.arange(n) + 0.5) @ slopes.T @ stretching(np.arange(n + 1)) @ slopes
laplacian = ldiv.asarray(sp.kronsum(second, second, format="csr"))
laplacian = laplacian.with_data(torch.from_numpy(laplacian.data))

# %%
# The guides, and their mode
# --------------------------
# Light comes in from the left and shall leave at the top. The mode of a straight guide is an eigenvector
# of its cross-section; the guide is so narrow that it has one.

cell = (np.arange(n) + 0.5) * h
width, centre = 0.4, n * h / 2
inside = abs(cell - centre) < width / 2
section = sp.diags_array(k**2 * np.where(inside, glass, air)) - slopes.T @ slopes
w, modes = ldiv.eigsh(section, 2, which="LA")
mode = modes[:, 1]
assert w[0] < k**2 < w[1]  # the second one is not guided

across, along = np.meshgrid(cell, cell, indexing="ij")  # E[i, j] is at x = cell[i], y = cell[j]
comes = (abs(along - centre) < width / 2) & (across < centre + width / 2)
leaves = (abs(across - centre) < width / 2) & (along > centre - width / 2)
guides = torch.from_numpy(np.where(comes | leaves, glass, air))
straight = torch.from_numpy(np.where(abs(along - centre) < width / 2, glass, air))

source = np.zeros((n, n))
source[wall + 4] = mode
f = torch.from_numpy(source.ravel() / h).to(torch.complex128)


def field(eps: torch.Tensor) -> torch.Tensor:
    A = laplacian + ldiv.diags_array([k**2 * eps.to(torch.complex128).ravel()])
    return ldiv.solve(A, f).reshape(n, n)


# %%
# What comes through
# ------------------
# The power in the mode, over the power that passes when the guide is straight.

profile = torch.from_numpy(mode).to(torch.complex128)
reference = (profile @ field(straight)[-wall - 4]).abs() ** 2


def transmission(eps: torch.Tensor) -> torch.Tensor:
    return (profile @ field(eps)[:, -wall - 4]).abs() ** 2 / reference


# %%
# The design
# ----------
# A square of 2.4 wavelengths at the corner may hold any share of glass. The shares are blurred, so that nothing is finer than what
# can be made, and pushed towards 0 and 1, more so from step to step.

free = slice(n // 2 - 24, n // 2 + 24)
blur = sp.diags_array([np.ones(48)] * 5, offsets=[-2, -1, 0, 1, 2], shape=(48, 48)).toarray() / 5
blur_by = torch.from_numpy(blur)


def permittivity(p: torch.Tensor, sharpness: float) -> torch.Tensor:
    share = torch.sigmoid(sharpness * (blur_by @ p @ blur_by.T))
    eps = guides.clone()
    eps[free, free] = air + (glass - air) * share
    return eps


start = (guides[free, free] - (glass + air) / 2).clone()
p = start.clone().requires_grad_()
optimizer = torch.optim.Adam([p], lr=0.2)
history = []
for step in track(range(60), "bending light"):
    loss = -transmission(permittivity(p, 1 + step / 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(-loss.item())

# %%
# A bend that is glass wherever the share is above one half, and the plain corner:

with torch.no_grad():
    plain = transmission(guides).item()
    final = permittivity(p, 1e3)
    best = transmission(final).item()
    E = field(final).real.numpy().T
drawn = final.numpy().T
print(f"the plain corner passes {plain:.0%} of the light, the design {best:.1%}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
box = (0, n * h, 0, n * h)
axes[0].imshow(drawn, origin="lower", extent=box, cmap="gray_r")
axes[0].set(title="glass")
limit = abs(E).max()
axes[1].imshow(E, origin="lower", extent=box, cmap="RdBu", vmin=-limit, vmax=limit)
axes[1].contour(drawn, [1.6], colors="k", linewidths=0.5, extent=box)
axes[1].set(title="field")
axes[2].plot(history)
axes[2].set(xlabel="step", ylabel="transmission", ylim=(0, 1))
Path("out").mkdir(exist_ok=True)
figure.savefig("out/waveguide.png", dpi=110)
