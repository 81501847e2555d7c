"""Y = exp(t S(p)) B.

tangent      dY = exp(t A) dB + L dB',  the upper half of exp(t [[A, dA], [0, A]]) [dB; B]
cotangent    B_bar = exp(t A^H) Y_bar,
             p_bar = integral over s of dS(p)^*[(exp((t - s) A^H) Y_bar) (exp(s A) B)^H] = G(p, B, Y_bar)
second order <q, G(p, B, C)> = <C, L(A, S(q)) B>: with M = [[A, S(q)], [0, A]] once more
             L B = upper half of exp(t M) [0; B],  L^H C = lower half of exp(t M^H) [C; 0],
             and the cotangent of p is that of M: G([[A, S(q)], [0, A]], [0; B], [C; 0])
cost         products with A: about 10 for each unit of t |A|_1, twice that for a tangent, four
             times for a cotangent
reference    Al-Mohy and Higham (2011); Higham, Functions of Matrices (2008), (3.16)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from ldiv.core.arrays.shapes import (
    astype,
    batch_of,
    broadcast,
    common_batch,
    conform,
    numpy_dtype,
    result_dtype,
    spread,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace, on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves, rebuild
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.rescaling import Rescaled, changed
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind, name_of
from ldiv.core.rules.structure import Structure, nothing, plus, push
from ldiv.core.rules.units import balance, in_units, magnitude, of_rest
from ldiv.engines.functions.exponential_action import exponential_action, exponential_projection
from ldiv.structures.block import Block
from ldiv.structures.dense import Dense
from ldiv.structures.operator import Operator
from ldiv.structures.scaled import Scaled
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class ExponentialAction(Rule):
    """Arguments (p, B), B (*batch, n, k); output Y like B."""

    structure: Structure
    t: float = 1.0

    # derivatives apply functions to vectors, `Pushed`, where the structure is not linear
    traits = Traits(name="expm_multiply", calls_user=True)

    @property
    def core(self) -> Trees:
        return (self.structure.core, 2)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (of_rest(self.structure, (2,), (2,)),)

    def kernel(self, *args: Tree) -> Arrays:
        flat = _wide(self.core, args)
        return _run(self.structure.on_host, self._action, flat[-1:], flat)

    def _action(self, *flat: Array) -> Arrays:
        p, b = rebuild(self.core, flat)
        _require_finite(self.structure, p, b)
        return (exponential_action(self.structure, p, b, self.t),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, b), (dp, db) = args, tangents
        if all(leaf is None for leaf in leaves(dp)):
            return bind(self, p, db)
        # [dY; *] = exp(t [[A, dA], [0, A]]) [dB; B]: dY is linear in dA and dB together,
        # so that dA is scaled to the size of A, and dB with it
        near = Near(self, p, dp)
        structure, params = with_tangent(self.structure, p, near.tangent)
        both = _stacked(0 * b if db is None else near.inside(db, 2), b)
        y = bind(replace(self, structure=structure), params, both)[0]
        return (near.outside(y[..., : self.structure.shape[0], :], 2),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, b), (y_bar,) = args, cotangents
        p_bar = nothing(need[0])
        if any(leaves(need[0])):
            # p_bar = G(p, B, Y_bar)
            found = bind(ExponentialProjection(self.structure, self.t), p, b, y_bar)
            wanted = zip(found, leaves(need[0]), strict=True)
            p_bar = rebuild(self.structure.core, [g if n else None for g, n in wanted])
        # B_bar = exp(t A^H) Y_bar
        return p_bar, (
            bind(replace(self, structure=self.structure.H), p, y_bar)[0] if need[1] else None
        )


@dataclass(frozen=True)
class ExponentialProjection(Rescaled):
    """Arguments (p, B, C); outputs the leaves of G(p, B, C), like those of p."""

    structure: Structure
    t: float = 1.0

    # derivatives apply functions to vectors, `Pushed`, where the structure is not linear
    traits = Traits(name="the derivative of expm_multiply", calls_user=True)

    @property
    def core(self) -> Trees:
        return (self.structure.core, 2, 2)

    @property
    def units(self) -> tuple[Unit, ...]:
        count = len(leaves(self.structure.core))
        of = (0,) * count
        every = (2,) * count
        return (
            Unit((*of, 2, 0), every, by=(count,), name="B"),
            Unit((*of, 0, 2), every, by=(count + 1,), name="C"),
        )

    def kernel(self, *args: Tree) -> Arrays:
        flat = _wide(self.core, args)
        return _run(self.structure.on_host, self._projection, flat[:-2], flat)

    def _projection(self, *flat: Array) -> Arrays:
        p, b, c = rebuild(self.core, flat)
        _require_finite(self.structure, p, b, c)
        need = rebuild(self.structure.core, [True for _ in leaves(p)])
        found = exponential_projection(self.structure, p, b, c, self.t, need)
        return tuple(
            0 * x if g is None else conform(g, x)
            for g, x in zip(leaves(found), leaves(p), strict=True)
        )

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, b, c), (dp, db, dc) = args, tangents
        found: list[Array | None] = [None for _ in out]
        # G is linear in B and in C; its change along dp is a gradient of second order
        terms = [(p, db, c)] if db is not None else []
        terms += [(p, b, dc)] if dc is not None else []
        for term in terms:
            found = list(map(plus, found, bind(self, *term)))
        if any(leaf is not None for leaf in leaves(dp)):
            found = list(map(plus, found, self._of_tangent(p, dp, b, c)))
        return tuple(found)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        p, b, c = args
        q = rebuild(self.structure.core, cotangents)
        near = Near(self, p, q)
        structure, params = with_tangent(self.structure, p, near.tangent)
        n, action = self.structure.shape[0], ExponentialAction(structure, self.t)
        p_bar, b_bar, c_bar = nothing(need[0]), None, None
        if any(leaves(need[0])):
            wanted = zip(self._of_tangent(p, q, b, c), leaves(need[0]), strict=True)
            p_bar = rebuild(self.structure.core, [g if n else None for g, n in wanted])
        if need[1]:
            # B_bar = L^H C, the lower half of exp(t M^H) [C; 0]
            back = replace(action, structure=structure.H)
            b_bar = near.outside(bind(back, params, _stacked(c, 0 * c))[0][..., n:, :], 2)
        if need[2]:
            # C_bar = L B, the upper half of exp(t M) [0; B]
            c_bar = near.outside(bind(action, params, _stacked(0 * b, b))[0][..., :n, :], 2)
        return p_bar, b_bar, c_bar

    def _of_tangent(self, p: Tree, q: Tree, b: Array, c: Array) -> list[Array]:
        """The gradient in p of <q, G(p, B, C)>."""
        near = Near(self, p, q)
        structure, params = with_tangent(self.structure, p, near.tangent)
        rule = replace(self, structure=structure)
        found, m = bind(rule, params, _stacked(0 * b, b), _stacked(c, 0 * c)), len(leaves(p))
        # a block matrix has leaves (p, dp, p), and p takes the cotangents of both its places;
        # an operator has leaves (p, dp)
        first, again = found[:m], found[2 * m :]
        found = tuple(map(plus, first, again)) if again else first
        return list(map(near.outside, found, leaves(self.structure.core)))


# -- [[A, dA], [0, A]] --------------------------------------------------------


class Near:
    """dp in units in which it is as large as p: results are linear in dp, but the steps of
    [[A, dA], [0, A]] are as many as |dA| asks for.
    """

    def __init__(self, rule: Rule, p: Tree, dp: Tree) -> None:
        self._name, flat = f"the derivative of {name_of(rule)}", leaves(dp)
        own = leaves(rule.core[0])
        moving = [(dx, axes) for dx, axes in zip(flat, own, strict=True) if dx is not None]
        fixed = zip(leaves(p), own, strict=True)
        # t_dp^2 dp and t_p^2 p are near 1: dp t_dp^2 / t_p^2 is as large as p
        self._powers = [(_balance(moving), 2), (_balance(fixed), -2)]
        self.tangent = rebuild(dp, list(map(self.inside, flat, own)))

    def inside(self, dx: Any, own: int) -> Any:
        return None if dx is None else in_units(dx, own, self._powers)

    def outside(self, y: Array, own: int) -> Array:
        return changed(self._name, y, own, [(t, -power) for t, power in self._powers])


def _balance(xs: Iterable[tuple[Array, int]]) -> Array:
    """t for the largest of all these numbers, of each member of a batch: a constant."""
    sizes = [magnitude(constant(x), tuple(range(-own, 0)))[(..., *(0,) * own)] for x, own in xs]
    return balance(reduce(namespace(sizes[0]).maximum, sizes))


def with_tangent(structure: Structure, p: Tree, dp: Tree) -> tuple[Structure, Tree]:
    """The matrix [[S(p), dS(p)[dp]], [0, S(p)]]: a structure, and its parameters."""
    n = structure.shape[0]
    if isinstance(structure, Linear):
        parts, places = (structure, structure.tangent, structure), ((0, 0), (0, 1), (1, 1))
        return structure.cached("tangent", lambda: Block(parts, places, (n, n), (n, n))), (p, dp, p)
    axes = tuple(leaves(structure.core))
    moving = (0 * x if dx is None else dx for x, dx in zip(leaves(p), leaves(dp), strict=True))
    operator = Operator(Pushed(structure), Pulled(structure), (2 * n, 2 * n), (*axes, *axes))
    return operator, (*leaves(p), *moving)


@dataclass(frozen=True)
class Pushed:
    """[x; y] -> [A x + dA y; A y]."""

    structure: Structure

    def __call__(self, params: Arrays, xy: Array) -> Array:
        (p, dp), n = self.halves(params), self.structure.shape[0]
        x, y = xy[..., :n, :], xy[..., n:, :]
        top = plus(self.structure.matmul(p, x), push(self.structure, p, dp, y))
        return _stacked(top, self.structure.matmul(p, y))

    def halves(self, params: Arrays) -> tuple[Tree, Tree]:
        """p and dp."""
        m, core = len(params) // 2, self.structure.core
        return rebuild(core, params[:m]), rebuild(core, params[m:])


@dataclass(frozen=True)
class Pulled(Pushed):
    """[x; y] -> [A^H x; dA^H x + A^H y], the adjoint."""

    def __call__(self, params: Arrays, xy: Array) -> Array:
        (p, dp), n, back = self.halves(params), self.structure.shape[0], self.structure.H
        x, y = xy[..., :n, :], xy[..., n:, :]
        return _stacked(back.matmul(p, x), plus(back.matmul(p, y), push(back, p, dp, x)))


# -- kernels ------------------------------------------------------------------


def _stacked(x: Array, y: Array) -> Array:
    dtype = result_dtype((x, y))
    x, y = astype(x, dtype), astype(y, dtype)
    batch = broadcast(batch_of(x, 2), batch_of(y, 2))
    return namespace(x).concat([spread(x, batch), spread(y, batch)], axis=-2)


def _wide(core: Tree, args: Tree) -> list[Array]:
    """The leaves with all batch axes, and blocks in the dtype of the result."""
    batch, dtype = common_batch(core, args), result_dtype(args)
    own = leaves(core)
    blocks = len(args) - 1
    flat = [spread(x, batch, c) for x, c in zip(leaves(args), own, strict=True)]
    return flat[:-blocks] + [astype(x, dtype) for x in flat[-blocks:]]


def _run(host: bool, f: Callable[..., Arrays], like: list[Array], flat: list[Array]) -> Arrays:
    """f(*flat), on the host where it may be; the results are like these."""
    if any(0 in x.shape for x in flat[-1:]):
        return tuple(0 * x for x in like)
    if not host:
        return f(*flat)
    specs = tuple((tuple(x.shape), numpy_dtype(x)) for x in like)
    return on_host(f, specs, *flat)


def _require_finite(structure: Structure, p: Tree, *blocks: Array) -> None:
    require_finite("A", *leaves(structure.unview()[0].read(p)))
    require_finite("B", *blocks)


def cases(structures: Any, draw: Any) -> Cases:
    kinds: tuple[type[Structure], ...] = (Sparse, Dense, Scaled)
    for structure, p in structures:
        n, m = structure.shape
        if n == m and isinstance(structure, kinds):
            kinds = tuple(kind for kind in kinds if not isinstance(structure, kind))
            yield ExponentialAction(structure, 0.7), (p, draw(n, 2))
            if isinstance(structure, Sparse):
                yield ExponentialProjection(structure, -0.3), (p, draw(n, 1), draw(n, 1))
