"""The plan of a solve: all decisions that do not depend on numbers, made once per signature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import device_of, numpy_dtype
from ldiv.core.errstate import keeping_state, singular_state
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves
from ldiv.engines.factors.cache import Key
from ldiv.engines.factors.factored import factoring, key_of
from ldiv.engines.factors.solve import solve_each, solve_one
from ldiv.engines.registry import Chain, Engine, chain, choose, is_iterative


class Plan(NamedTuple):
    """How to solve S(p) x = b for arguments of one signature. Immutable, shared by threads."""

    engine: Engine
    links: Chain | None  # None for an iteration
    base: Structure
    op: str
    dtype: np.dtype[Any]
    single: bool  # one matrix, one block of right-hand sides
    mixed: bool  # real p, complex b
    hosted: Callable[..., tuple[Array, ...]] | None  # the solve on NumPy arrays, where needed
    key: Key | None  # of the factor, except for the values


def planned(structure: Structure, p: Tree, b: Array | None, assume_a: str, method: str) -> Plan:
    """The plan for arguments like these, with or without a right-hand side."""
    of_p: Any = (
        (p.dtype, p.ndim)
        if type(p) is np.ndarray
        else tuple([(x.dtype, x.ndim) for x in leaves(p)])
    )
    like, axes = (leaves(p)[0], None) if b is None else (b, b.ndim)
    kind = (
        "plan",
        of_p,
        type(like),
        like.dtype,
        device_of(like),
        axes,
        assume_a,
        method,
        singular_state(),
    )
    plan: Plan = structure.cached(kind, partial(_planned, structure, p, b, assume_a, method))
    return plan


def _planned(structure: Structure, p: Tree, b: Array | None, assume_a: str, method: str) -> Plan:
    flat = leaves(p)
    single = all(x.ndim == own for x, own in zip(flat, leaves(structure.core), strict=True)) and (
        b is None or b.ndim == 2
    )
    b = flat[0] if b is None else b
    dtypes = [numpy_dtype(x) for x in flat]
    dtype = np.result_type(*dtypes, numpy_dtype(b))
    mixed = numpy_dtype(b).kind == "c" and all(d.kind != "c" for d in dtypes)
    # a real matrix is factored as such, also for a complex b
    factored = np.finfo(dtype).dtype if mixed else dtype
    engine = choose(structure.unview()[0], factored, device_of(b), assume_a, method)
    base, op = structure.plain.unview()
    if is_iterative(engine):
        return Plan(engine, None, base, op, dtype, single, mixed, None, None)
    if dtype.kind != "c":  # a real matrix is its conjugate
        op = {"H": "T", "C": "N"}.get(op, op)
    links = chain(base, factored, device_of(b), assume_a, method)
    key = key_of(links, base, assume_a, flat)
    is_numpy = type(b) is np.ndarray
    if single and (engine.ON_HOST or is_numpy):
        key = key_of(links, base, assume_a, [np.empty(0, d) for d in dtypes])
        hosted: Any = partial(solve_one, factoring(links, base, assume_a, key), op)
    else:
        hosted = partial(solve_each, links, base, assume_a, op) if engine.ON_HOST else None
    return Plan(
        engine,
        links,
        base,
        op,
        dtype,
        single,
        mixed,
        keeping_state(hosted) if hosted and not is_numpy else hosted,
        key,
    )
