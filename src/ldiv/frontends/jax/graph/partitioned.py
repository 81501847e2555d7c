"""y = f(x) over several devices: each computes the batch members that it holds.

    x (*batch, own)   is divided along the batch axes, as y is; it is whole along its own axes, and
                      along batch axes of length 1, which all members share

XLA asks for the function of one device when it divides a program. A batch that does not divide evenly
is whole on every device, since XLA would pad it with members that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from ldiv.core.arrays.shapes import broadcast
from ldiv.frontends.jax.devices.callbacks import device_count
from ldiv.frontends.jax.private import mlir

Batch = tuple[int, ...]


def varying(out: list[Any], x: Any) -> list[Any]:
    """The abstract results of a function of x; under shard_map they vary along the mesh axes of x."""
    if x.mat.empty:
        return out
    whole = [x.sharding.update(spec=PartitionSpec(*(None,) * y.ndim)) for y in out]
    return [
        x.update(shape=y.shape, dtype=y.dtype, weak_type=False, sharding=s)
        for y, s in zip(out, whole, strict=True)
    ]


def is_known(ctx: Any) -> bool:
    """Whether devices and mesh of the program that is being lowered are known."""
    program = ctx.module_context
    if device_count(ctx) == 1:
        return True
    known = [getattr(program.axis_context, x, None) for x in ("device_assignment", "abstract_mesh")]
    return None not in known and not program.lowering_parameters.for_export


def lower(
    ctx: Any, f: Callable[..., Any], cores: Sequence[int], args: Sequence[Any]
) -> Sequence[Any]:
    """Lower f(*args), for arrays with `cores` own axes, to a program over several devices."""
    batches = [tuple(x.shape[: x.ndim - c]) for x, c in zip(ctx.avals_in, cores, strict=True)]
    whole = broadcast(*batches)
    rule, alone = _rule(whole, batches, ctx.avals_in, ctx.avals_out)
    divided = custom_partitioning(lambda *xs: list(f(*xs)))
    divided.def_partition(
        partial(_of_one_device, f, whole, batches),
        sharding_rule=rule,
        need_replication_factors=alone,
    )
    return mlir.lower_fun(divided, multiple_results=True)(ctx, *args)


def _rule(
    whole: Batch, batches: Sequence[Batch], given: Sequence[Any], found: Sequence[Any]
) -> tuple[str, tuple[str, ...]]:
    """Names of all axes, with shared names for the batch axes; and the axes that are not divided."""
    alone: list[str] = []
    number = count()

    def named(batch: Batch, own: int) -> str:
        skipped = len(whole) - len(batch)
        names = [
            f"b{skipped + i}" if n == whole[skipped + i] else None for i, n in enumerate(batch)
        ]
        names += [None] * own
        fresh = [f"c{next(number)}" if name is None else name for name in names]
        alone.extend(new for new, name in zip(fresh, names, strict=True) if name is None)
        return " ".join(fresh)

    left = [named(b, x.ndim - len(b)) for b, x in zip(batches, given, strict=True)]
    right = [named(whole, y.ndim - len(whole)) for y in found]
    return f"{', '.join(left)} -> {', '.join(right)}", tuple(alone)


def _of_one_device(
    f: Callable[..., Any],
    whole: Batch,
    batches: Sequence[Batch],
    mesh: Any,
    given: Sequence[Any],
    found: Sequence[Any],
) -> Any:
    """The computation of each device, and the shardings of results and arguments."""
    axes = [_axis(mesh, n, found[0].sharding, i) for i, n in enumerate(whole)]

    def divided(batch: Batch, ndim: int) -> NamedSharding:
        skipped = len(whole) - len(batch)
        spec = [axes[skipped + i] if n == whole[skipped + i] else None for i, n in enumerate(batch)]
        return NamedSharding(mesh, PartitionSpec(*spec, *(None,) * (ndim - len(batch))))

    results = [divided(whole, len(y.shape)) for y in found]
    arguments = [divided(b, len(x.shape)) for b, x in zip(batches, given, strict=True)]
    return mesh, lambda *xs: list(f(*xs)), results, tuple(arguments)


def _axis(mesh: Any, size: int, sharding: Any, i: int) -> Any:
    """The axes of the mesh along which axis i of the batch is divided, evenly."""
    axis = sharding.spec[i] if i < len(sharding.spec) else None
    names = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
    return axis if size % int(np.prod([mesh.shape[name] for name in names])) == 0 else None
