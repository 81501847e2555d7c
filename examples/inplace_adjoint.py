"""Heat and flow: the adjoint of a code that overwrites its buffers
================================================================

A heater at the inlet of a pipe, a fluid that flows and conducts: which heating over time leaves a given
temperature along the pipe? The simulation is written as such codes are: the matrix is factored where it
stands, and one buffer holds the temperatures of all times, one after the other::

    A <- L U,      u <- u + dt q_t e_1,      u <- U^-1 L^-1 u        for t = 1, ..., T

`ldiv.Tape` runs these operations at once, in place, and then in reverse into shadow buffers. What is
overwritten and needed again is copied once; each step of the adjoint is two triangular solves. The shadow
of A holds the derivative in all its entries, and with it that of the conductivity.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import ldiv

# %%
# The pipe
# --------
# Implicit Euler, upwind differences; the end is insulated.

n, steps, dt = 80, 120, 0.01
x = (np.arange(n) + 0.5) / n
velocity, conductivity = 1.0, 2e-3

flow = n * (np.eye(n) - np.eye(n, k=-1))
conduction = n**2 * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
conduction[0, 0] = conduction[-1, -1] = n**2
wanted = np.exp(-(((x - 0.35) / 0.08) ** 2)) + 0.6 * np.exp(-(((x - 0.7) / 0.1) ** 2))
inlet = dt * velocity * n * np.eye(n, 1)

# %%
# The simulation
# --------------
# The heating is one number a step: a view of its array, with a view of its shadow.


def with_gradient(heating: Any, conductivity: float) -> tuple[float, Any, float, Any]:
    """The misfit at the end, its derivatives in the heating and in the conductivity; the end."""
    matrix = np.eye(n) + dt * (velocity * flow + conductivity * conduction)
    A = ldiv.Duplicated(matrix, np.zeros((n, n)))
    u = ldiv.Duplicated(np.zeros((n, 1)), np.zeros((n, 1)))
    of_heating = np.zeros(steps)
    with ldiv.Tape() as tape:
        pivots = tape.lu(A)
        assert (pivots == np.arange(n)).all()  # columns are dominated by their diagonal
        for t in range(steps):
            now = ldiv.Duplicated(heating[t, ...], of_heating[t, ...])
            tape.axpy(now, inlet, u)
            tape.solve_triangular(A, u, lower=True, unit_diagonal=True)
            tape.solve_triangular(A, u)
    end = u.value[:, 0].copy()
    u.shadow[:, 0] = (end - wanted) / n
    tape.reverse()
    of_conductivity = dt * (A.shadow * conduction).sum()
    return ((end - wanted) ** 2).sum() / (2 * n), of_heating, of_conductivity, end


# %%
# The heating
# -----------

found = minimize(
    lambda q: with_gradient(q, conductivity)[:2], np.zeros(steps), jac=True, method="L-BFGS-B"
)
heating = found.x
misfit, _, of_conductivity, end = with_gradient(heating, conductivity)
print(f"misfit {with_gradient(np.zeros(steps), conductivity)[0]:.1e} -> {misfit:.1e}")
print(f"{found.nfev} simulations with their adjoints")

# %%
# The derivative in the conductivity, through the factorization in place, against a difference:

h = 1e-3 * conductivity
above, below = (with_gradient(heating, conductivity + s)[0] for s in (h, -h))
print(
    f"d misfit / d conductivity = {of_conductivity:.6f}, by differences {(above - below) / (2 * h):.6f}"
)

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
axes[0].step(dt * np.arange(steps), heating)
axes[0].set(xlabel="time", ylabel="temperature at the inlet")
axes[1].plot(x, wanted, "k:", label="wanted")
axes[1].plot(x, end, label="reached")
axes[1].set(xlabel="place", ylabel="temperature at the end")
axes[1].legend()
Path("out").mkdir(exist_ok=True)
figure.savefig("out/inplace_adjoint.png", dpi=110)
