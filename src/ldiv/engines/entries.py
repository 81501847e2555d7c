"""log |det S(p)|, its gradient and the tangent of that, for sparse S linear in p, on plain arrays.

    gradient     G = S^*[S(p)^-H]
    tangent      dG = -S^*[(S^-1 S(e) S^-1)^H] along e

Only the entries of S^-1 in the places of S (transposed) are needed. They are computed on the host,
one matrix at a time. Where the factors of `selected` are not accurate enough, the engines that
solve give the same, with n solves; so they do for few rows where nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    common_batch,
    conj,
    device_of,
    numpy_dtype,
    result_dtype,
    spread,
    unit_columns,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.owners.forking import import_module
from ldiv.core.policies.errstate import keeping_state, raises, singular_state
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import Structure, matmul, outer
from ldiv.engines import registry, solver
from ldiv.engines.accuracy.dense_matrix import equilibrated
from ldiv.engines.direct import fronts, lapack
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.factors.factorize import batch_axes, each_matrix, factorize, factorize_by
from ldiv.engines.factors.plan import FactorPlan, factor_plan_of, planned
from ldiv.engines.libraries import native
from ldiv.engines.registry import Chain
from ldiv.errors import EngineError, SingularMatrixError
from ldiv.structures.banded import Banded
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric, symmetric_part

BLOCK = 64  # columns of the inverse in memory at a time


def is_compiled() -> bool:
    """Whether compiled fronts find entries for any number of rows."""
    return native.native is not None


def _cholesky() -> Any:
    """The engine of positive definite matrices."""
    return registry.engines()["cholesky"]


def supports(structure: Structure, p: Tree, assume_a: str = "gen") -> bool:
    """Whether S is sparse and linear in p, with its values on the host, or positive definite."""
    base = _base(structure)
    part = base.base if isinstance(base, Symmetric) else base
    return (isinstance(part, Sparse | Banded) and is_sparse(base, p)) or (
        is_elsewhere(p) and fronts.supports(base, result_dtype(p), "", assume_a) is None
    )


def is_elsewhere(p: Tree) -> bool:
    """Whether the values are on a device."""
    return any(device_of(x) != "cpu" for x in leaves(p))


def is_sparse(structure: Structure, p: Tree) -> bool:
    """Whether S is square, with a pattern and with its values on the host."""
    base = _base(structure)
    return base.shape[0] == base.shape[1] > 0 and base.pattern is not None and not is_elsewhere(p)


def logabsdet(structure: Structure, p: Tree, assume_a: str) -> Array:
    """log |det S(p)|, of shape (*batch,)."""
    base = _base(structure)
    if is_elsewhere(p):
        return solver.logabsdet(base, p, assume_a, "fronts")
    spec = (batch_axes(base, p), np.finfo(result_dtype(p)).dtype)
    return _hosted(partial(_logabsdet, base, assume_a), (spec,), *leaves(p))[0]


def slogdet(structure: Structure, p: Tree, assume_a: str) -> tuple[Array, Array]:
    """(det S(p) / |det S(p)|, log |det S(p)|)."""
    base, op = structure.unview()
    batch, dtype = batch_axes(base, p), result_dtype(p)
    specs = (batch, dtype), (batch, np.finfo(dtype).dtype)
    sign, size = _hosted(partial(_slogdet, base, assume_a), specs, *leaves(p))
    # det conj(S) = conj(det S), det S^T = det S
    return conj(sign) if op in "CH" else sign, size


def gradient(structure: Structure, p: Tree, assume_a: str) -> tuple[Array, ...]:
    """G, one array of the shape of each parameter."""
    if isinstance(p, tuple) or is_elsewhere(p):
        return _there(structure, (p,), assume_a, lambda factor: factor.inverse_entries())
    spec = (tuple(p.shape), numpy_dtype(p))
    return _hosted(partial(_gradient, _base(structure), assume_a), (spec,), p)


def tangent(structure: Structure, p: Tree, e: Tree, assume_a: str) -> tuple[Array, ...]:
    """dG along e, of the shapes to which p and e broadcast."""
    if isinstance(p, tuple) or is_elsewhere(p):
        return _there(structure, (p, e), assume_a, lambda factor: factor.inverse_tangent(e))
    shape = np.broadcast_shapes(tuple(p.shape), tuple(e.shape))
    spec = (shape, np.result_type(numpy_dtype(p), numpy_dtype(e)))
    return _hosted(partial(_tangent, _base(structure), assume_a), (spec,), p, e)


def fronts_of(structure: Structure) -> Any:
    """The fronts of a structure, analysed once: the places of the entries of L."""
    return symbolic(_cholesky(), _base(structure))


def triangle(structure: Structure, p: Array) -> Array:
    """The entries of L, P S(p) P^T = L L^H, in the places of `Fronts.factor_entries`."""
    base = _base(structure)
    shape = (*batch_axes(base, p), len(fronts_of(base).factor_entries[0]))
    return _hosted(partial(_triangle, base), ((shape, numpy_dtype(p)),), p)[0]


def of_triangles(name: str, structure: Structure, x: Array, y: Array) -> Array:
    """Apply a function of `triangles` to two vectors of entries, for a batch."""
    shape = np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    spec = (shape, np.result_type(numpy_dtype(x), numpy_dtype(y)))
    return _hosted(partial(_of_triangles, name, _base(structure)), (spec,), x, y)[0]


def filled(pattern: Pattern) -> tuple[Index, Index]:
    """Rows and columns of the entries of L and L^T, for this pattern made symmetric."""
    rows, cols = import_module("ldiv.engines.selected.fronts").Fronts(pattern).filled()
    return rows, cols


def _base(structure: Structure) -> Structure:
    # |det| and its derivatives are the same for all views
    return structure.unview()[0]


def _there(
    structure: Structure, args: tuple[Tree, ...], assume_a: str, ask: Callable[[Any], Any]
) -> tuple[Array, ...]:
    """Ask the one factor of all matrices of a batch, where they are, for arrays in the places of p."""
    base, p = _base(structure), args[0]
    batch = common_batch((base.core,) * len(args), args)
    # no members, or no rows: the gradient is zero, in the shape of p
    if 0 in (*batch, *base.shape):
        pairs = zip(leaves(p), leaves(base.core), strict=True)
        return tuple([0 * spread(x, batch, own) for x, own in pairs])
    plan = planned(base, p, None, assume_a, "fronts" if is_elsewhere(p) else "auto").factors
    assert plan is not None, "an engine with factors supports it"
    found = ask(factorize(plan, p)[0])
    return tuple(found) if isinstance(p, tuple) else (found,)


def _hosted(f: Callable[..., Any], specs: Any, *arrays: Array) -> tuple[Array, ...]:
    return on_host(keeping_state(partial(_in_dtypes, f, specs)), specs, *arrays)


def _in_dtypes(f: Callable[..., Any], specs: Any, *arrays: Any) -> tuple[Any, ...]:
    """Arrays, of no more digits than the matrix has: the factors may be more precise."""
    return tuple(np.asarray(y, dtype) for y, (_, dtype) in zip(f(*arrays), specs, strict=True))


# -- on the host, for a batch -----------------------------------------------------------------------


def _logabsdet(base: Structure, assume_a: str, *flat: Any) -> tuple[Any, ...]:
    def by_solver(p: Tree, _: int) -> tuple[Any, ...]:
        return (solver.logabsdet(base, p, assume_a, "auto"),)

    return _each(base, assume_a, flat, lambda factor, _: (factor.logabsdet(),), by_solver, (0,))


def _slogdet(base: Structure, assume_a: str, *flat: Any) -> tuple[Any, ...]:
    def by_solver(p: Tree, _: int) -> tuple[Any, ...]:
        return factorize_by(registry.engines()["superlu"], base, p, "gen").slogdet()

    def of_factor(factor: Any, _: int) -> tuple[Any, ...]:
        return factor.slogdet()

    sign, size = _each(base, assume_a, flat, of_factor, by_solver, (0, 0))
    if isinstance(base, Symmetric) and base.op == "H":  # a real determinant, to the last bit
        sign = np.sign(sign.real).astype(sign.dtype)
    return sign, size


def _gradient(base: Structure, assume_a: str, p: Any) -> tuple[Any, ...]:
    def of_factor(factor: Any, _: int) -> tuple[Any, ...]:
        # inverse_entries: (S^-1)_ji in the slot of (i, j); its conjugate is (S^-H)_ij
        return (_in_parameters(base, np.conj(factor.inverse_entries())),)

    def by_solver(p: Tree, _: int) -> tuple[Any, ...]:
        return (_in_blocks(base, p, None, assume_a),)

    return _each(base, assume_a, (p,), of_factor, by_solver, (_own(base),))


def _tangent(base: Structure, assume_a: str, p: Any, e: Any) -> tuple[Any, ...]:
    own = _own(base)
    batch = np.broadcast_shapes(p.shape[: p.ndim - own], e.shape[: e.ndim - own])
    # p and e of one batch, of the same members
    p, e = (np.broadcast_to(x, (*batch, *x.shape[x.ndim - own :])) for x in (p, e))
    along = e.reshape(-1, *e.shape[e.ndim - own :])

    def of_factor(factor: Any, i: int) -> tuple[Any, ...]:
        # (-S^-1 S(e) S^-1)_ji in the slot of (i, j)
        moved = factor.inverse_tangent(_in_slots(base, along[i]))
        return (_in_parameters(base, np.conj(moved)),)

    def by_solver(p: Tree, i: int) -> tuple[Any, ...]:
        return (_in_blocks(base, p, along[i], assume_a),)

    return _each(base, assume_a, (p,), of_factor, by_solver, (own,))


def _triangle(base: Structure, p: Any) -> tuple[Any, ...]:
    batch, (_, rows, cols) = batch_axes(base, p), fronts_of(base).factor_entries
    if not is_compiled():  # all columns are one front
        assert isinstance(base, Symmetric)
        require_finite("A", p)
        # R A R = L L^H: the factor of A is R^-1 L
        m, scales = equilibrated(symmetric_part(base.base.todense(p), base.op), congruent=True)
        (l,) = lapack.cholesky(m.whole).arrays
        return ((l if scales is None else l / scales[0][..., None])[..., rows, cols],)
    factors = factorize(_factor_plan(base, p, "pos"), p, batch)
    found = [factor.triangle() for factor in factors]
    return (np.reshape(np.array(found, p.dtype), (*batch, len(rows))),)


def _of_triangles(name: str, base: Structure, x: Any, y: Any) -> tuple[Any, ...]:
    of_one = getattr(import_module("ldiv.engines.selected.triangles"), name)
    x, y = np.broadcast_arrays(x, y)
    result = np.empty(x.shape, np.result_type(x, y))
    for i in np.ndindex(*x.shape[:-1]):
        result[i] = of_one(fronts_of(base), x[i], y[i])
    return (result,)


def _own(base: Structure) -> int:
    core = base.core
    assert isinstance(core, int)
    return core


def _each(
    base: Structure,
    assume_a: str,
    flat: Sequence[Any],
    of_factor: Callable[[Any, int], tuple[Any, ...]],
    by_solver: Callable[[Tree, int], tuple[Any, ...]],
    own: tuple[int, ...],
) -> tuple[Any, ...]:
    """Compute entries for all batch members, by compiled factors or else by solves.

    `own` are the axes of each result without batch axes.
    """
    p = rebuild(base.core, flat)
    batch = batch_axes(base, p)
    if 0 in batch:
        shape = flat[0].shape[flat[0].ndim - leaves(base.core)[0] :]
        dtype = np.finfo(flat[0].dtype).dtype
        return tuple(np.zeros((*batch, *shape[:axes]), dtype) for axes in own)
    results = _by_fronts(base, assume_a, p, batch, of_factor) if is_compiled() else None
    if results is None:
        members = each_matrix(base, flat, batch)
        results = [by_solver(member, i) for i, member in enumerate(members)]
    if not batch:
        return results[0]
    return tuple(
        np.stack(column).reshape(*batch, *np.shape(column[0]))
        for column in zip(*results, strict=True)
    )


def _by_fronts(
    base: Structure,
    assume_a: str,
    p: Tree,
    batch: tuple[int, ...],
    of_factor: Callable[[Any, int], tuple[Any, ...]],
) -> list[tuple[Any, ...]] | None:
    """Return what each factor gives, or None where a factor is not accurate enough."""
    try:
        factors = factorize(_factor_plan(base, p, assume_a), p, batch)
        return [of_factor(factor, i) for i, factor in enumerate(factors)]
    except (SingularMatrixError, EngineError) as error:
        if isinstance(error, SingularMatrixError) and error.certain:
            raise
        return None


def _factor_plan(base: Structure, p: Tree, assume_a: str) -> FactorPlan:
    """Plan factors by fronts; for a definite matrix the engines that solve come after these."""
    engine = _cholesky() if assume_a == "pos" else import_module("ldiv.engines.selected.general")
    dtype, engines = result_dtype(p), Chain((engine,), ())
    if assume_a == "pos" and raises():
        solving = registry.chain(base, dtype, "cpu", assume_a)
        others = [other for other in solving.engines if other is not engine]
        engines = Chain((engine, *others), solving.alternatives)
    return factor_plan_of(engines, base, leaves(p), assume_a, singular_state())


# -- between parameters and the slots of the pattern ------------------------------------------------


def _in_slots(base: Structure, e: Any) -> Any:
    """The values of S(e), without a check of symmetry: e is a direction."""
    if not isinstance(base, Symmetric):
        return base.slot_values(e)
    slots, pattern = base.base.slot_values(e), base.pattern
    assert pattern is not None
    if pattern is not base.base.pattern:
        # entries of the symmetric pattern: those of the base, then their mirror images, here 0
        slots = pattern.slot_values(np.concatenate([slots, np.zeros_like(slots)]))
    mirror = slots[pattern.transposition]
    # (E + E^H) / 2, or (E + E^T) / 2
    return slots / 2 + (np.conj(mirror) if base.op == "H" else mirror) / 2


def _in_parameters(base: Structure, g: Any) -> Any:
    """S^*[G] for a G given in the slots, as symmetric as S."""
    if isinstance(base, Symmetric):
        own, pattern = base.base.pattern, base.pattern
        assert own is not None and pattern is not None
        # entries of the base come first in the symmetric pattern; g has the symmetry already
        base, g = base.base, g if pattern is own else g[pattern.slot[: own.slots]]
    assert base.pattern is not None
    # S adds the entries of a slot, so each of them has the cotangent of the slot
    entries = g[base.pattern.slot]
    if isinstance(base, Banded):
        # numbers of p outside of the matrix have the cotangent 0
        band = np.zeros(base.inside.shape, g.dtype)
        band[base.inside] = entries
        return band
    return entries


def _in_blocks(base: Structure, p: Any, e: Any, assume_a: str) -> Any:
    """S^*[S^-H], or along e -S^*[S^-H S(e)^H S^-H], by solves with blocks of unit vectors."""
    n, total = base.shape[0], np.zeros_like(p)
    native.require(f"entries of the inverse of a sparse matrix of {n:,} rows", n)
    for j in range(0, n, BLOCK):
        unit = unit_columns(p, n, range(j, min(j + BLOCK, n)))
        # columns of S^-H; along e those of -S^-H S(e)^H S^-H
        x = solver.solve(base.H, p, unit, assume_a, "auto")
        if e is not None:
            x = -solver.solve(base.H, p, matmul(base.H, e, x), assume_a, "auto")
        # S^* is linear: the sum over blocks of columns of S^*(x unit^H)
        total = total + outer(base, p, x, unit, True)
    return total
