"""Power grids: where a megawatt costs most on its way
===================================================

Power flow in a ring of areas: which voltages does a grid take for given loads, how much is lost on its
lines, and what does one more megawatt of load add to the losses, bus by bus? ::

    f(x, s) = V conj(Y V) - s = 0           V = v exp(i angle) at each bus, Y the admittances, s the power fed in
    losses(s) = sum Re V conj(Y V)

One Newton's method for the state, with the sparse Jacobian by coloring, and one adjoint solve for
the sensitivities to all loads. Each area is the nine-bus system of Anderson and Fouad, *Power System
Control and Stability*, with the values that the book prints.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import ldiv

jax.config.update("jax_enable_x64", True)

# %%
# The grid
# --------
# Powers are in units of 100 MW. Buses 0 to 2 of each area have generators, 4, 5 and 7 loads; bus 0 of the
# first area takes what is left. Neighbors are tied at bus 3.

areas, n = 40, 40 * 9
lines = np.array(
    [  # from, to, resistance, reactance, charging
        (0, 3, 0.0, 0.0576, 0.0),
        (3, 4, 0.01, 0.085, 0.176),
        (3, 5, 0.017, 0.092, 0.158),
        (4, 6, 0.032, 0.161, 0.306),
        (5, 8, 0.039, 0.17, 0.358),
        (6, 7, 0.0085, 0.072, 0.149),
        (7, 8, 0.0119, 0.1008, 0.209),
        (1, 6, 0.0, 0.0625, 0.0),
        (2, 8, 0.0, 0.0586, 0.0),
    ]
)
injected = np.array([0.7164, 1.63, 0.85, 0, -1.25 - 0.5j, -0.9 - 0.3j, 0, -1.0 - 0.35j, 0])
held = np.array([1.04, 1.025, 1.025])  # voltages at the generators


def admittances(lines: Any, n: int) -> Any:
    i, j = lines[:, :2].astype(int).T
    y, half = 1 / (lines[:, 2] + 1j * lines[:, 3]), 0.5j * lines[:, 4]
    values = np.concatenate([y + half, y + half, -y, -y])
    return sp.csr_array((values, (np.r_[i, j, i, j], np.r_[i, j, j, i])), shape=(n, n))


area = np.arange(areas)
tie = [(9 * a + 3, 9 * ((a + 1) % areas) + 3, 0.01, 0.2, 0.0) for a in area]
Y = sp.kron(sp.eye_array(areas), admittances(lines, 9)) + admittances(np.array(tie), n)

# %%
# The equations
# -------------
# Unknown are the angles at all buses but the first, and the voltages where there is no generator. The
# Jacobian has 3,800 nonzeros of 360,000; coloring finds them with some twenty products.

bus = np.arange(n)
angles, loads = bus[1:], bus[bus % 9 > 2]
v0 = np.tile(np.r_[held, np.ones(6)], areas)
row, column, y = Y.tocoo().row, Y.tocoo().col, Y.tocoo().data


def injection(x: Any) -> Any:
    """The flow from each bus into the lines: real and reactive power."""
    angle = jnp.zeros(n).at[angles].set(x[: len(angles)])
    V = jnp.asarray(v0).at[loads].set(x[len(angles) :]) * jnp.exp(1j * angle)
    S = V * jnp.conj(jnp.zeros_like(V).at[row].add(y * V[column]))
    return S.real, S.imag


def mismatch(x: Any, s: Any) -> Any:
    P, Q = injection(x)
    return jnp.concatenate([(P - s[0])[angles], (Q - s[1])[loads]])


flat = jnp.concatenate([jnp.zeros(len(angles)), jnp.ones(len(loads))])
usual = jnp.stack(
    [jnp.asarray(np.tile(part, areas)) for part in (np.real(injected), np.imag(injected))]
)
pattern = ldiv.detect_pattern(lambda x: mismatch(x, usual), flat)


@jax.jit
def losses(s: Any) -> Any:
    x = ldiv.root(mismatch, flat, s, pattern=pattern)
    return injection(x)[0].sum()


# %%
# An ordinary hour
# ----------------
# All areas are alike, so that nothing flows on the ties: each loses the 4.6 MW of the book.

ordinary = float(losses(usual))
print(
    f"{pattern.shape[0]} unknowns, {pattern.nnz} entries; {100 * ordinary / areas:.3f} MW an area"
)

# %%
# An hour with a storm
# --------------------
# A generator of area 10 is off; its neighbors and, in the end, area 0 make up for it. The price of a load is
# what one more megawatt of it adds to the losses.

storm = usual.at[0, 9 * 10 + 1].set(0.0)
price = -jax.grad(losses)(storm)[0]
worst = int(jnp.argmax(price))
print(f"losses {100 * float(losses(storm)):.1f} MW instead of {100 * ordinary:.1f} MW")
print(f"dearest: {price[worst]:.3f} MW for a megawatt, at bus {worst % 9} of area {worst // 9}")

# %%
# The picture
# -----------

figure, axis = plt.subplots(figsize=(11, 3.8), layout="constrained")
shown = axis.imshow(100 * np.asarray(price).reshape(areas, 9).T, aspect="auto", cmap="magma")
axis.set(xlabel="area", ylabel="bus", yticks=range(9))
figure.colorbar(shown, label="added losses, % of the load")
Path("out").mkdir(exist_ok=True)
figure.savefig("out/power_flow.png", dpi=110)
