"""S(p)^-1 b and determinants of S(p) for plain arrays, batched, by the engine that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, batch_of, broadcast, conj, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, on_host
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.policies.errstate import keeping_state
from ldiv.core.rules.structure import Structure, view_dense
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.escalation import Escalating
from ldiv.engines.factors.factorize import batch_axes, factorize
from ldiv.engines.factors.plan import Plan, planned
from ldiv.engines.factors.solve import solve as by_factors
from ldiv.engines.iterative import krylov
from ldiv.engines.iterative.options import Options
from ldiv.engines.registry import name_of
from ldiv.errors import EngineError


def solve(
    structure: Structure,
    p: Tree,
    b: Array,
    assume_a: str,
    method: str,
    options: Options | None = None,
    auxiliaries: tuple[Tree, ...] = (),
    factor_dtype: str | None = None,
) -> Array:
    """x with S(p) x = b for plain arrays, batched, by the engine that fits."""
    plan = planned(structure, p, b, assume_a, method, factor_dtype)
    if (solve_whole := plan.engine.solve_whole) is not None:
        return solve_whole(structure, p, b, assume_a, method, options, auxiliaries)
    shape = (
        tuple(b.shape)
        if plan.single
        else (*broadcast(batch_axes(plan.base, p), batch_of(b, 2)), *b.shape[-2:])
    )
    # no members, or no rows: x is empty
    if 0 in shape[:-1]:
        return astype(namespace(b).zeros_like(namespace(b).broadcast_to(b, shape)), plan.dtype)
    if plan.factors is None:
        engine = cast(krylov.Iteration, plan.engine)
        return krylov.solve(engine, structure, p, b, options or Options(), auxiliaries)
    if plan.mixed:  # one solve with the real factor serves both parts
        # A^-1 (u + i v) = A^-1 u + i A^-1 v
        xp, k = namespace(b), b.shape[-1]
        parts = xp.concat([xp.real(b), xp.imag(b)], axis=-1)
        x = solve(structure, p, parts, assume_a, method, factor_dtype=factor_dtype)
        return x[..., :k] + 1j * x[..., k:]
    # conj(S) x = b is S conj(x) = conj(b)
    if plan.op == "C":
        return conj(solve(plan.base, p, conj(b), assume_a, method, factor_dtype=factor_dtype))
    if not plan.engine.ON_HOST or type(b) is np.ndarray:
        return (
            by_factors(plan, p, b) if type(p) is np.ndarray else by_factors(plan, *leaves(p), b)
        )[0]
    run = keeping_state(partial(by_factors, plan))
    return on_host(run, ((shape, plan.dtype),), *leaves(p), b)[0]


def inverse(structure: Structure, p: Array, assume_a: str, method: str) -> Array:
    """S(p)^-1 of a structure whose matrices are stored as dense arrays p."""
    if 0 in p.shape:
        return namespace(p).zeros_like(p)
    plan = planned(structure, p, None, assume_a, method)
    assert plan.factors is not None, "it has a determinant, and so factors"
    counts["solves"] += 1
    # op(S)^-1 = op(S^-1)
    return view_dense(factorize(plan.factors, p)[0].inverse(p), plan.op)


def logabsdet(structure: Structure, p: Tree, assume_a: str, method: str) -> Array:
    """log |det S(p)|, of shape (*batch,)."""
    base, _ = structure.unview()
    batch, first = batch_axes(base, p), leaves(p)[0]
    if 0 in (*batch, *base.shape):
        return namespace(first).zeros(batch, **alike(real(first)))
    plan = planned(structure, p, None, assume_a, method)
    dtypes = (np.finfo(plan.dtype).dtype,)
    return _of_factors(plan, p, batch, dtypes, lambda factor: (factor.logabsdet(),))[0]


def slogdet(structure: Structure, p: Tree) -> tuple[Array, Array]:
    """(det S(p) / |det S(p)|, log |det S(p)|), by the factor that a solve would use."""
    batch, first = batch_axes(structure, p), leaves(p)[0]
    # the determinant of a matrix without rows is 1
    if 0 in (*batch, *structure.shape):
        one = namespace(first).ones(batch, **alike(first))
        return one, 0 * real(one)
    plan = planned(structure, p, None, "gen")
    dtypes = plan.dtype, np.finfo(plan.dtype).dtype
    sign, size = _of_factors(plan, p, batch, dtypes, lambda factor: factor.slogdet())
    return sign, size


def _of_factors(
    plan: Plan,
    p: Tree,
    batch: tuple[int, ...],
    dtypes: Sequence[np.dtype[Any]],
    ask: Callable[[Escalating], tuple[Array, ...]],
) -> Sequence[Array]:
    """Ask the factors of all matrices of a batch; the answers are arrays of shape (*batch,)."""
    factor_plan = plan.factors
    if factor_plan is None:
        raise EngineError(
            f"{name_of(plan.engine)} iterates: it has no factors, and so no determinant. "
            "Make the matrix sparse or dense, or take stochastic estimates."
        )
    # one factor of all batch members, where the arrays are
    if not plan.engine.ON_HOST:
        found = ask(factorize(factor_plan, p)[0])
        return tuple(map(np.asarray, found, dtypes)) if type(leaves(p)[0]) is np.ndarray else found

    def of_each(*flat: Array) -> tuple[Array, ...]:
        # one factor for each batch member, on the host
        factors = factorize(factor_plan, rebuild(plan.base.core, flat), batch)
        columns = zip(*map(ask, factors), strict=True)
        return tuple(
            np.reshape(np.array(column, dtype), batch)
            for column, dtype in zip(columns, dtypes, strict=True)
        )

    specs = tuple((batch, dtype) for dtype in dtypes)
    return on_host(keeping_state(of_each), specs, *leaves(p))
