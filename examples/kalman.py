"""Tracking: a Kalman smoother is one sparse solve
===============================================

A drone is seen every second, by a sensor with noise. Its states of all times at once are the solution of
one block tridiagonal system, which is what a Kalman filter and a smoother after it compute step by step::

    x_0 ~ N(0, P),   x_{t+1} = F x_t + w,  w ~ N(0, q W),    y_t = H x_t + v,  v ~ N(0, r I)
    (G^T D(q)^-1 G + I x H^T H / r) x = I x H^T y / r               G: 1 on the diagonal, -F below it

How much the drone swerves (q) and how noisy the sensor is (r) maximize the likelihood of what was seen::

    -2 log p(y) = log det Lambda + sum log det D + m log r + y^T y / r - b^T x + ...

with Lambda the matrix and b the right-hand side above. The gradient needs entries of Lambda^-1 on the
three diagonals of blocks alone; so do the error bars of the track.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import minimize

import ldiv

# %%
# The model
# ---------
# Places and velocities in the plane; the velocity is pushed at random.

steps, dt = 500, 1.0
F = np.kron([[1.0, dt], [0.0, 1.0]], np.eye(2))
W = np.kron([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]], np.eye(2))
H = np.eye(2, 4)
start = np.diag([1e4, 1e4, 10.0, 10.0])
q_true, r_true = 0.05, 25.0

random = np.random.default_rng(0)
states = [random.multivariate_normal(np.zeros(4), start)]
for _ in range(steps - 1):
    states.append(F @ states[-1] + random.multivariate_normal(np.zeros(4), q_true * W))
track = np.array(states)
seen = track @ H.T + np.sqrt(r_true) * random.standard_normal((steps, 2))

# %%
# The system
# ----------
# Three constant matrices: the start, the pushes, the sensor. Only their weights 1, 1/q, 1/r vary.

below = sp.diags_array([np.ones(steps - 1)], offsets=[-1], shape=(steps, steps))
G = sp.eye_array(4 * steps) - sp.kron(below, F)
first, later = np.eye(1, steps)[0], np.r_[0.0, np.ones(steps - 1)]
weights = [
    sp.kron(sp.diags_array(first), np.linalg.inv(start)),
    sp.kron(sp.diags_array(later), np.linalg.inv(W)),
]
start_part, push_part = (ldiv.asarray((G.T @ D @ G).tocsr()) for D in weights)
sensor_part = ldiv.asarray(sp.kron(sp.eye_array(steps), H.T @ H).tocsr())
start_part, push_part, sensor_part = (
    part.with_data(torch.from_numpy(part.data)) for part in (start_part, push_part, sensor_part)
)
y = torch.from_numpy(seen)
log_det_start, log_det_W = np.linalg.slogdet(start)[1], np.linalg.slogdet(W)[1]


def system(log_q: torch.Tensor, log_r: torch.Tensor) -> tuple[ldiv.SparseArray, torch.Tensor]:
    precision = start_part + torch.exp(-log_q) * push_part + torch.exp(-log_r) * sensor_part
    return precision, torch.exp(-log_r) * (y @ torch.from_numpy(H)).ravel()


def log_likelihood(theta: torch.Tensor) -> torch.Tensor:
    log_q, log_r = theta
    precision, b = system(log_q, log_r)
    x = ldiv.solve(precision, b, assume_a="pos")
    squares = torch.exp(-log_r) * (y**2).sum() - b @ x
    prior = log_det_start + (steps - 1) * (log_det_W + 4 * log_q)
    noise = y.numel() * (log_r + np.log(2 * np.pi))
    return -(squares + ldiv.logdet(precision, assume_a="pos") + prior + noise) / 2


# %%
# The two variances
# -----------------


def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
    at = torch.from_numpy(theta.copy()).requires_grad_()
    value = -log_likelihood(at)
    value.backward()
    assert at.grad is not None
    return value.item(), at.grad.numpy()


found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B")
q, r = np.exp(found.x)
print(f"q = {q:.4f} (true {q_true}), r = {r:.3f} (true {r_true})")
print(f"log p(y) = {-found.fun:.6f} after {found.nfev} evaluations")

# %%
# The track
# ---------

precision, b = system(*torch.log(torch.tensor([q, r], dtype=torch.float64)))
smooth = ldiv.solve(precision, b, assume_a="pos").reshape(steps, 4).numpy()
bars = ldiv.inverse_diagonal(precision, assume_a="pos").reshape(steps, 4).sqrt().numpy()
inside = (abs(smooth - track) < 2 * bars).mean()
error = np.sqrt(((smooth - track)[:, :2] ** 2).sum(1).mean())
print(f"off by {error:.2f} m on average, the sensor by {np.sqrt(2 * r):.2f} m")
print(f"{inside:.0%} of the states are within two standard deviations")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
shown = slice(0, 120)
axes[0].plot(*seen[shown].T, ".", color="0.6", label="seen")
axes[0].plot(*track[shown, :2].T, "k:", label="true")
axes[0].plot(*smooth[shown, :2].T, label="smoothed")
axes[0].set(xlabel="m", ylabel="m", title="the first two minutes")
axes[0].legend()
t = np.arange(200)
axes[1].fill_between(
    t, *(smooth[t, 2] + sign * 2 * bars[t, 2] for sign in (-1, 1)), alpha=0.3, label="2 deviations"
)
axes[1].plot(t, track[t, 2], "k:", label="true")
axes[1].plot(t, smooth[t, 2], label="smoothed")
axes[1].set(xlabel="s", ylabel="m/s", title="velocity, never seen")
axes[1].legend()
Path("out").mkdir(exist_ok=True)
figure.savefig("out/kalman.png", dpi=110)
