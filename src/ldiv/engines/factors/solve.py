"""Solves with factors: for one block, for a batch of blocks, and for a batch of matrices."""

from __future__ import annotations

from functools import partial

import numpy as np

from ldiv.core.arrays import astype, batch_of, broadcast, fold, result_dtype, unfold
from ldiv.core.dispatch import check_or_raise, namespace
from ldiv.core.finite import all_finite, require_finite
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.engines import solve_log
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.escalation import Escalating
from ldiv.engines.factors.factored import Factoring, batch_axes, factored, factored_each
from ldiv.engines.registry import Chain
from ldiv.errors import overflowed


def solve_one(factoring: Factoring, op: str, *arrays: Array) -> tuple[Array, ...]:
    """On NumPy arrays: one matrix, one block."""
    *flat, b = arrays
    require_finite("b", b)
    p = rebuild(factoring.structure.core, flat)
    factor = factoring.of(p, tuple(leaves(factoring.structure.read(p))))
    if not b.shape[1]:
        factor.check_nonsingular()
        return (np.zeros(b.shape, np.result_type(*flat, b)),)
    counts["solves"] += 1
    x = factor.solve(b, op)
    if solve_log.is_read():
        solve_log.note(factor.engine, gave_up=factor.gave_up)
    if not all_finite(x):
        raise overflowed("the solution")
    return (x,)


def solve_folded(factor: Escalating, p: Tree, structure: Structure, b: Array, op: str) -> Array:
    """One matrix with a batch of right-hand sides: one solve with a wider block."""
    if 0 in b.shape:
        factor.check_nonsingular()
        xp = namespace(b)
        shape = (*broadcast(batch_axes(structure, p), batch_of(b, 2)), *b.shape[-2:])
        return astype(xp.zeros_like(xp.broadcast_to(b, shape)), result_dtype(p, b))
    counts["solves"] += 1
    batched = bool(batch_axes(structure, p))
    x = factor.solve(b if batched else fold(b), op)
    solve_log.note(factor.engine, gave_up=factor.gave_up)
    check_or_raise(all_finite(x), partial(overflowed, "the solution"))
    return x if batched else unfold(x, batch_of(b, 2), b.shape[-1])


def solve_each(
    links: Chain, structure: Structure, assume_a: str, op: str, *arrays: Array
) -> tuple[Array, ...]:
    """On the host: one factorization for each matrix of the batch."""
    *flat, b = arrays
    require_finite("b", b)
    p = rebuild(structure.core, flat)
    own = batch_axes(structure, p)
    if not own:
        return (solve_folded(factored(links, structure, p, assume_a), p, structure, b, op),)
    factors = factored_each(links, structure, flat, assume_a, own)
    if 0 in b.shape:
        for factor in factors:
            factor.check_nonsingular()
    batch = broadcast(own, batch_of(b, 2))
    x = np.empty((*batch, *b.shape[-2:]), np.result_type(*flat, b))
    numbers, b = (
        np.broadcast_to(np.arange(len(factors)).reshape(own), batch),
        np.broadcast_to(b, x.shape),
    )
    for i, number in zip(np.ndindex(batch if x.size else 0), numbers.flat, strict=False):
        x[i] = factors[int(number)].solve(b[i], op)
    counts["solves"] += numbers.size
    solve_log.note(factors[-1].engine, gave_up=factors[-1].gave_up)
    if not all_finite(x):
        raise overflowed("the solution")
    return (x,)
