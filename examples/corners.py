"""Circuit design: a hundred lamps alike, at every corner
======================================================

A strip of light-emitting diodes hangs on long, thin wires: the far ones get less. Each has a transistor
that holds its current, with a resistor at its emitter. Which resistors make a hundred lamps equally
bright, whatever the supply, the temperature and the tolerances of the parts are? ::

    minimize over R     mean over 64 corners of  |I / mean(I) - 1|^2 + (mean(I) / 20 mA - 1)^2
    where               f(v, R, corner) = 0       Kirchhoff's law at 500 nodes

Newton's method of `ldiv.root` runs inside `jax.jit`, for all corners at once by `jax.vmap`: each of its
steps is one compiled call for 64 sparse matrices, in which no Python runs, and the gradient one more.
"""

from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import ldiv

jax.config.update("jax_enable_x64", True)

# %%
# The strip
# ---------
# Each lamp has five nodes: on the wire of the supply, on that of the bias, and the base, the collector and the
# emitter of its transistor. Units are V, mA and kOhm. The transistor is that of Ebers and Moll; both junctions know
# their temperature by the gap of their semiconductor.

lamps, bias, wanted = 100, 2.0, 20.0
room = 0.02585  # the thermal voltage at 300 K
parts = {  # their nominal values, and what they may be in another corner
    "supply": (5.5, 6.0),
    "temperature": (1.1, 1.0),  # of 300 K
    "wire": (2e-5, 3e-5),
    "gain": (80.0, 250.0),
    "lamp": (1.0, 0.7),  # saturation currents, relative
    "resistors": (1.02, 0.98),
}


def junction(v: Any, current: float, gap: float, ideality: float, t: Any) -> Any:
    """The current through a junction; where it would be enormous, by the tangent, as SPICE does."""
    thermal = ideality * room * t
    z, most = v / thermal, 60.0
    grown = jnp.where(z > most, jnp.exp(most) * (1 + z - most), jnp.exp(jnp.minimum(z, most)))
    return current * jnp.exp(gap / (ideality * room) * (1 - 1 / t)) * (grown - 1)


def currents(v: Any, corner: Any) -> Any:
    """The currents of the lamps, and into base and collector of the transistors."""
    wire, _, base, collector, emitter = v.reshape(5, lamps)
    _, t, _, gain, brightness, _ = corner
    lamp = brightness * junction(wire - collector, 1e-16, 1.9, 1.8, t)
    forward = junction(base - emitter, 1e-12, 1.12, 1.0, t)
    reverse = junction(base - collector, 1e-12, 1.12, 1.0, t)
    return lamp, forward / gain + reverse / 4, forward - reverse - reverse / 4


def drop(v: Any, start: Any, r: Any) -> Any:
    """The current that leaves the nodes of a wire along it."""
    flow = jnp.diff(v, prepend=start) / r
    return flow - jnp.append(flow[1:], 0.0)


def balance(v: Any, given: Any) -> Any:
    """The current that leaves each node."""
    log_r, corner = given
    supply, _, r, _, _, tolerance = corner
    wire, line, base, _, emitter = v.reshape(5, lamps)
    lamp, into_base, into_collector = currents(v, corner)
    feed = (line - base) / (0.5 * tolerance)
    return jnp.concatenate(
        [
            drop(wire, supply, r) + lamp,
            drop(line, bias, 10 * r) + feed,
            into_base - feed,
            into_collector - lamp,
            emitter / (jnp.exp(log_r) * tolerance) - into_base - into_collector,
        ]
    )


# %%
# Every corner
# ------------
# Two values of six parts make 64 corners. The derivative of a root is that of the implicit function: one more
# solve with the transpose of the last Jacobian.

corners = np.stack(np.meshgrid(*parts.values(), indexing="ij"), -1).reshape(-1, len(parts))
alike = np.full(lamps, np.log(0.05))
guess = jnp.repeat(jnp.array([4.0, 1.95, 1.9, 2.0, 1.2]), lamps)
pattern = ldiv.detect_pattern(lambda v: balance(v, (alike, corners[0])), guess)


def lit(log_r: Any, corner: Any) -> Any:
    v = ldiv.root(balance, guess, (log_r, corner), pattern=pattern, tol=1e-9)
    return currents(v, corner)[0]


# the currents I(R, corner)
brightness = jax.jit(jax.vmap(lit, (None, 0)))


def unevenness(log_r: Any, corner: Any) -> Any:
    I = lit(log_r, corner)
    return jnp.mean((I / I.mean() - 1) ** 2) + (I.mean() / wanted - 1) ** 2


each = jax.vmap(jax.value_and_grad(unevenness), (None, 0))
step = jax.jit(lambda log_r: jax.tree.map(lambda y: y.mean(0), each(log_r, corners)))

# %%
# The resistors
# -------------

steps: list[float] = []


def timed(log_r: Any) -> Any:
    start = perf_counter()
    value, grad = jax.block_until_ready(step(log_r))
    steps.append(perf_counter() - start)
    return float(value), np.asarray(grad)


found = minimize(timed, alike, jac=True, method="L-BFGS-B", options={"maxiter": 60, "ftol": 1e-12})
before, after = (np.asarray(brightness(x, corners)) for x in (alike, found.x))
for name, I in (("alike", before), ("fitted", after)):
    print(
        f"{name}: {I.min():.1f} to {I.max():.1f} mA, the lamps of one corner by a factor of {(I.max(1) / I.min(1)).max():.3f}"
    )

h = 1e-5 * np.eye(lamps)[-1]
slope = float(step(alike + h)[0] - step(alike - h)[0]) / 2e-5
print(f"slope in the last resistor: {timed(alike)[1][-1]:.6e}, by differences {slope:.6e}")
print(
    f"{len(guess)} unknowns, {pattern.nnz} entries, 64 corners: {1e3 * np.median(steps):.1f} ms a step"
)

# %%
# The picture
# -----------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for I, color in ((before, "0.6"), (after, "tab:orange")):
    left.plot(I.T, color=color, linewidth=0.5)
left.set(xlabel="lamp", ylabel="current, mA", title="64 corners: alike, and fitted")
right.plot(1e3 * np.exp(alike), "0.6")
right.plot(1e3 * np.exp(found.x), "tab:orange")
right.set(xlabel="lamp", ylabel="resistor, \N{OHM SIGN}")
Path("out").mkdir(exist_ok=True)
figure.savefig("out/corners.png", dpi=90)
