"""S(p)^-1 b and determinants of S(p) for plain arrays, batched, by the engine that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ldiv.core.arrays import alike, astype, batch_of, broadcast, conj, real
from ldiv.core.dispatch import namespace, on_host
from ldiv.core.errstate import keeping_state
from ldiv.core.finite import require_finite
from ldiv.core.structure import Structure, view_dense
from ldiv.core.trees import Array, Tree, leaves
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.escalation import Escalating
from ldiv.engines.factors.factored import batch_axes, factored, factored_each
from ldiv.engines.factors.plan import Plan, planned
from ldiv.engines.factors.solve import solve_folded
from ldiv.engines.iterative import krylov
from ldiv.engines.iterative.options import Options
from ldiv.engines.registry import Chain, name_of
from ldiv.errors import EngineError


def solve(
    structure: Structure,
    p: Tree,
    b: Array,
    assume_a: str,
    method: str,
    options: Options | None = None,
    auxiliaries: tuple[Tree, ...] = (),
) -> Array:
    """x with S(p) x = b for plain arrays, batched, by the engine that fits."""
    plan = planned(structure, p, b, assume_a, method)
    if (solve_whole := plan.engine.solve_whole) is not None:
        return solve_whole(structure, p, b, assume_a, method, options, auxiliaries)
    shape = (
        tuple(b.shape)
        if plan.single
        else (*broadcast(batch_axes(plan.base, p), batch_of(b, 2)), *b.shape[-2:])
    )
    if 0 in shape[:-1]:
        return astype(namespace(b).zeros_like(namespace(b).broadcast_to(b, shape)), plan.dtype)
    if plan.links is None:
        engine = cast(krylov.Iteration, plan.engine)
        return krylov.solve(engine, structure, p, b, options or Options(), auxiliaries)
    if plan.mixed:  # one solve with the real factor serves both parts
        xp, k = namespace(b), b.shape[-1]
        x = solve(structure, p, xp.concat([xp.real(b), xp.imag(b)], axis=-1), assume_a, method)
        return x[..., :k] + 1j * x[..., k:]
    if plan.op == "C":
        return conj(solve(plan.base, p, conj(b), assume_a, method))
    if plan.hosted is not None:
        if type(b) is np.ndarray:
            return (plan.hosted(p, b) if type(p) is np.ndarray else plan.hosted(*leaves(p), b))[0]
        return on_host(plan.hosted, ((shape, plan.dtype),), *leaves(p), b)[0]
    require_finite("b", b)
    return solve_folded(
        factored(plan.links, plan.base, p, assume_a, plan.key), p, plan.base, b, plan.op
    )


def inverse(structure: Structure, p: Array, assume_a: str, method: str) -> Array:
    """S(p)^-1 of a structure whose matrices are stored as dense arrays p."""
    if 0 in p.shape:
        return namespace(p).zeros_like(p)
    plan = planned(structure, p, None, assume_a, method)
    assert plan.links is not None, "it has a determinant, and so factors"
    counts["solves"] += 1
    factor = factored(plan.links, plan.base, p, assume_a, plan.key)
    return view_dense(factor.inverse(p), plan.op)


def logabsdet(structure: Structure, p: Tree, assume_a: str, method: str) -> Array:
    """log |det S(p)|, of shape (*batch,)."""
    base, _ = structure.unview()
    batch, first = batch_axes(base, p), leaves(p)[0]
    if 0 in (*batch, *base.shape):
        return namespace(first).zeros(batch, **alike(real(first)))
    plan = planned(structure, p, None, assume_a, method)
    _require_factors(plan)
    return _of_factors(
        plan,
        p,
        assume_a,
        batch,
        (np.finfo(plan.dtype).dtype,),
        lambda factor: (factor.logabsdet(),),
    )[0]


def _require_factors(plan: Plan) -> None:
    if plan.links is None:
        raise EngineError(
            f"{name_of(plan.engine)} iterates: it has no factors, and so no determinant. "
            "Make the matrix sparse or dense, or take stochastic estimates."
        )


def slogdet(structure: Structure, p: Tree) -> tuple[Array, Array]:
    """(det S(p) / |det S(p)|, log |det S(p)|), by the factor that a solve would use."""
    batch, first = batch_axes(structure, p), leaves(p)[0]
    if 0 in (*batch, *structure.shape):
        one = namespace(first).ones(batch, **alike(first))
        return one, 0 * real(one)
    plan = planned(structure, p, None, "gen", "auto")
    _require_factors(plan)
    sign, size = _of_factors(
        plan,
        p,
        "gen",
        batch,
        (plan.dtype, np.finfo(plan.dtype).dtype),
        lambda factor: factor.slogdet(),
    )
    return sign, size


def _of_factors(
    plan: Plan,
    p: Tree,
    assume_a: str,
    batch: tuple[int, ...],
    dtypes: Any,
    ask: Callable[[Escalating], tuple[Array, ...]],
) -> Any:
    """What the factors of all matrices of a batch give, arrays of shape (*batch,)."""
    links = plan.links or Chain((plan.engine,), ())
    if plan.hosted is None:
        return ask(factored(links, plan.base, p, assume_a, plan.key))
    if plan.single and type(leaves(p)[0]) is np.ndarray:
        found = ask(factored(links, plan.base, p, assume_a, plan.key))
        return tuple(map(np.asarray, found, dtypes))

    def each(*flat: Array) -> tuple[Array, ...]:
        out = tuple(np.empty(batch, dtype) for dtype in dtypes)
        for i, factor in zip(
            np.ndindex(batch),
            factored_each(links, plan.base, flat, assume_a, batch, plan.key),
            strict=True,
        ):
            for y, answer in zip(out, ask(factor), strict=True):
                y[i] = answer
        return out

    return on_host(keeping_state(each), tuple((batch, dtype) for dtype in dtypes), *leaves(p))
