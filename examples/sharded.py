"""JAX sharding: a matrix-free operator on several devices
=======================================================

Heat in a plate whose conductivity p is a field on n x n points, spread over all devices of JAX in rows::

    -div(p grad u) + c u = f,        loss = mean of u^2

There is no matrix, and no MPI: the operator is a function of sharded arrays, `ldiv.solve` iterates inside of
`jax.jit`, and XLA puts the messages where they are needed: rows of neighbors for the operator, sums over all
devices for the inner products. The gradient is one more such iteration, and lies on the devices as p does::

    XLA_FLAGS=--xla_force_host_platform_device_count=4 python examples/sharded.py        # 4 devices of a cpu
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import ldiv

jax.config.update("jax_enable_x64", True)

# %%
# The operator
# ------------
# Five points with mean conductivities between neighbors, on a block of columns. It is written for the whole
# plate; nothing in it knows of devices.

n, loss_to_the_air = 32, 0.1
random = np.random.default_rng(0)


def conduct(p: Any, u: Any) -> Any:
    """-div(p grad u) + c u, u = 0 outside of the plate."""
    columns = u.shape[1]
    inner = jnp.pad(u.reshape(n, n, columns), ((1, 1), (1, 1), (0, 0)))
    field = jnp.pad(p, 1, mode="edge")[..., None]
    center, own = inner[1:-1, 1:-1], field[1:-1, 1:-1]
    flow = loss_to_the_air * center
    for i, j in ((0, 1), (2, 1), (1, 0), (1, 2)):
        between = (own + field[i : i + n, j : j + n]) / 2
        flow = flow + between * (center - inner[i : i + n, j : j + n])
    return flow.reshape(n * n, columns)


def loss(p: Any, f: Any) -> Any:
    A = ldiv.LinearOperator(conduct, p, shape=(n * n, n * n))
    u = ldiv.solve(A, f, assume_a="pos", method="cg", rtol=1e-11)
    return jnp.mean(u**2)


# %%
# One device, and all of them
# ---------------------------
# The same function; what differs is where its arguments are.

p = np.exp(random.standard_normal((n, n)) / 2)
f = random.standard_normal(n * n)
step = jax.jit(jax.value_and_grad(loss, (0, 1)))
value, gradients = step(jnp.asarray(p), jnp.asarray(f))

mesh = Mesh(np.array(jax.devices()), ("rows",))
in_rows = NamedSharding(mesh, PartitionSpec("rows"))
p_there, f_there = (jax.device_put(x, in_rows) for x in (p, f))
value_there, gradients_there = step(p_there, f_there)
error = max(
    float(abs(x - y).max() / abs(y).max())
    for x, y in zip(gradients_there, map(np.asarray, gradients), strict=True)
)
print(f"{len(mesh.devices)} devices: loss {float(value_there):.12f}, on one {float(value):.12f}")
print(f"gradients differ by {error:.1e}; that of p is spread as {gradients_there[0].sharding.spec}")

# %%
# What is sent
# ------------
# No device ever has the whole plate: among the messages are no gathers.

program = step.lower(p_there, f_there).compile().as_text() or ""
kinds = ("all-reduce", "collective-permute", "all-gather", "all-to-all")
messages = {kind: program.count(f"{kind}(") + program.count(f"{kind}-start(") for kind in kinds}
print("in the program are", ", ".join(f"{count} {kind}" for kind, count in messages.items()))
