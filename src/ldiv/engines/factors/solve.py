"""Solves with the factors of a plan: a loop over the matrices of a batch, each with its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import astype, batch_of, broadcast, fold, result_dtype, unfold
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import rebuild
from ldiv.core.owners.holder import owner, store
from ldiv.core.rules.finite import all_finite, require_finite
from ldiv.engines import solve_log
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.escalation import Escalating
from ldiv.engines.factors.factorize import batch_axes, factorize
from ldiv.engines.factors.plan import Plan
from ldiv.errors import overflowed


def solve(plan: Plan, *arrays: Array) -> tuple[Array]:
    """Return (x,) with A x = b for arrays of the kind that the engine takes: the leaves of p, and
    b.

    On the host each matrix has its own factor; on a device all matrices have one factor together.
    """
    assert plan.factors is not None, "the caller has seen that it is no iteration"
    *flat, b = arrays
    # a callback of JAX comes without a rule's checks, and so do batches that do not match
    if (calls := plan.calls) is not None and (owner() is store or not plan.single):
        x = calls.solve_all(flat[0], b)
        if x is not None:
            return (x,)
    require_finite("b", b)
    p = rebuild(plan.base.core, flat)
    own = () if plan.single else batch_axes(plan.base, p)
    each = own if plan.engine.ON_HOST else ()
    factors = factorize(plan.factors, p, each)
    # without columns there is no solution, but a singular matrix must still be refused
    if 0 in b.shape:
        for factor in factors:
            factor.check_nonsingular()
        shape, xp = (*broadcast(own, batch_of(b, 2)), *b.shape[-2:]), namespace(b)
        return (astype(xp.zeros_like(xp.broadcast_to(b, shape)), result_dtype(p, b)),)
    count = 1
    if each:
        x, count = _one_by_one(factors, own, b, plan.op, result_dtype(p, b))
    elif own or plan.single:
        x = factors[0].solve(b, plan.op)
    else:  # one matrix: one solve with a wider block
        # (*batch, n, k) as (n, batch k), and back
        x = unfold(factors[0].solve(fold(b), plan.op), batch_of(b, 2), b.shape[-1])
    counts["solves"] += count
    solve_log.note(factors[-1].engine, gave_up=factors[-1].gave_up)
    check_or_raise(all_finite(x), partial(overflowed, "the solution"))
    return (x,)


def _one_by_one(
    factors: Sequence[Escalating], own: tuple[int, ...], b: Array, op: str, dtype: np.dtype[Any]
) -> tuple[np.ndarray[Any, Any], int]:
    """Return the solutions, and the number of solves that they took."""
    batch = broadcast(own, batch_of(b, 2))
    x = np.empty((*batch, *b.shape[-2:]), dtype)
    # numbers[i]: which of the factors is that of batch member i, after broadcasting
    numbers = np.broadcast_to(np.arange(len(factors)).reshape(own), batch)
    for i, number, block in zip(
        np.ndindex(batch),
        numbers.flat,
        np.broadcast_to(b, x.shape).reshape(-1, *b.shape[-2:]),
        strict=True,
    ):
        x[i] = factors[int(number)].solve(block, op)
    return x, numbers.size
