"""Econometrics: volatility that nobody sees, integrated out
=========================================================

Daily returns have a spread that nobody sees: its logarithm wanders, day by day. How far it wanders and
how long it remembers are three numbers; the volatility itself is one unknown a day::

    y_t = exp(h_t / 2) e_t                         returns
    h_t = m + phi (h_(t-1) - m) + sigma w_t        the logarithm of their variance, hidden

    log p(y | m, phi, sigma) = log int p(y | h) p(h | m, phi, sigma) dh

The integral over all days is Laplace's approximation (`ldiv.laplace`): its mode by Newton steps with a
tridiagonal Hessian, its derivatives in the three numbers by the implicit function theorem and the
selected inverse. The approximation is compared with importance sampling from it.
Reference: Shephard and Pitt, Likelihood analysis of non-Gaussian measurement time series (1997).
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import minimize

import ldiv

# %%
# The data
# --------
# Three years of returns in percent.

days, truth = 750, {"m": 0.3, "phi": 0.96, "sigma": 0.3}
random = np.random.default_rng(3)
hidden = np.empty(days)
hidden[0] = (
    truth["m"] + truth["sigma"] / math.sqrt(1 - truth["phi"] ** 2) * random.standard_normal()
)
for t in range(1, days):
    step = truth["sigma"] * random.standard_normal()
    hidden[t] = truth["m"] + truth["phi"] * (hidden[t - 1] - truth["m"]) + step
returns = torch.from_numpy(np.exp(hidden / 2) * random.standard_normal(days))


def natural(theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """m, phi in (-1, 1) and sigma > 0 of three free numbers."""
    return theta[0], torch.tanh(theta[1]), theta[2].exp()


def joint(h: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """-log p(y, h | theta)."""
    m, phi, sigma = natural(theta)
    steps = (h[1:] - m) - phi * (h[:-1] - m)
    first = (1 - phi**2) * (h[0] - m) ** 2
    prior = (
        ((steps**2).sum() + first) / (2 * sigma**2) + days * sigma.log() - (1 - phi**2).log() / 2
    )
    data = (h / 2 + returns**2 * torch.exp(-h) / 2).sum()
    return prior + data + days * math.log(2 * math.pi)


every = np.arange(days - 1)
neighbors = np.concatenate([every, every + 1]), np.concatenate([every + 1, every])

# %%
# The fit
# -------
# The mode of the last step is the start of the next one.

start = torch.zeros(days, dtype=torch.float64)


def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
    global start
    theta = torch.from_numpy(numbers.copy()).requires_grad_()
    found = ldiv.laplace(joint, start, theta, pattern=neighbors)
    start = found.mode.detach()
    (gradient,) = torch.autograd.grad(-found.value, theta)
    return -found.value.item(), gradient.numpy()


fit = minimize(loss, np.array([0.0, 1.0, -1.0]), jac=True, method="BFGS", options={"gtol": 1e-4})
theta = torch.from_numpy(fit.x)
curvature = torch.func.hessian(lambda p: -ldiv.laplace(joint, start, p, pattern=neighbors).value)
m, phi, sigma = natural(theta)
slopes = torch.stack([m / m, 1 - phi**2, sigma])  # of these in theta
deviations = torch.linalg.inv(curvature(theta)).diagonal().sqrt() * slopes
print(f"{fit.nfev} evaluations")
for name, value, deviation in zip(truth, (m, phi, sigma), deviations, strict=True):
    print(f"{name}: {value:.3f} +- {deviation:.3f}, true {truth[name]}")

# %%
# The volatility
# --------------
# The mode of h and its standard deviation, day by day.

found = ldiv.laplace(joint, start, theta, pattern=neighbors)
band = 2 * found.variances().sqrt()
inside = float(((torch.from_numpy(hidden) - found.mode).abs() < band).double().mean())
print(f"{inside:.0%} of the true path within two standard deviations")

# %%
# How good is the approximation?
# ------------------------------
# Importance sampling: the integral is the mean of p(y, h) / q(h) over draws from q, the normal
# distribution that Laplace's approximation is.

draws = found.sample(torch.Generator().manual_seed(0), 2000)
precision = found.factor.matrix
offsets = draws - found.mode
q = found.factor.logdet() / 2 - ((precision @ offsets.T).T * offsets).sum(1) / 2
q = q - days * math.log(2 * math.pi) / 2
weights = torch.stack([-joint(h, theta) for h in draws]) - q
sampled = float(torch.logsumexp(weights, 0)) - math.log(len(draws))
print(f"log p(y): {found.value:.3f}, by importance sampling {sampled:.3f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(2, 1, figsize=(10, 5.5), sharex=True, layout="constrained")
axes[0].bar(range(days), returns.numpy(), width=1.0, color="0.4")
axes[0].set_ylabel("return, %")
low, middle, high = (torch.exp((found.mode + s * band) / 2).numpy() for s in (-1, 0, 1))
axes[1].fill_between(range(days), low, high, alpha=0.3, label="two standard deviations")
axes[1].plot(middle, label="found")
axes[1].plot(np.exp(hidden / 2), "k", linewidth=0.7, label="true")
axes[1].set(ylabel="volatility, %", xlabel="day", xlim=(0, days))
axes[1].legend()
Path("out").mkdir(exist_ok=True)
figure.savefig("out/volatility.png", dpi=110)
