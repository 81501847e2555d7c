"""Graph learning: a network found from what its nodes do
======================================================

Sensors are coupled along unknown links. From many simultaneous readings, which links are there, and how
strong are they? The readings are drawn from a Gaussian whose precision is the Laplacian of the graph::

    minimize over w >= 0     tr(S Q(w)) - log det Q(w)        Q(w) = sum_e w_e (e_i - e_j)(e_i - e_j)^T + c I

S is the covariance of the readings. The problem is convex, and its gradient on link e = (i, j) is::

    (S_ii + S_jj - 2 S_ij) - (Q^-1_ii + Q^-1_jj - 2 Q^-1_ij)

the squared difference that was seen, less the effective resistance of the network: entries of Q^-1 on
the pattern of Q, which is what the derivative of `ldiv.logdet` computes, without an inverse.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.collections import LineCollection
from scipy.optimize import minimize
from scipy.spatial import Delaunay, cKDTree

import ldiv

# %%
# The truth
# ---------
# 200 sensors, and half of the edges of their triangulation.

random = np.random.default_rng(0)
n, ground = 200, 0.1
place = random.uniform(size=(n, 2))
corners = Delaunay(place).simplices
edges = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]]])), axis=0)
edges = edges[random.uniform(size=len(edges)) < 0.5]
strengths = random.uniform(0.5, 2.0, len(edges))


def laplacian(w: torch.Tensor, links: np.ndarray) -> ldiv.SparseArray:
    """Duplicates add up: each link adds to two diagonal entries and takes from two others."""
    i, j = links.T
    nodes = np.arange(n)
    rows, cols = np.concatenate([i, j, i, j, nodes]), np.concatenate([i, j, j, i, nodes])
    values = torch.cat([w, w, -w, -w, torch.full((n,), ground, dtype=w.dtype)])
    return ldiv.coo_array((values, (rows, cols)), shape=(n, n))


# %%
# The readings
# ------------
# x = L^-T z has the covariance (L L^T)^-1 = Q^-1.

truth = laplacian(torch.from_numpy(strengths), edges)
L = np.linalg.cholesky(truth.toarray().numpy())
readings = ldiv.solve_triangular(L, random.standard_normal((n, 5000)), lower=True, trans="T")

# %%
# The candidates
# --------------
# Each sensor may be coupled with its ten nearest neighbors: a thousand candidates.

near = cKDTree(place).query(place, 11)[1]
pairs = np.stack([np.repeat(near[:, 0], 10), near[:, 1:].ravel()], axis=1)
links = np.unique(np.sort(pairs), axis=0)
seen = ((readings[links[:, 0]] - readings[links[:, 1]]) ** 2).mean(1)
differences = torch.from_numpy(seen)


def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
    w = torch.from_numpy(weights.copy()).requires_grad_()
    value = differences @ w - ldiv.logdet(laplacian(w, links), assume_a="pos")
    value.backward()
    assert w.grad is not None
    return value.item(), w.grad.numpy()


found = minimize(
    loss,
    np.ones(len(links)),
    jac=True,
    method="L-BFGS-B",
    bounds=[(0, None)] * len(links),
    options={"maxiter": 500, "maxfun": 1000, "ftol": 1e-12},
)
print(f"{len(links)} candidates, {found.nfev} evaluations")

# %%
# What was found
# --------------
# A link counts as found above a fifth of the weakest true strength.

present = links[found.x > 0.25]
both = len({*map(tuple, present)} & {*map(tuple, edges)})
score = 2 * both / (len(present) + len(edges))
exact = dict(zip(map(tuple, edges), strengths, strict=True))
true_weights = np.array([exact.get(link, 0.0) for link in map(tuple, links)])
correlation = np.corrcoef(true_weights, found.x)[0, 1]
print(f"{both} of {len(edges)} links found, {len(present) - both} too many: F = {score:.3f}")
print(f"correlation of the strengths: {correlation:.3f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
drawings = {"true": (edges, strengths), "found": (links, found.x)}
for axis, (title, (drawn, weight)) in zip(axes, drawings.items(), strict=True):
    axis.add_collection(LineCollection(list(place[drawn]), linewidths=2 * weight, colors="C0"))
    axis.plot(*place.T, "k.", markersize=4)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")
Path("out").mkdir(exist_ok=True)
figure.savefig("out/graph_learning.png", dpi=110)
