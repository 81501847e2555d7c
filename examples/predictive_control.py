"""Control: model-predictive control, tuned through 50 of its steps
================================================================

A cart is to stop at a mark. In each step a controller predicts 10 steps ahead by a linear model, and
finds the forces that serve best, none of them larger than 1; the first of them acts on the cart::

    minimize over u     sum x_k^T Q x_k + r u_k^2     with x_k+1 = A x_k + B u_k, |u_k| <= 1

The model holds a mass and a friction, which are wrong, and the cart has a drag that no linear model
has. What should they be, for this controller on this cart? The gradient of the cost of the whole drive
says it: 50 quadratic programs in a chain, each differentiated in its state and in the model.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch

import ldiv

# %%
# The cart
# --------
# Position and velocity; the drag is quadratic.

dt, steps, horizon = 0.2, 50, 10
mass, drag = 3.0, 0.05
start = torch.tensor([3.0, 0.0], dtype=torch.float64)
weight = torch.tensor([1.0, 0.1], dtype=torch.float64)
price = 0.05


def cart(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    position, velocity = x
    force = u - drag * velocity * velocity.abs()
    return torch.stack([position + dt * velocity, velocity + dt * force / mass])


# %%
# The controller
# --------------
# All predicted states are one linear map of the forces, so that these are the only unknowns.


def force(x: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    m, c = model.exp()
    one, zero = torch.ones_like(m), torch.zeros_like(m)
    A = torch.stack([torch.stack([one, dt * one]), torch.stack([zero, 1 - dt * c / m])])
    B = torch.stack([zero, dt / m])
    state, forces = x, torch.zeros(2, horizon, dtype=x.dtype)
    drifts, effects = [], []
    for k in range(horizon):
        state, forces = A @ state, A @ forces + torch.outer(B, torch.eye(horizon).double()[k])
        drifts.append(state)
        effects.append(forces)
    effect, drift = torch.stack(effects), torch.stack(drifts)  # (horizon, 2, horizon), (horizon, 2)
    weighted = weight[:, None] * effect
    P = 2 * torch.einsum("kim,kin->mn", effect, weighted) + 2 * price * torch.eye(horizon).double()
    q = 2 * torch.einsum("kin,ki->n", weighted, drift)
    return ldiv.solve_qp((P + P.T) / 2, q, lb=-1.0, ub=1.0)[0]


def drive(model: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, path, forces = start, [start], []
    for _ in range(steps):
        u = force(x, model)
        x = cart(x, u)
        path.append(x)
        forces.append(u)
    return torch.stack(path), torch.stack(forces)


def cost(model: torch.Tensor) -> torch.Tensor:
    path, forces = drive(model)
    return (weight * path**2).sum() + price * (forces**2).sum()


# %%
# The gradient through 50 programs
# --------------------------------
# Beside it differences of two drives each.

model = torch.tensor([0.3, 0.05], dtype=torch.float64).log().requires_grad_()
(slope,) = torch.autograd.grad(cost(model), model)
h = 1e-5
differences = [
    (cost(model.detach() + h * e) - cost(model.detach() - h * e)).item() / (2 * h)
    for e in torch.eye(2, dtype=torch.float64)
]
print(f"slope {slope.tolist()}\n   by differences {differences}")

# %%
# A better model
# --------------
# A few steps of BFGS.

before = drive(model.detach())
best = model.detach().clone().requires_grad_()
search = torch.optim.LBFGS([best], max_iter=6, line_search_fn="strong_wolfe")


def evaluated() -> torch.Tensor:
    search.zero_grad()
    value = cost(best)
    value.backward()
    return value


first, last = search.step(evaluated).item(), cost(best.detach()).item()
m, c = best.detach().exp().tolist()
print(f"cost {first:.3f} -> {last:.3f}, mass {m:.2f}, friction {c:.2f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for label, (path, forces) in {"wrong model": before, "tuned": drive(best.detach())}.items():
    axes[0].plot(dt * torch.arange(steps + 1), path[:, 0], label=label)
    axes[1].step(dt * torch.arange(steps), forces, where="post", label=label)
axes[0].set(title="position", xlabel="time")
axes[1].set(title="force, at most 1", xlabel="time")
axes[0].legend()
Path("out").mkdir(exist_ok=True)
figure.savefig("out/predictive_control.png", dpi=110)
