"""What JAX computes on the third of four devices, in a process of its own: one line of JSON for
each function.

{"name", "elsewhere": results that left the device, "off": how far they are from those of the first}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ldiv

jax.config.update("jax_enable_x64", True)
HERE = jax.devices("cpu")[0]
THIRD = jax.devices("cuda")[0] if "--cuda" in sys.argv else jax.devices()[2]
N = 4
rng = np.random.default_rng(0)
A, B = rng.standard_normal((N, N)) + N * np.eye(N), rng.standard_normal(N)
AT = np.array([*range(N), 0, 3]), np.array([*range(N), 3, 0])


def sparse(a: Any) -> Any:
    return ldiv.coo_array((a[AT], AT), shape=(N, N))


# outside of jit
VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "inv": lambda a, b: ldiv.inv(a),
    "slogdet": lambda a, b: ldiv.slogdet(a)[1],
    "logdet": lambda a, b: ldiv.logdet(a @ a.T),
    "cholesky": lambda a, b: ldiv.cholesky(a @ a.T),
    "qr": lambda a, b: ldiv.qr(a)[1],
    "svdvals": lambda a, b: ldiv.svdvals(a),
    "eigvalsh": lambda a, b: ldiv.eigvalsh(a + a.T),
    "eigvals": lambda a, b: abs(ldiv.eigvals(a)),
    "expm": lambda a, b: ldiv.expm(a / 6),
    "sparse logdet": lambda a, b: ldiv.logdet(sparse(a)),
}
GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda a, b: ldiv.solve(a, b),
    "sparse solve": lambda a, b: ldiv.solve(sparse(a), b),
}


def runs() -> dict[str, Callable[[Any, Any], Any]]:
    found = dict(VALUES)
    for name, f in GRADIENTS.items():
        g = jax.value_and_grad(lambda a, b, f=f: (f(a, b) ** 2).sum(), (0, 1))
        found |= {f"gradient of {name}": g, f"gradient of {name}, jit": jax.jit(g)}
    return found


def unread() -> dict[str, Callable[[Any, Any], Any]]:
    """What is exported for accelerators: NaN for errors."""
    several = {
        "inv": lambda a, b: ldiv.inv(a),
        "solve pos": lambda a, b: ldiv.solve(a @ a.T, b, assume_a="pos"),
        "slogdet": lambda a, b: ldiv.slogdet(a)[1],
        "cholesky": lambda a, b: ldiv.cholesky(a @ a.T),
        "lu": lambda a, b: ldiv.lu(a)[1],
        "qr": lambda a, b: ldiv.qr(a)[1],
        "svd": lambda a, b: ldiv.svd(a, full_matrices=False)[0] ** 2,
        "eigh": lambda a, b: ldiv.eigh(a + a.T)[1] ** 2,
        "lstsq": lambda a, b: ldiv.lstsq(a[:, :3], b)[0],
        "cg": lambda a, b: ldiv.solve(a @ a.T, b, assume_a="pos", method="cg"),
        "singular": lambda a, b: jnp.nan_to_num(ldiv.solve(0 * a, b), nan=7.0),
        "solve": GRADIENTS["solve"],
    }

    def gradient(f: Any) -> Any:
        return jax.jit(jax.value_and_grad(lambda a, b: (f(a, b) ** 2).sum()))

    return {name: ldiv.errstate(singular="nan")(gradient(f)) for name, f in several.items()}


for name, f in (unread() if "nan" in sys.argv else runs()).items():
    here = jax.tree.leaves(f(*(jax.device_put(x, HERE) for x in (A, B))))
    there = jax.tree.leaves(f(*(jax.device_put(x, THIRD) for x in (A, B))))
    line = {
        "name": name,
        "elsewhere": sum(y.devices() != {THIRD} for y in there),
        "off": max(
            float(abs(np.asarray(x) - np.asarray(y)).max())
            for x, y in zip(here, there, strict=True)
        ),
    }
    print(json.dumps(line), flush=True)
