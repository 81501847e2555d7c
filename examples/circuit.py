"""Electronics: transistors measured inside an adder
=================================================

A four-bit adder draws a current that depends on the voltage at its inputs. From this
curve alone, the threshold and the strength of its transistors, and their resistors::

    minimize over p     |I(p) - I_measured|^2
    where               f(v, p, u) = 0                 Kirchhoff's law at 72 nodes, for each input voltage u

Nodal analysis: `ldiv.root` is Newton's method with the sparse Jacobian that coloring finds, inside
`jax.jit`, and its derivatives are those of the implicit function: the fit sees an exact Jacobian.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import ldiv

jax.config.update("jax_enable_x64", True)

# %%
# The netlist
# -----------
# A full adder is nine gates of the kind NAND: two transistors in a row to the ground, with a node between
# them, and a resistor to the supply. Each transistor has a gate, and two ends.

supply, thermal = 1.2, 0.026
nodes: dict[str, int] = {}
transistors: list[tuple[int, int, int]] = []
pulled: list[int] = []


def node(name: str) -> int:
    return nodes.setdefault(name, len(nodes))


def nand(out: str, a: str, b: str) -> None:
    middle = f"{out} middle"
    transistors.append((node(a), node(out), node(middle)))
    transistors.append((node(b), node(middle), node("ground")))
    pulled.append(node(out))


for fixed in ("ground", "swept"):
    node(fixed)
for bit in range(4):
    a, b, carry = "swept", "ground", f"carry {bit}" if bit else "ground"
    g = [f"gate {bit}.{i}" for i in range(8)]
    nand(g[0], a, b)
    nand(g[1], a, g[0])
    nand(g[2], b, g[0])
    nand(g[3], g[1], g[2])  # a xor b
    nand(g[4], g[3], carry)
    nand(g[5], g[3], g[4])
    nand(g[6], carry, g[4])
    nand(g[7], g[5], g[6])  # the sum
    nand(f"carry {bit + 1}", g[0], g[4])
gates, drains, sources = np.array(transistors).T
top = np.array(pulled)
n = len(nodes) - 2

# %%
# Kirchhoff's law
# ---------------
# The transistor is that of Enz, Krummenacher and Vittoz: one formula from leakage to saturation, and
# the same for both ends. Currents are in microamperes.


def transistor(p: Any, gate: Any, x: Any) -> Any:
    """The part of the current that its end at the voltage x answers for."""
    return jnp.exp(p[1]) * jax.nn.softplus((gate - p[0] - 1.3 * x) / (2.6 * thermal)) ** 2


def balance(v: Any, given: Any) -> Any:
    """The current that leaves each inner node."""
    p, u, on = given
    v = jnp.concatenate([jnp.stack([jnp.zeros(()), on * u]), v])
    flow = transistor(p, v[gates], v[sources]) - transistor(p, v[gates], v[drains])
    total = jnp.zeros_like(v).at[drains].add(flow).at[sources].add(-flow)
    return total.at[top].add(jnp.exp(p[2]) * (v[top] - on * supply))[2:]


# %%
# The current that is drawn
# -------------------------
# So many gates in a row are too steep for Newton's method. As in SPICE, the supply is switched on in steps,
# and each starts where the one before ended: one `scan` over the steps, one `map` over the voltages at the
# input, one compilation. What comes out depends on the last root alone, and so does its derivative.

names = ("threshold", "log strength", "log pull-up")
true = jnp.array([0.4, -0.5, 3.0])
guess = jnp.array([0.45, -1.0, 2.5])
off, ramp = jnp.zeros(n), jnp.linspace(0.2, 1.0, 9)
pattern = ldiv.detect_pattern(lambda v: balance(v, (guess, 0.3, 1.0)), off)


def drawn(p: Any, u: Any) -> Any:
    def switch(v: Any, on: Any) -> Any:
        return ldiv.root(balance, v, (p, u, on), pattern=pattern, tol=1e-8), None

    v, _ = jax.lax.scan(switch, off, ramp)
    return (jnp.exp(p[2]) * (supply - v[top - 2])).sum()


sweep = jnp.linspace(0, supply, 21)
curve = jax.jit(lambda p: jax.lax.map(lambda u: drawn(p, u), sweep))
slopes = jax.jit(jax.jacfwd(curve))

# %%
# The fit
# -------
# The measurement has a noise of half a microampere; the bounds are those of the process. The Jacobian also says how far the result can be trusted.

noise = 0.5
measured = np.asarray(curve(true)) + noise * np.random.default_rng(0).standard_normal(len(sweep))
found = least_squares(
    lambda p: (np.asarray(curve(p)) - measured) / noise,
    guess,
    lambda p: np.asarray(slopes(p)) / noise,
    bounds=([0.3, -2, 2], [0.6, 1, 4]),
)
spread = np.sqrt(np.diag(ldiv.inv(found.jac.T @ found.jac, assume_a="pos")))
for name, value, d, exact in zip(names, found.x, spread, true, strict=True):
    print(f"{name}: {value:.4f} +- {d:.4f}, true {exact:.4f}")
print(f"{found.nfev} evaluations, {n} unknowns, {pattern.nnz} entries in the Jacobian")

# %%
# The picture
# -----------

figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
axis.plot(sweep, measured, "ko", label="measured")
axis.plot(sweep, curve(guess), "--", label="first guess")
axis.plot(sweep, curve(found.x), label="fitted")
axis.set(xlabel="input, V", ylabel="supply current, \N{MICRO SIGN}A")
axis.legend()
Path("out").mkdir(exist_ok=True)
figure.savefig("out/circuit.png", dpi=110)
