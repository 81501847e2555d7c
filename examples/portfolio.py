"""Finance: a portfolio, whose risk model is learned through it
============================================================

The portfolio of least risk is a quadratic program in the covariance of the returns::

    minimize over w     w^T C w / 2     with sum(w) = 1, 0 <= w <= 0.25

C is estimated from few days: how fast should old days be forgotten, how far should the covariances be
drawn to zero? What counts is the risk that the portfolio really has on the days that follow. Its
gradient in both numbers goes through the programs: each of them is solved once, and its gradient is
one more solve.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import ldiv

# %%
# Returns
# -------
# 24 assets, three common factors whose influence drifts from month to month.

random = np.random.default_rng(4)
assets, window, ahead, months = 24, 60, 20, 50
usual = 0.7 * random.standard_normal((assets, 3)) + [1.5, 0.0, 0.0]
loadings, returns = usual, []
for _ in range(months):
    loadings = usual + 0.8 * (loadings - usual) + 0.6 * random.standard_normal((assets, 3))
    common = random.standard_normal((ahead, 3)) @ loadings.T
    returns.append(common + np.linspace(0.8, 2.5, assets) * random.standard_normal((ahead, assets)))
days = torch.from_numpy(np.concatenate(returns))
ends = range(window, len(days) - ahead + 1, ahead)
learned, later = list(ends)[: len(ends) // 2], list(ends)[len(ends) // 2 :]

# %%
# The risk model and the portfolio
# --------------------------------


def covariance(past: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
    """Old days count less, entries off the diagonal are shrunk."""
    life, shrink = choice[0].exp(), choice[1].sigmoid()
    age = torch.arange(len(past) - 1, -1, -1)
    weight = torch.exp(-age / life)
    C = past.T @ (weight[:, None] / weight.sum() * past)
    return (1 - shrink) * C + shrink * torch.diag(torch.diagonal(C))


def portfolio(end: int, choice: torch.Tensor) -> torch.Tensor:
    C = covariance(days[end - window : end], choice)
    everything = torch.ones(1, assets, dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    return ldiv.solve_qp(
        C, torch.zeros(assets, dtype=torch.float64), A=everything, b=one, lb=0.0, ub=0.25
    )


def risk(months: list[int], choice: torch.Tensor) -> torch.Tensor:
    """The variance of the portfolios on the days after each was chosen."""
    gains = [days[end : end + ahead] @ portfolio(end, choice) for end in months]
    return torch.cat(gains).square().mean()


# %%
# The gradient through the programs
# ---------------------------------
# Beside it differences.

choice = torch.tensor([4.0, -3.0], dtype=torch.float64, requires_grad=True)
(slope,) = torch.autograd.grad(risk(learned, choice), choice)
h = 1e-5
differences = [
    (risk(learned, choice.detach() + h * e) - risk(learned, choice.detach() - h * e)).item()
    / (2 * h)
    for e in torch.eye(2, dtype=torch.float64)
]
print(f"slope {slope.tolist()}\n   by differences {differences}")

# %%
# Learning
# --------

best = choice.detach().clone().requires_grad_()
search = torch.optim.LBFGS([best], max_iter=6, line_search_fn="strong_wolfe")


def evaluated() -> torch.Tensor:
    search.zero_grad()
    value = risk(learned, best)
    value.backward()
    return value


search.step(evaluated)
life, shrink = best.detach()[0].exp().item(), best.detach()[1].sigmoid().item()
print(f"days remembered {life:.0f}, shrinkage {shrink:.2f}")
for name, when in {"learned on": learned, "later": later}.items():
    a, b = (risk(when, c.detach()).sqrt().item() for c in (choice, best))
    print(f"risk on the months {name}: {a:.4f} -> {b:.4f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for axis, (title, c) in zip(axes, {"before": choice, "learned": best}.items(), strict=True):
    held = np.stack([portfolio(end, c.detach()).numpy() for end in later])
    axis.stackplot(np.arange(len(later)), held.T, linewidth=0)
    axis.set(title=f"{title}: shares of 24 assets", xlabel="month", ylim=(0, 1))
Path("out").mkdir(exist_ok=True)
figure.savefig("out/portfolio.png", dpi=110)
