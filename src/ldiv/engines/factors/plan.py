"""The plan of a solve: all decisions that do not depend on numbers, made once per signature.

A plan is kept by the structure of its matrix, and goes with it. So nothing else has to know how
long a pattern is in use, and no second table with bounds of its own holds on to index sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import device_of, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.structure import Structure
from ldiv.engines.factors.attempts import attempts
from ldiv.engines.factors.cache import FactorKey, Key
from ldiv.engines.factors.escalation import Attempt
from ldiv.engines.factors.sparse_calls import SparseCalls, calls_of
from ldiv.engines.registry import Chain, Engine, chain, choose, is_iterative


@dataclass(frozen=True, eq=False)
class FactorPlan:
    """The plan to factor op(S(p)) = A for arguments of one signature. Immutable, shared by threads."""

    chain: Chain
    engine: Engine  # the one that is asked first
    base: Structure  # S
    assume_a: str
    key: Key  # of the factor, except for the values
    attempts: tuple[Sequence[Attempt], Sequence[Attempt]]


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan to solve A x = b for arguments of one signature. Immutable, shared by threads."""

    engine: Engine
    base: Structure
    op: str  # A = op(S(p)) for this base S
    dtype: np.dtype[Any]
    single: bool  # one matrix, one block of right-hand sides
    mixed: bool  # real p, complex b
    factors: FactorPlan | None  # None for an iteration
    calls: SparseCalls | None = None  # what is compiled


def planned(
    structure: Structure,
    p: Tree,
    b: Array | None,
    assume_a: str,
    method: str = "auto",
    factor_dtype: str | None = None,
) -> Plan:
    """Return the plan for arguments of this signature, with or without a right-hand side."""
    of_p: Any = (
        (p.dtype, p.ndim)
        if type(p) is np.ndarray
        else tuple([(x.dtype, x.ndim) for x in leaves(p)])
    )
    like, axes = (leaves(p)[0], None) if b is None else (b, b.ndim)
    state = singular_state()
    of_like = type(like), like.dtype, device_of(like), axes
    signature = "plan", of_p, of_like, assume_a, method, factor_dtype, state
    plan: Plan = structure.cached(
        signature, partial(_planned, structure, p, b, assume_a, method, factor_dtype, state)
    )
    return plan


def _planned(
    structure: Structure,
    p: Tree,
    b: Array | None,
    assume_a: str,
    method: str,
    factor_dtype: str | None,
    state: str,
) -> Plan:
    flat = leaves(p)
    single = all(x.ndim == own for x, own in zip(flat, leaves(structure.core), strict=True)) and (
        b is None or b.ndim == 2
    )
    b = flat[0] if b is None else b
    dtypes = [numpy_dtype(x) for x in flat]
    dtype = np.result_type(*dtypes, numpy_dtype(b))
    mixed = numpy_dtype(b).kind == "c" and all(d.kind != "c" for d in dtypes)
    # a real matrix is factored as such, also for a complex b
    task = np.finfo(dtype).dtype if mixed else dtype, device_of(b), assume_a, method, factor_dtype
    engine = choose(structure.unview()[0], *task)
    base, op = structure.plain.unview()
    if is_iterative(engine):
        return Plan(engine, base, op, dtype, single, mixed, None)
    if dtype.kind != "c":  # a real matrix is its conjugate
        op = {"H": "T", "C": "N"}.get(op, op)
    like = [np.empty(0, d) for d in dtypes] if engine.ON_HOST else flat
    factor_plan = factor_plan_of(chain(base, *task), base, like, assume_a, state)
    calls = calls_of(engine, base, op, assume_a, in_single=factor_plan.chain.in_single)
    return Plan(engine, base, op, dtype, single, mixed, factor_plan, calls)


def factor_plan_of(
    engines: Chain, structure: Structure, like: Sequence[Array], assume_a: str, state: str
) -> FactorPlan:
    """Return the plan by which these engines factor matrices of such parameters, under a state of
    `errstate`.
    """
    first = like[0]
    dtypes = tuple([leaf.dtype for leaf in like])
    key = Key(
        FactorKey(engines, state, structure, assume_a, namespace(first), dtypes, device_of(first))
    )
    tried = attempts(engines, structure, assume_a)
    return FactorPlan(engines, engines.engines[0], structure, assume_a, key, tried)
