"""Machine learning: a Gaussian process learns its scales
======================================================

Noisy readings of a slow drift with a season on top, at irregular times. How smooth the drift is, how
long the season lasts, and how large the noise is are read off the data: they maximize the likelihood::

    log p(y) = log N(y; 0, K(theta))
    K(theta) = a^2 exp(-d^2 / 2 l^2) + c^2 exp(-2 sin^2(pi d / T) / r^2) + s^2 I         d = |t_i - t_j|

`ldiv.gaussian_logpdf` takes the Cholesky factor of K. Its gradient drives the search, and its Hessian
at the maximum, one more derivative of the same line, says how well each scale is known.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import ldiv

jax.config.update("jax_enable_x64", True)

# %%
# The data
# --------
# Twelve years, a season of one year, 160 readings.

random = np.random.default_rng(0)
t = np.sort(random.uniform(0, 12, 160))


def truth(t: Any) -> Any:
    return 1.5 * np.sin(0.5 * t) + 0.06 * t + 0.8 * np.sin(2 * np.pi * t) ** 3


noise = 0.25
y = truth(t) + noise * random.standard_normal(len(t))

# %%
# The likelihood
# --------------
# All scales are positive: their logarithms are what is searched for.

names = ("a", "l", "c", "T", "r", "s")
start = np.log([1.0, 1.0, 1.0, 0.95, 1.0, 0.5])


def kernel(theta: Any, t1: Any, t2: Any) -> jax.Array:
    a, l, c, T, r, _ = jnp.exp(theta)
    d = t1[:, None] - t2[None, :]
    drift = a**2 * jnp.exp(-(d**2) / (2 * l**2))
    return drift + c**2 * jnp.exp(-2 * jnp.sin(jnp.pi * d / T) ** 2 / r**2)


def covariance(theta: jax.Array) -> jax.Array:
    return kernel(theta, t, t) + jnp.exp(2 * theta[5]) * jnp.eye(len(t))


@jax.jit
def loss(theta: jax.Array) -> jax.Array:
    return -ldiv.gaussian_logpdf(jnp.asarray(y), ldiv.cholesky(covariance(theta)))


# %%
# The scales
# ----------
# The Hessian serves Newton's method, and its inverse at the maximum is the covariance of the scales.

hessian = jax.jit(jax.hessian(loss))
found = minimize(
    jax.value_and_grad(loss), start, jac=True, hess=hessian, method="trust-exact", tol=1e-8
)
theta = found.x
spread = np.sqrt(np.diag(ldiv.inv(np.asarray(hessian(theta)), assume_a="pos")))
for name, log_scale, d in zip(names, theta, spread, strict=True):
    print(f"{name} = {np.exp(log_scale):.4f}, give or take {d:.1%}")
print(f"log p(y) = {-found.fun:.6f} after {found.nit} steps")

# %%
# The forecast
# ------------
# The mean and the variance at other times, two years beyond the data: solves with the same K.

s = np.linspace(0, 14, 700)
F = ldiv.factorized(np.asarray(covariance(theta)), assume_a="pos")
cross = np.asarray(kernel(theta, t, s))
mean = cross.T @ np.asarray(F.solve(y))
variance = np.diag(kernel(theta, s, s)) - (cross * F.solve(cross)).sum(0)

# %%
# The picture
# -----------

figure, axis = plt.subplots(figsize=(11, 4), layout="constrained")
band = 2 * np.sqrt(variance)
axis.fill_between(s, mean - band, mean + band, alpha=0.25, label="two standard deviations")
axis.plot(s, mean, label="mean")
axis.plot(s, truth(s), "k:", label="truth")
axis.plot(t, y, ".", color="0.4", label="readings")
axis.set(xlabel="years", xlim=(0, 14))
axis.legend(loc="upper right", ncols=4)
Path("out").mkdir(exist_ok=True)
figure.savefig("out/gaussian_process.png", dpi=110)
