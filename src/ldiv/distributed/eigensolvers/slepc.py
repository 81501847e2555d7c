"""A x = lam B x over several processes, by SLEPc; `ldiv.distributed.eigen` says how."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import common_batch, one_by_one, result_dtype
from ldiv.core.arrays.space import Together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.finite import require_finite
from ldiv.distributed import eigen
from ldiv.distributed.assembly import base_of
from ldiv.distributed.processes import group_of
from ldiv.engines.eigen.task import EigenTask

RANK = 0
ON_HOST = True


def supports(task: EigenTask, dtype: Any, device: str) -> str | None:
    return eigen.not_served(task)


def pairs(task: EigenTask, pA: Tree, pB: Tree, auxiliaries: Tree) -> tuple[Array, ...]:
    args = pA, pB, auxiliaries[1]
    like = task.A.core, task.B.core, 2 if task.start else ()
    batch, dtype = common_batch(like, args), result_dtype(pA, pB)
    count = eigen.count_of(task)
    shapes = ((count,), (task.A.shape[0], count), (count,))
    specs = tuple(((*batch, *shape), dtype) for shape in shapes)
    return on_host(Together(_pairs, task, like, specs), specs, *leaves(args))


def _pairs(task: EigenTask, like: Tree, specs: Any, *flat: Any) -> tuple[Any, ...]:
    group, step = group_of(task.A), f"{task.k} eigenpairs"
    args = rebuild(like, flat)
    with group.section(step):
        require_finite("A", *leaves(args[:2]))
        require_finite("X", *leaves(args[2]))
        details = eigen.described(task)
    group.agree(f"{step}: {details}")
    out = tuple(np.empty(*spec) for spec in specs)
    with group.section(f"the end of {step}"):
        every = one_by_one(like, args) if specs[0][0][:-1] else [args]
        for i, (pA, pB, start) in zip(np.ndindex(specs[0][0][:-1]), every, strict=True):
            pencil, start = (_pencil(task, pA, pB), None if isinstance(start, tuple) else start)
            for y, answer in zip(out, eigen.pairs(pencil, start), strict=True):
                y[i] = answer
    group.agree(f"the end of {step}")
    return out


def _pencil(task: EigenTask, pA: Tree, pB: Tree) -> eigen.Pencil:
    entries, values = base_of(task.A)[0].entries, tuple(leaves((pA, pB)))
    key = ("pairs", task)
    found: eigen.Pencil = group_of(task.A).kept(
        entries, key, values, partial(eigen.Pencil, task, pA, pB)
    )
    return found


def reduced(task: EigenTask, params: Tree, theta: Array, r: Array, X: Array, guard: Any) -> Array:
    args = (*params[:2], theta, r, X, guard)
    like = (task.A.core, task.B.core, 1, 2, 2, (1, 2, 2))
    batch = common_batch(like, args)
    spec = (*batch, *r.shape[-2:]), result_dtype(params[:2], r)
    return on_host(Together(_reduced, task, like, spec), (spec,), *leaves(args))[0]


def _reduced(task: EigenTask, like: Tree, spec: Any, *flat: Any) -> tuple[Any, ...]:
    group, (shape, dtype) = group_of(task.A), spec
    step, args = f"{shape[-1]} deflated systems", rebuild(like, flat)
    with group.section(step):
        require_finite("the right-hand side", args[3])
        details = eigen.described(task)
    group.agree(f"{step}: {details}")
    w, worst = np.empty(shape, dtype), 0.0
    with group.section(f"the end of {step}"):
        every = one_by_one(like, args) if shape[:-2] else [args]
        for i, (pA, pB, *rest) in zip(np.ndindex(shape[:-2]), every, strict=True):
            w[i], residual = eigen.reduced(_pencil(task, pA, pB), *rest)
            worst = max(worst, residual)
    group.agree(f"the end of {step}")
    for observe in task.observers:
        observe("KSP", 0, w, np.array([worst]))
    return (w,)
