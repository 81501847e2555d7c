"""The factors of S(p), from the cache or anew, by the first engine to which it appears nonsingular."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_opaque, namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import Structure
from ldiv.engines.factors.cache import cached_factor, in_trace
from ldiv.engines.factors.escalation import Attempt, Batch, Escalating
from ldiv.engines.factors.plan import FactorPlan, factor_plan_of
from ldiv.engines.registry import Chain, Engine


def factorize_by(engine: Engine, structure: Structure, p: Tree, assume_a: str) -> Escalating:
    """Return the factor of S(p) by one engine, from the cache or new."""
    alone = Chain((engine,), ())
    plan = factor_plan_of(alone, structure, leaves(p), assume_a, singular_state())
    return factorize(plan, p)[0]


def factorize(plan: FactorPlan, p: Tree, batch: tuple[int, ...] = ()) -> Sequence[Escalating]:
    """The factors of all matrices of a batch, each by the first engine that succeeds; from the cache,
    which holds them as one entry, or anew.

    An engine of arrays has one factor for all: without a batch.
    """
    structure = plan.base
    values = tuple(leaves(structure.read(p)))
    if is_opaque(values[0]):
        engine, make = plan.attempts[0][
            0
        ]  # a tracer has no values, so the first engine cannot fail yet
        make = partial(in_trace, plan.key, values, partial(make, p))
        return [Escalating([Attempt(engine, make)])]
    # Checked here, not in the public layer: under a transformation only engines see numbers.
    if not plan.engine.REMEMBERED:
        require_finite("A", *values)
        return _made(plan, p, batch).factors

    def make_of_copies() -> tuple[Batch, tuple[Array, ...]]:
        """Copy the numbers that the matrices depend on; return the factors of the copies, and the
        copies.
        """
        own = tuple(_owned(x, given) for x, given in zip(values, leaves(p), strict=True))
        return _made(plan, rebuild(structure.core, own), batch), own

    found: Batch = cached_factor(plan.key, values, make_of_copies)
    return found.factors


def _made(plan: FactorPlan, p: Tree, batch: tuple[int, ...]) -> Batch:
    """Factor each matrix; equal neighbors, as in a matrix that was broadcast to a batch, share one
    factor.
    """
    # one matrix
    if not batch:
        alone = [Escalating(*plan.attempts, p)]
        return Batch(alone, alone)
    factors: list[Escalating] = []
    different: list[Escalating] = []
    latest: list[Array] = []
    for member in each_matrix(plan.base, leaves(p), batch):
        now = leaves(member)
        repeated = bool(latest) and all(map(np.array_equal, latest, now))
        if not repeated:
            different.append(Escalating(*plan.attempts, member))
            latest = now
        factors.append(different[-1])
    return Batch(factors, different)


def _owned(x: Array, given: Array) -> Array:
    """Return a copy of x, which nobody else can change while the factor lives; x itself if it is a
    new array.
    """
    if type(x) is not np.ndarray:
        return namespace(x).asarray(x, copy=True)
    return x if x is not given and x.flags.owndata else np.array(x)


def each_matrix(
    structure: Structure, flat: Sequence[Array], batch: tuple[int, ...]
) -> Iterator[Tree]:
    """The parameters of every matrix of a batch."""
    shapes = [
        leaf.shape[leaf.ndim - c :] for leaf, c in zip(flat, leaves(structure.core), strict=True)
    ]
    # (count, *own): the members of all batch axes in one row
    rows = [
        np.broadcast_to(leaf, (*batch, *own)).reshape(prod(batch), *own)
        for leaf, own in zip(flat, shapes, strict=True)
    ]
    for member in zip(*rows, strict=True):
        yield rebuild(structure.core, member)


def batch_axes(structure: Structure, p: Tree) -> tuple[int, ...]:
    """The batch axes of the matrices S(p)."""
    core = structure.core
    if isinstance(core, int):
        return batch_of(p, core)
    return broadcast(*(batch_of(leaf, c) for leaf, c in zip(leaves(p), leaves(core), strict=True)))
