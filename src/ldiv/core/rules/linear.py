"""A structure linear (or affine) in p: two kernels on plain arrays, and two bilinear rules.

    apply(p, x, op)    y = op(S(p)) x            y = S(p) x:        dy = S(dp) x + S(p) dx
    project(u, v)      g = S^*(u v^H)            g = S^*(u v^H):    dg = S^*(du v^H) + S^*(u dv^H)

The derivatives of each rule use the other. A view S.T, S.H or S.C exchanges and conjugates the
arguments of the kernels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import batch_of, broadcast, conj, fold, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.rules import entry_programs
from ldiv.core.rules.compiled import CompiledCall
from ldiv.core.rules.rule import Rule, Traits, Unit, bind
from ldiv.core.rules.structure import (
    VIEWS,
    Structure,
    Wrapper,
    compose,
    nonzero,
    outer,
    plus,
    push,
    view_dense,
)
from ldiv.core.rules.units import of_matrix, of_rest


class Linear(Structure):
    """A structure linear or affine in p, a single array.

    A subclass writes `apply` and `project` on plain arrays.
    """

    @abstractmethod
    def apply(self, p: Tree, x: Array, op: str) -> Array:
        """op(S(p)) x."""

    @abstractmethod
    def project(self, u: Array, v: Array) -> Tree:
        """S^*(u v^H): the entries of u v^H that the structure has."""

    @property
    def tangent(self) -> Linear:
        """The structure of dS: S itself if it is linear."""
        return self

    @property
    def unit_powers(self) -> Tree | None:
        return 2 if self.tangent is self else None

    def matmul(self, p: Tree, x: Array) -> Array:
        return bind(self._matmul, p, x)[0]

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return bind(self.tangent._matmul, dp, x)[0]

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        if not leaves(p):
            return ()
        if u.ndim == v.ndim == 2:
            return bind(self._outer, u, v)[0]
        # p without batch axes: its cotangent is the sum over the batch
        if leaves(p)[0].ndim == leaves(self.core)[0]:
            u, v = (fold(spread(x, broadcast(batch_of(u, 2), batch_of(v, 2)))) for x in (u, v))
        return bind(self._outer, u, v)[0]

    @property
    def _matmul(self) -> Matmul:
        return self.cached("matmul", lambda: Matmul(self))

    @property
    def _outer(self) -> Outer:
        return self.cached("outer", lambda: Outer(self.tangent))

    def view(self, op: str) -> Structure:
        return self if op == "N" else self.cached(("view", op), lambda: View(self, op))


@dataclass(frozen=True)
class View(Wrapper, Linear):
    """op(base) for a linear base, op in T, C, H; it shares parameters and factorization with it."""

    base: Linear
    op: str

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.base.shape
        return (n, m) if VIEWS[self.op][0] else (m, n)

    @property
    def tangent(self) -> Linear:
        return self if self.base.tangent is self.base else View(self.base.tangent, self.op)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        return self.base.apply(p, x, compose(self.op, op))

    def project(self, u: Array, v: Array) -> Tree:
        transposed, conjugated = VIEWS[self.op]
        # <u v^H, S(dp)^T> = <conj(v) conj(u)^H, S(dp)>,   <u v^H, S(dp)^H> = <v u^H, S(dp)>
        if transposed != conjugated:
            u, v = conj(u), conj(v)
        return self.base.project(v, u) if transposed else self.base.project(u, v)

    def view(self, op: str) -> Structure:
        return self.base.view(compose(self.op, op))

    def todense(self, p: Tree) -> Array:
        return view_dense(self.base.todense(p), self.op)

    def unview(self) -> tuple[Structure, str]:
        return self.base, self.op


# -- the two bilinear rules ---------------------------------------------------


@dataclass(frozen=True)
class Matmul(Rule):
    """y = S(p) x;  dy = dS[dp] x + S dx;  p_bar = S^*(y_bar x^H), x_bar = S^H y_bar."""

    structure: Linear

    traits = Traits(may_overflow=True)

    @property
    def core(self) -> Trees:
        return (self.structure.core, 2)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (*of_matrix(self.structure, (2,), 1), of_rest(self.structure, (2,), (2,)))

    def kernel(self, p: Tree, x: Array) -> Arrays:
        return (self.structure.apply(p, x, "N"),)

    def program(self, *flat: Any) -> CompiledCall | None:
        return entry_programs.product(self.structure, *flat)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, x), (dp, dx) = args, tangents
        return (
            plus(
                push(self.structure, p, dp, x), None if dx is None else self.structure.matmul(p, dx)
            ),
        )

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, x), y_bar = args, nonzero(cotangents[0])
        return (
            outer(self.structure, p, y_bar, x, need[0]),
            self.structure.H.matmul(p, y_bar) if need[1] else None,
        )


class Bilinear(Rule):
    """y = f(u, v), linear in both arguments;  dy = f(du, v) + f(u, dv)."""

    units = Unit((2, 0), (2,)), Unit((0, 2), (2,))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (u, v), (du, dv) = args, tangents
        return (
            plus(
                None if du is None else bind(self, du, v)[0],
                None if dv is None else bind(self, u, dv)[0],
            ),
        )


@dataclass(frozen=True)
class Outer(Bilinear):
    """g = S^*(u v^H);  dg = S^*(du v^H + u dv^H);  u_bar = S(g_bar) v, v_bar = S(g_bar)^H u."""

    structure: Linear

    traits = Traits(may_overflow=True)
    core = (2, 2)

    def kernel(self, *args: Tree) -> Arrays:
        return (self.structure.project(*args),)

    def program(self, *flat: Any) -> CompiledCall | None:
        return entry_programs.sampled(self.structure, *flat)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (u, v), (g_bar,) = args, cotangents
        return (
            self.structure.matmul(g_bar, v) if need[0] else None,
            self.structure.H.matmul(g_bar, u) if need[1] else None,
        )
