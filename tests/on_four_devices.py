"""Programs of JAX on the third of four devices, in a process of its own, or on batches that are
divided among all four: one line of JSON for each function.

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
    """Exports for accelerators: NaN for errors."""
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


# -- batches: under jit ---------------------------------------------------------

MESH = jax.make_mesh((2, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
AXES = jax.sharding.PartitionSpec(("i", "j"))
MANY = 8


def walk(a: Any, b: Any) -> Any:
    step = lambda x, _: (jax.vmap(ldiv.solve)(a, x) + b, None)
    return jax.lax.scan(step, b, None, 3)[0]


def cubic(x: Any, p: Any) -> Any:
    return p[0] @ x + x**3 - p[1]


# loops and derivatives of functions that hold what varies from device to device
MAPPED: dict[str, Callable[[Any, Any], Any]] = {
    "root": lambda a, b: ldiv.root(cubic, jnp.ones(N), (a, b)),
    "least_squares": lambda a, b: ldiv.least_squares(cubic, jnp.ones(N), (a, b)),
    "hessian": lambda a, b: ldiv.hessian(lambda x: (a @ x**2).sum() ** 2, b),
    "cg": lambda a, b: ldiv.cg(a @ a.mT, b)[0],
    "solve or NaN": ldiv.errstate(singular="nan")(ldiv.solve),
}


def mapped() -> None:
    """Map by shard_map, which also checks what varies."""
    a, b = rng.standard_normal((4, N, N)) + 2 * N * np.eye(N), rng.standard_normal((4, N))
    for name, f in MAPPED.items():
        both = lambda a, b, f=f: (f(a, b), *derivative(f)(a, b))
        one = lambda a, b, g=both: jax.tree.map(lambda found: found[None], g(a[0], b[0]))
        there = jax.jit(jax.shard_map(one, mesh=MESH, in_specs=AXES, out_specs=AXES))(a, b)
        here = jax.jit(jax.vmap(both))(a, b)
        off = max(float(abs(x - np.asarray(y)).max()) for x, y in zip(here, there, strict=True))
        print(json.dumps({"name": f"{name}, mapped", "elsewhere": 0, "off": off}), flush=True)


def derivative(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return jax.grad(lambda a, b: (f(a, b) ** 2).sum(), (0, 1))


def batches() -> dict[str, Callable[[Any, Any], Any]]:
    found: dict[str, Callable[[Any, Any], Any]] = {
        "solve": jax.vmap(ldiv.solve),
        "one matrix": lambda a, b: jax.vmap(lambda b: ldiv.solve(A, b))(b),
        "columns of each": lambda a, b: ldiv.solve(
            a[:, None], b[..., None, :, None] * a[:, :2, None]
        ),
        "pos": lambda a, b: ldiv.solve(a @ a.mT, b[..., None], assume_a="pos"),
        "inv": lambda a, b: ldiv.inv(a),
        "slogdet": lambda a, b: ldiv.slogdet(a)[1],
        "cholesky": lambda a, b: ldiv.cholesky(a @ a.mT),
        "lu": lambda a, b: ldiv.lu_factor(a)[0],
        "qr": lambda a, b: ldiv.qr(a)[1],
        "expm": lambda a, b: ldiv.expm(a / 6) @ b[..., None],
        "eigh": lambda a, b: ldiv.eigh(a + a.mT)[1] ** 2 @ b[..., None],
        "svd": lambda a, b: ldiv.svd(a)[0] ** 2 @ b[..., None],
        "triangular": lambda a, b: ldiv.solve_triangular(a, b[..., None], lower=True),
        "sparse": jax.vmap(
            lambda a, b: ldiv.solve(ldiv.coo_array((a[AT], AT), shape=(N, N)), b, method="lu")
        ),
        "loop": walk,
    }
    several = ("solve", "sparse", "loop", "expm", "eigh", "svd")
    return found | {f"gradient of {name}": derivative(found[name]) for name in several}


def divided() -> None:
    """Results that are not divided as their arguments are; numbers that were sent for them."""
    put = lambda x: jax.device_put(x, jax.sharding.NamedSharding(MESH, AXES))
    many = rng.standard_normal((MANY, N, N)) + N * np.eye(N), rng.standard_normal((MANY, N))
    for name, f in batches().items():
        program = jax.jit(f).lower(*map(put, many)).compile()
        here, there = (
            jax.tree.leaves(g(*x)) for g, x in ((jax.jit(f), many), (program, map(put, many)))
        )
        line = {
            "name": name,
            "elsewhere": sum(y.sharding.spec != AXES for y in there)
            + sum(program.as_text().count(of) for of in ("all-gather", "all-to-all", "callback")),
            "off": max(
                float(abs(x - np.asarray(y)).max()) for x, y in zip(here, there, strict=True)
            ),
        }
        print(json.dumps(line), flush=True)
    alone = lambda x: jnp.concatenate([x, x[:1]])  # nine do not divide evenly: nobody fills them up
    nine = jax.jit(lambda a, b: jax.vmap(ldiv.solve)(alone(a), alone(b)))(*map(put, many))
    off = abs(nine[:MANY] - np.linalg.solve(many[0], many[1][..., None])[..., 0]).max()
    print(json.dumps({"name": "nine", "elsewhere": 0, "off": float(off)}))
    zero_trips = jax.jit(lambda n, a, b: jax.lax.fori_loop(0, n, lambda _, c: c + walk(a, b), b))
    bad = put(many[0] * (np.arange(MANY) != 5)[:, None, None])
    off = abs(zero_trips(0, bad, put(many[1])) - many[1]).max()
    print(json.dumps({"name": "no trip", "elsewhere": 0, "off": float(off)}))
    try:
        jax.block_until_ready(zero_trips(1, bad, put(many[1])))
    except Exception as error:
        is_named = "SingularMatrixError" in str(error)
        print(json.dumps({"name": "one trip", "elsewhere": not is_named, "off": 0}))


if "batches" in sys.argv:
    divided()
    mapped()
    sys.exit()
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
