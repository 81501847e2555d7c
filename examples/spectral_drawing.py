"""Spectral graphs: a molecule drawn by its eigenvectors
=====================================================

The eigenvectors of a graph's Laplacian are coordinates for its nodes. Those of the football (or of the
molecule C60) come in threes, for three equal eigenvalues: a round drawing, in a basis that is arbitrary.
A graph with equal weights is drawn with two lengths of edges. Which weights draw all of them alike? ::

    minimize over w     var_e |x_i - x_j|^2 / mean_e |x_i - x_j|^2          X = the eigenvectors 2 to 4 of L(w)

No eigenvector has a derivative where eigenvalues coincide. The subspace of all three has one, and
distances do not depend on its basis: `ldiv.eigenspace`.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from rich.progress import track

import ldiv

# %%
# The graph
# ---------
# A football is an icosahedron whose twelve corners are cut off: its nodes are the directed edges i -> j,
# near i. Long edges lead to the other end, short ones around the corner.

golden = (1 + np.sqrt(5)) / 2
signs = [(a, b) for a in (-1, 1) for b in (-golden, golden)]
solid = np.array([np.roll([0, a, b], k) for k in range(3) for a, b in signs])
apart = np.linalg.norm(solid[:, None] - solid[None], axis=2)
names = [(i, j) for i in range(12) for j in range(12) if abs(apart[i, j] - 2) < 1e-9]
between = [(names.index((i, j)), names.index((j, i))) for i, j in names if i < j]
around = [
    (names.index((i, j)), names.index((i, k)))
    for i, j in names
    for k in range(j)
    if (i, k) in names and abs(apart[j, k] - 2) < 1e-9
]
edges = np.array(between + around)
i, j = edges.T
n = len(names)


def laplacian(w: torch.Tensor) -> ldiv.SparseArray:
    rows, cols = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
    return ldiv.coo_array((torch.cat([w, w, -w, -w]), (rows, cols)), shape=(n, n))


# %%
# The drawing
# -----------
# The lowest eigenvector is constant, and draws nothing: all four are one subspace, and distances between
# nodes do not see the constant.


def squared_lengths(w: torch.Tensor) -> torch.Tensor:
    X, _ = ldiv.eigenspace(laplacian(w), 4, sigma=-0.1)
    return ((X[i] - X[j]) ** 2).sum(1)


def unevenness(w: torch.Tensor) -> torch.Tensor:
    lengths = squared_lengths(w)
    return lengths.var() / lengths.mean() ** 2


# %%
# Equal weights first. A single eigenvalue of the three is refused: it has no derivative.

w = torch.ones(len(edges), dtype=torch.float64, requires_grad=True)
values, _ = ldiv.eigsh(laplacian(w), 4, sigma=-0.1)
print("eigenvalues", values.detach().numpy().round(6))
try:
    torch.autograd.grad(values[1], w)
except ldiv.NotDifferentiableError as refusal:
    print("refused:", str(refusal)[:90], "...")

# %%
# All 90 weights are free; each step goes down their gradient, through the triple eigenvalue.

optimizer = torch.optim.LBFGS([w], max_iter=10, line_search_fn="strong_wolfe", tolerance_change=0)


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = unevenness(w)
    loss.backward()
    return loss


start = unevenness(w).item()
for _ in track(range(6), "drawing"):
    optimizer.step(closure)
final = unevenness(w).item()
ratio = (w[: len(between)].mean() / w[len(between) :].mean()).item()
print(f"unevenness {start:.1e} -> {final:.1e}; weights between : around = {ratio:.9f}")

# %%
# The picture
# -----------
# Any basis of the three will do; this one looks at the football from a corner.


def draw(axis: Axes, w: torch.Tensor, title: str) -> None:
    _, X = ldiv.eigsh(laplacian(w.detach()), 4, sigma=-0.1)
    x, y, depth = X[:, 1:].T.numpy()
    for kind, color in ((between, "C1"), (around, "C0")):
        for a, b in kind:
            front = (depth[a] + depth[b]) > 0
            axis.plot(x[[a, b]], y[[a, b]], color, alpha=1 if front else 0.25, zorder=front)
    axis.set(title=title, aspect="equal")
    axis.axis("off")


figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
draw(axes[0], torch.ones_like(w), "equal weights")
draw(axes[1], w, "equal lengths")
Path("out").mkdir(exist_ok=True)
figure.savefig("out/spectral_drawing.png", dpi=110)
